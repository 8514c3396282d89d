"""What scripts/gpu_check.py runs: each part's command, and how its outcome is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GRACE = 5.0  # of a part's limit, for it to end by itself
START = 25.0  # seconds until a bench has imported what it needs, which its own clock does not see
DRAWN = 128  # tokens of a completion that are drawn; 2,048 take minutes without vLLM, and the update is as large
RISE = 0.1  # of the mean reward, last five steps against first five; two CPU cores have +0.3
WINDOW = 5
BAND = 0.15  # the plan's error band
OK, FAILED, SKIPPED = "ok", "failed", "skipped"
GIB = 1024**3
USABLE = 0.985  # of what nvidia-smi calls a card's memory


@dataclass(frozen=True)
class Setting:
    """What all parts know. ``gib``: the card's memory, None where none is listed. ``small``: a trial without a card."""

    out: Path
    small: bool
    gib: float | None


Judged = tuple[str, str, dict[str, Any]]  # state, words, figures


@dataclass(frozen=True)
class Part:
    """``seconds``: its share of the total. ``command`` gets the setting and its limit, and gives words for `arcslim` or
    a whole line; ``judge`` gets the exit code. ``skip`` says in words why it does not apply here."""

    name: str
    seconds: float
    command: Callable[[Setting, float], list[str]]
    judge: Callable[[Setting, int], Judged]
    skip: Callable[[Setting], str | None] = lambda _: None


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths)}


def arcslim(*words: object) -> list[str]:
    return [sys.executable, "-m", "arcslim", *map(str, words)]


def doctor_judged(setting: Setting, code: int) -> Judged:
    text = (setting.out / "doctor.log").read_text(encoding="utf-8")
    told = json.loads(text[text.index("{") : text.rindex("}") + 1])  # a library may have had a word before
    off = [f"{check['name']} {check['state']}: {check['found']}" for check in told["checks"] if check["state"] != "ok"]
    return OK if code == 0 else FAILED, "; ".join(off) or "all is well", told


def canary(setting: Setting, *more: str) -> list[str]:
    sets = ["optim.optim=paged_adamw_8bit"]
    if setting.small:
        sets += ["data.tasks=16", "data.holdout_select=4", "run.save_steps=2", "run.eval_steps=2"]
    words = [word for one in sets for word in ("--set", one)]
    return arcslim("grpo", "--preset", "canary", *words, "--run-dir", setting.out / "canary", *more)


def steps_of(setting: Setting, *, resumed: bool) -> int:
    first, more = (2, 2) if setting.small else (20, 4)
    return first + (more if resumed else 0)


def rewards(setting: Setting) -> dict[int, float]:
    """The mean reward of each training step. Raises ValueError where a step is there twice."""
    lines = (setting.out / "canary" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "train"]
    found = {row["step"]: row["values"]["reward/total"] for row in rows}
    if len(found) != len(rows):
        raise ValueError("a step stands twice in metrics.jsonl")
    return found


def learns_judged(setting: Setting, code: int) -> Judged:
    values = list(rewards(setting).values())
    wanted = steps_of(setting, resumed=False)
    start, end = fmean(values[:WINDOW]), fmean(values[-WINDOW:])
    figures = {"steps": len(values), "reward_start": start, "reward_end": end}
    said = f"mean reward {start:.2f} in the first steps, {end:.2f} in the last of {len(values)}"
    if code or len(values) != wanted:
        return FAILED, f"exit code {code}; {said}, {wanted} steps were to be made", figures
    if setting.small:
        return OK, f"{said}: too few to learn anything", figures
    return OK if end - start >= RISE else FAILED, f"{said}; a rise of {RISE} is wanted", figures


def resume_judged(setting: Setting, code: int) -> Judged:
    steps = sorted(rewards(setting))
    wanted = list(range(1, steps_of(setting, resumed=True) + 1))
    whole = code == 0 and steps == wanted
    said = f"steps 1 to {len(steps)}, each once" if steps == wanted else f"steps {steps}, and not {wanted}"
    return OK if whole else FAILED, f"exit code {code}; {said}", {"steps": steps}


def tests_judged(setting: Setting, code: int) -> Judged:
    suite = ElementTree.parse(setting.out / "gpu-tests.xml").getroot().find("testsuite")
    assert suite is not None
    counts = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    said = f"{passed} passed, {counts['failures'] + counts['errors']} failed, {counts['skipped']} skipped"
    # One that is skipped on a card was not run anywhere.
    good = code == 0 and (setting.small or (passed > 0 and counts["skipped"] == 0))
    return OK if good else FAILED, said, counts


def bench_name(preset: str, recipe: str) -> str:
    return f"bench-{preset}-{recipe}"


