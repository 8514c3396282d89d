"""The check of a GPU machine, without a GPU: its limits, how parts are judged, and all of it in small on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts import gpu_check, gpu_check_parts
from scripts.gpu_check import check, limit_of, markdown, run_part
from scripts.gpu_check_parts import FAILED, GIB, OK, PARTS, ROOT, SKIPPED, Part, Setting, bench_judged
from tests.runs.made import RTX_4090


def setting(folder: Path, *, small: bool = False, gib: float | None = 24.0) -> Setting:
    return Setting(folder, small, gib)


def part(name: str, program: str, seconds: float = 1.0) -> Part:
    return Part(
        name, seconds, lambda *_: [sys.executable, "-c", program], lambda _, code: (OK, f"ended with {code}", {})
    )


# Time -------------------------------------------------------------------------------------------------------------


def test_all_limits_together_are_under_ten_minutes() -> None:
    assert sum(one.seconds for one in PARTS) <= gpu_check.TOTAL < 600


def test_time_that_a_part_leaves_goes_to_those_behind_it_and_the_total_holds() -> None:
    """Whatever the parts take of what they may, from nothing to all of it."""
    for share in (0.0, 0.3, 1.0):
        elapsed = 0.0
        for number, one in enumerate(PARTS):
            limit = limit_of(PARTS, number, elapsed)
            assert limit >= one.seconds
            elapsed += share * limit
        assert elapsed <= gpu_check.TOTAL
    assert limit_of(PARTS, len(PARTS) - 1, 0.0) == gpu_check.TOTAL


def test_a_part_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gpu_check, gpu_check_parts):
        monkeypatch.setattr(module, "GRACE", 2.0)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {stubborn!r}])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )
    began = time.monotonic()
    result = run_part(part("hangs", program), setting(tmp_path), 4.0)
    assert result.state == FAILED and "longer than its 4 s" in result.said
    assert time.monotonic() - began < 8
    child = Path("/proc", (tmp_path / "child").read_text(), "status")
    deadline = time.monotonic() + 5
    while child.exists() and "(zombie)" not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not child.exists() or "(zombie)" in child.read_text()


# A report ---------------------------------------------------------------------------------------------------------


def test_a_part_that_fails_stops_no_other_and_is_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Setting, __: int) -> Any:
        raise FileNotFoundError("no bench.json")

    parts = [
        part("fine", "print('hello')"),
        Part("dies", 1, lambda *_: [sys.executable, "-c", "raise ValueError('no such card')"], broken),
        Part("no-judge", 1, lambda *_: [sys.executable, "-c", ""], broken),
        Part("no-command", 1, lambda *_: ["/nowhere/program"], broken),
        Part("small-card", 1, lambda *_: [], broken, lambda _: "the card has 1 GiB | no more"),
        part("last", ""),
    ]
    assert check(setting(tmp_path), parts, "RTX 4090") == 1
    report = json.loads((tmp_path / "gpu_check.json").read_text())
    states = {one["name"]: one["state"] for one in report["parts"]}
    assert states == {
        "fine": OK, "dies": FAILED, "no-judge": FAILED, "no-command": FAILED, "small-card": SKIPPED, "last": OK,
    }  # fmt: skip
    said = {one["name"]: one["said"] for one in report["parts"]}
    assert said["dies"] == "exit code 1: ValueError: no such card" and "no bench.json" in said["no-judge"]
    text = (tmp_path / "gpu_check.md").read_text()
    assert "| dies | **failed** |" in text and "1 GiB \\| no more" in text
    printed = capsys.readouterr().out
    assert "failed: dies, no-judge, no-command" in printed and "Traceback" in printed, "the log of what failed is shown"
    assert check(setting(tmp_path), [part("fine", "")], "RTX 4090") == 0


def test_without_a_card_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "nvidia_smi", lambda: None)
    monkeypatch.delenv(gpu_check.SMALL, raising=False)
    assert gpu_check.main(["--out", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


def test_the_script_takes_python_from_where_one_stands(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "gpu_check.sh"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text('#!/bin/sh\necho "$0 $*"\n')
    (tmp_path / "bin" / "python").chmod(0o755)

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", str(script), *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = said("bin/python", "out")
    assert done.stdout.split() == [f"{tmp_path}/bin/python", "-m", "scripts.gpu_check", "--out", f"{tmp_path}/out"]
    missing = said("bin/nopython", "other")
    assert missing.returncode == 1 and "there is no bin/nopython" in missing.stderr
    asked = said("--help")
    assert asked.returncode == 0 and "scripts/gpu_check.sh [PYTHON] [OUT]" in asked.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "out"]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text("an older one, that would be judged as this one's")
    assert gpu_check.main(["--small", "--out", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


# How parts are judged ---------------------------------------------------------------------------------------------


def write_rewards(folder: Path, values: list[float], first: int = 1) -> None:
    (folder / "canary").mkdir(exist_ok=True)
    rows = [
        {"step": step, "kind": "train", "values": {"reward/total": value}} for step, value in enumerate(values, first)
    ]
    rows.append({"step": 0, "kind": "eval", "values": {}})
    (folder / "canary" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("values", "code", "state"),
    [
        ([0.5] * 10 + [0.9] * 10, 0, OK),
        ([0.5] * 10 + [0.55] * 10, 0, FAILED),
        ([0.9] * 10 + [0.5] * 10, 0, FAILED),
        ([0.5] * 5 + [0.9] * 10, 0, FAILED),
        ([0.5] * 10 + [0.9] * 10, 1, FAILED),
    ],
)
def test_a_reward_must_rise_over_twenty_steps(tmp_path: Path, values: list[float], code: int, state: str) -> None:
    write_rewards(tmp_path, values)
    assert gpu_check_parts.learns_judged(setting(tmp_path), code)[0] == state


def test_a_resumed_run_has_each_step_once(tmp_path: Path) -> None:
    write_rewards(tmp_path, [0.5] * 24)
    assert gpu_check_parts.resume_judged(setting(tmp_path), 0)[0] == OK
    assert gpu_check_parts.resume_judged(setting(tmp_path), 1)[0] == FAILED
    write_rewards(tmp_path, [0.5] * 20)
    assert gpu_check_parts.resume_judged(setting(tmp_path), 0)[0] == FAILED, "it did not go on"
    path = tmp_path / "canary" / "metrics.jsonl"
    path.write_text(path.read_text() + path.read_text())
    with pytest.raises(ValueError, match="twice"):
        gpu_check_parts.resume_judged(setting(tmp_path), 0)


@pytest.mark.parametrize(
    ("tests", "failures", "skipped", "code", "small", "state"),
    [
        (3, 0, 0, 0, False, OK), (3, 1, 0, 1, False, FAILED), (3, 0, 1, 0, False, FAILED), (3, 0, 3, 0, True, OK),
        (0, 0, 0, 5, False, FAILED),
    ],
)  # fmt: skip
def test_a_skipped_test_is_no_passed_one(
    tmp_path: Path, tests: int, failures: int, skipped: int, code: int, small: bool, state: str
) -> None:
    suite = f'<testsuite tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}"/>'
    (tmp_path / "gpu-tests.xml").write_text(f"<testsuites>{suite}</testsuites>")
    assert gpu_check_parts.tests_judged(setting(tmp_path, small=small), code)[0] == state


def benched(**row: Any) -> dict[str, Any]:
    whole = {
        "batch": 4, "rows": 16, "steps": 2, "samples_per_second": 0.5, "drawn_tokens": 128.0,
        "completion_tokens": 2048.0,
        "measured_bytes": 18 * GIB, "planned_bytes": 20 * GIB, "planned_share": 0.9,
        "tokens_per_second": {"update": 900.0}, "peaks": {"load": 6 * GIB, "update": 18 * GIB},
        "planned_peaks": {"load": 6 * GIB, "update": 20 * GIB},
    }  # fmt: skip
    return {"sizes": [whole | row]}


def test_a_peak_beyond_the_plans_band_is_a_failure() -> None:
    state, said, _ = bench_judged(benched(), 0, (8, 16), small=False)
    assert state == OK and "prompts a rollout: 1, in the preset 8" in said and "18.0 GiB measured, 20.0 planned" in said
    assert "128 of 2,048 tokens drawn" in said and "3 steps, the first to warm up" in said
    state, said, _ = bench_judged(benched(planned_share=1.2), 0, None, small=False)
    assert state == FAILED and "beyond the plan's error band of 15%" in said
    failed = {"sizes": [{"batch": 4, "failed": "out of memory in the update", "planned_bytes": 1}]}
    assert bench_judged(failed, 3, None, small=False)[:2] == (FAILED, "out of memory in the update")
    assert bench_judged(benched(), 1, None, small=False)[0] == FAILED


def test_the_report_has_each_bench_with_its_phases() -> None:
    parts = [{"name": "bench-4090-grpo", "state": OK, "said": "fine", "seconds": 80, "limit": 90, "figures": benched()}]
    text = markdown({"gpu": "RTX 4090", "small": False, "seconds": 80.0, "total_limit": 590.0, "parts": parts})
    assert "## bench-4090-grpo" in text and "| 4 | 0.5 | 900 | 18.00 | 20.00 | 90% |" in text
    assert "| 4 | 6.00 / 6.00 (100%) | 18.00 / 20.00 (90%) |" in text


def test_a_card_that_is_too_small_by_the_plan_skips_a_part(tmp_path: Path) -> None:
    """As the plan says, not as it is thought here."""
    (h100,) = [one for one in PARTS if one.name == "bench-h100-grpo"]
    why = h100.skip(setting(tmp_path, gib=23.99))
    assert why is not None and "the card has 23.6" in why
    (small,) = [one for one in PARTS if one.name == "bench-4090-grpo"]
    assert small.skip(setting(tmp_path, gib=23.99)) is None
    assert h100.skip(setting(tmp_path, gib=140.4)) is None


def test_a_bench_has_the_presets_own_settings() -> None:
    """But for what is said: a stand-in for the weights, fewer prompts, fewer drawn tokens."""
    for preset, card in (("4090", "random:Qwen2.5-7B"), ("h100", "random:Qwen2.5-7B")):
        for recipe in ("grpo", "sft"):
            (one,) = [part for part in PARTS if part.name == f"bench-{preset}-{recipe}"]
            line = one.command(Setting(Path("out"), False, 140.0), 90.0)
            assert line[line.index("--preset") + 1] == preset and line[line.index("--model") + 1] == card
            assert line[line.index("--batch-sizes") + 1] == "preset" and "--set" not in line
            assert float(line[line.index("--seconds") + 1]) < 90


# All of it --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_part_runs_in_small_with_a_card_that_nvidia_smi_alone_sees(tmp_path: Path) -> None:
    """The doctor must fail, as torch sees no card; nothing else does, and the report is there."""
    smi = tmp_path / "nvidia-smi"
    short = "NVIDIA GeForce RTX 4090, 580.95, 24564"
    smi.write_text(f"#!/bin/sh\ncase \"$*\" in *uuid*) echo '{RTX_4090}';; *) echo '{short}';; esac\n")
    smi.chmod(0o755)
    out = tmp_path / "out"
    variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", gpu_check.SMALL: "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "gpu_check.sh"), sys.executable, str(out)],
        capture_output=True, text=True, check=False, env=os.environ | variables, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((out / "gpu_check.json").read_text())
    assert report["gpu"] == "NVIDIA GeForce RTX 4090, driver 580.95, 24.0 GiB" and report["small"] is True
    states = {one["name"]: one["state"] for one in report["parts"]}
    assert states == {one.name: OK for one in PARTS} | {"doctor": FAILED}, done.stdout
    (doctor,) = [one for one in report["parts"] if one["name"] == "doctor"]
    assert "does not see the GPU" in doctor["said"]
    text = (out / "gpu_check.md").read_text()
    assert "nothing here says anything of a card" in text and "## bench-h100-sft" in text and "commit " in text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("-")] == []