def card_of(preset: str) -> str:
    """`random:` with the shapes of the preset's own model."""
    from arcslim.cards import find_model
    from arcslim.presets import load_config

    return f"random:{find_model(load_config(preset).config.model.name).name}"


def shrunk(setting: Setting) -> list[str]:
    """What makes a preset's bench a matter of seconds on a CPU."""
    sets = ["prompt.max_tokens=24", "generation.max_completion_length=16", "sft.max_length=48"]
    return [word for one in sets for word in ("--set", one)] if setting.small else []


def model_of(setting: Setting, preset: str) -> str:
    return "tiny" if setting.small else card_of(preset)


@cache
def too_small(setting: Setting, preset: str, recipe: str) -> str | None:
    """Why by the plan the card cannot do it; None where it can."""
    line = arcslim("plan", "--preset", preset, "--recipe", recipe, "--model", model_of(setting, preset))
    line += [*shrunk(setting), "--gpu", f"{setting.gib * USABLE:.2f}" if setting.gib else "cpu", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment(), cwd=ROOT, timeout=30)
    if done.returncode != 3:
        return None
    plan = json.loads(done.stdout)
    return f"the plan needs {plan['peak_bytes'] / GIB:.1f} GiB, the card has {plan['usable_bytes'] / GIB:.1f}"


def bench(preset: str, recipe: str, seconds: float) -> Part:
    """Three steps of the recipe's trainer at the preset's own sizes, with as few prompts as they allow."""

    def command(setting: Setting, limit: float) -> list[str]:
        words = ("bench", "--preset", preset, "--recipe", recipe, "--model", model_of(setting, preset))
        drawn = ("--draw", 8 if setting.small else DRAWN) if recipe == "grpo" else ()
        options = ("--batch-sizes", "preset", "--steps", 2, *drawn)
        time_left = ("--seconds", max(1.0, round(limit - GRACE - START)))
        out = ("--out", setting.out / bench_name(preset, recipe))
        return arcslim(*words, *options, *time_left, *out, *shrunk(setting))

    def judge(setting: Setting, code: int) -> Judged:
        report = json.loads((setting.out / bench_name(preset, recipe) / "bench.json").read_text(encoding="utf-8"))
        return bench_judged(report, code, groups_of(preset) if recipe == "grpo" else None, small=setting.small)

    return Part(bench_name(preset, recipe), seconds, command, judge, lambda setting: too_small(setting, preset, recipe))


def groups_of(preset: str) -> tuple[int, int]:
    """Of a preset: prompts of a rollout, completions of a prompt."""
    from arcslim.presets import load_config

    config = load_config(preset).config
    group = config.grpo.num_generations
    return config.optim.per_device_train_batch_size * config.grpo.steps_per_generation // group, group


def bench_judged(report: dict[str, Any], code: int, groups: tuple[int, int] | None, *, small: bool) -> Judged:
    """``groups``: as ``groups_of`` gives them, None where nothing is drawn."""
    (row,) = report["sizes"]
    if "failed" in row or code:
        return FAILED, row.get("failed", f"exit code {code}"), report
    said = [f"{row['samples_per_second']:.3g} samples/s", f"{1 + row['steps']} steps, the first to warm up"]
    if groups is not None:
        prompts, group = groups
        said.append(f"prompts a rollout: {row['rows'] // group}, in the preset {prompts}")
        said.append(f"{row['drawn_tokens']:,.0f} of {row['completion_tokens']:,.0f} tokens drawn, the rest made up")
    measured, planned, share = row["measured_bytes"] / GIB, row["planned_bytes"] / GIB, row["planned_share"]
    said.append(f"{measured:.1f} GiB measured, {planned:.1f} planned ({share:.0%})")
    held = small or share <= 1 + BAND
    if not held:
        said.append(f"that is beyond the plan's error band of {BAND:.0%}")
    return OK if held else FAILED, "; ".join(said), report


PARTS = (
    Part("doctor", 45, lambda s, _: arcslim("doctor", "--run-dir", s.out, "--json"), doctor_judged),
    Part("learns", 95, lambda s, _: canary(s, "--max-steps", str(steps_of(s, resumed=False))), learns_judged),
    Part(
        "resume",
        50,
        lambda s, _: canary(s, "--max-steps", str(steps_of(s, resumed=True)), "--resume", "newest"),
        resume_judged,
    ),
    Part(
        "gpu-tests",
        100,
        lambda s, _: [
            sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests", f"--junitxml={s.out / 'gpu-tests.xml'}",
            "-p", "no:cacheprovider",
        ],
        tests_judged,
    ),
    bench("4090", "grpo", 90),
    bench("4090", "sft", 60),
    bench("h100", "sft", 65),
    bench("h100", "grpo", 80),
)  # fmt: skip
