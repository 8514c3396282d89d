"""The parts of scripts/gpu_check.sh, which says how it is called; and its report, in JSON and Markdown.

Each part is a command with a limit of its own. A part that fails stops no other. The limits of all parts are given out
of one total: time that a part leaves goes to those behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from scripts.gpu_check_parts import FAILED, GRACE, PARTS, ROOT, SKIPPED, Part, Setting, card_of, environment

TOTAL = 590.0  # seconds, in the worst case
LAST_LINES = 15  # of a failed part's log that are shown
SMALL = "ARCSLIM_GPU_CHECK_SMALL"


@dataclass
class Result:
    """How a part went. ``said`` in words; ``figures`` for the JSON."""

    name: str
    state: str
    said: str
    seconds: float = 0.0
    limit: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)


# Running them -----------------------------------------------------------------------------------------------------


def limit_of(parts: Sequence[Part], number: int, elapsed: float) -> float:
    """What a part may take: all that is left but the shares of those behind it."""
    return TOTAL - elapsed - sum(part.seconds for part in parts[number + 1 :])


def run_line(line: list[str], log: Path, limit: float) -> int | None:
    """The exit code; None where it was ended for taking too long."""
    with log.open("wb") as said:
        process = start(line, said)
        try:
            return process.wait(timeout=max(1.0, limit - GRACE))
        except subprocess.TimeoutExpired:
            return None
        finally:  # a Ctrl-C as well
            if process.poll() is None:
                end(process)


def start(line: list[str], said: BinaryIO, **variables: str) -> subprocess.Popen[bytes]:
    """In a session of its own, so that it can be ended with all that it started."""
    return subprocess.Popen(
        line, cwd=ROOT, env=environment() | variables, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then end it and all that it started and that did not listen."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE - 1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the driver cannot be ended
        process.wait(timeout=1.0)


def run_part(part: Part, setting: Setting, limit: float) -> Result:
    began, log = time.monotonic(), setting.out / f"{part.name}.log"
    figures: dict[str, Any] = {}
    try:
        state, said = SKIPPED, part.skip(setting)
        if said is None:
            code = run_line(part.command(setting, limit), log, limit - (time.monotonic() - began))
            if code is None:
                state, said = FAILED, f"it took longer than its {limit:.0f} s"
            else:
                state, said, figures = judged(part, setting, code, log)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a part, those behind it are run
        state, said = FAILED, f"{type(error).__name__}: {error}"
    return Result(part.name, state, said, time.monotonic() - began, limit, figures)


def judged(part: Part, setting: Setting, code: int, log: Path) -> tuple[str, str, dict[str, Any]]:
    try:
        return part.judge(setting, code)
    except Exception as error:
        if code == 0:
            raise
        last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [str(error)])[-1]
        return FAILED, f"exit code {code}: {last.strip()}", {}


def write_weights(setting: Setting, parts: Sequence[Part]) -> subprocess.Popen[bytes] | None:
    """Random weights, written on the CPU while the first parts have the card; a bench that comes sooner writes them
    itself."""
    wanted = [
        f"made({card_of(preset)!r}, four_bit={four_bit}, on_gpu=True)"
        for preset, four_bit in (("4090", True), ("h100", False))
        if any(part.name.startswith(f"bench-{preset}-") and part.skip(setting) is None for part in parts)
    ]
    if setting.small or not wanted:
        return None
    code = "\n".join(["from arcslim.policy.random_weights import made", *wanted])
    with (setting.out / "weights.log").open("wb") as said:
        return start([sys.executable, "-c", code], said, CUDA_VISIBLE_DEVICES="")


def check(setting: Setting, parts: Sequence[Part], nvidia: str) -> int:
    """Run the parts, keep the report up to date, and return the exit code."""
    began = time.monotonic()
    report: dict[str, Any] = {"gpu": nvidia, "small": setting.small, "total_limit": TOTAL, "parts": []}
    weights = write_weights(setting, parts)
    try:
        for number, part in enumerate(parts):
            result = run_part(part, setting, limit_of(parts, number, time.monotonic() - began))
            print(f"{result.state:8}{result.name} ({result.seconds:.0f} s): {result.said}", flush=True)
            log = setting.out / f"{part.name}.log"
            if result.state == FAILED and log.is_file():
                print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]))
            report["parts"].append(vars(result))
            report["seconds"] = time.monotonic() - began
            write(setting.out, report)
    finally:
        if weights is not None and weights.poll() is None:
            end(weights)
    failed = [one["name"] for one in report["parts"] if one["state"] == FAILED]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'all is well'}; {setting.out / 'gpu_check.md'}")
    return 1 if failed else 0


# The report -------------------------------------------------------------------------------------------------------


def write(out: Path, report: dict[str, Any]) -> None:
    for name, text in (("gpu_check.json", json.dumps(report, indent=1) + "\n"), ("gpu_check.md", markdown(report))):
        temporary = out / f".{name}.new"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(out / name)


def markdown(report: dict[str, Any]) -> str:
    took = f"{report['seconds']:.0f} s of at most {report['total_limit']:.0f}"
    lines = ["# GPU check", "", f"- {report['gpu']}", f"- {took}", *versions(report)]
    if report["small"]:
        lines.append("- **in small: the script was tried, nothing here says anything of a card**")
    lines += ["", "| part | | s | of | |", "| --- | --- | ---: | ---: | --- |"]
    for part in report["parts"]:
        state = f"**{part['state']}**" if part["state"] == FAILED else part["state"]
        said = " ".join(part["said"].replace("|", "\\|").split())
        lines.append(f"| {part['name']} | {state} | {part['seconds']:.0f} | {part['limit']:.0f} | {said} |")
    return "\n".join([*lines, *bench_lines(report), ""])


def versions(report: dict[str, Any]) -> list[str]:
    """Of what it was checked, as far as the doctor knows."""
    told: dict[str, Any] = next((part["figures"] for part in report["parts"] if part["name"] == "doctor"), {})
    if "packages" not in told:
        return []
    names = ("torch", "unsloth", "trl", "bitsandbytes", "xformers")
    return [", ".join([f"- commit {told['arcslim_commit']}", *(f"{name} {told['packages'][name]}" for name in names)])]


def bench_lines(report: dict[str, Any]) -> list[str]:
    from arcslim.runs.bench_report import phase_table, table

    lines: list[str] = []
    for part in report["parts"]:
        if part["name"].startswith("bench-") and part["figures"].get("sizes"):
            lines += ["", f"## {part['name']}", "", table(part["figures"])]
            phases = phase_table(part["figures"])
            lines += ["", "Peak by phase, GiB, measured / planned:", "", phases] if phases else []
    return lines


def nvidia_smi() -> tuple[str, float] | None:
    """The first card, in words and in GiB; None where none is listed."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
        name, driver, memory = (cell.strip() for cell in done.stdout.splitlines()[0].split(","))
        return f"{name}, driver {driver}, {float(memory) / 1024:.1f} GiB", float(memory) / 1024
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for the report and the logs")
    parser.add_argument("--small", action="store_true", help=f"every part in small, on a CPU too (or {SMALL}=1)")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], help="these parts alone")
    arguments = parser.parse_args(words)
    small = arguments.small or os.environ.get(SMALL) == "1"
    card = nvidia_smi()
    if card is None and not small:
        print("no NVIDIA GPU here: nvidia-smi lists none", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only is None and any(arguments.out.iterdir()):
        print(f"{arguments.out} is not empty: give another folder", file=sys.stderr)
        return 2
    setting = Setting(arguments.out.resolve(), small, None if card is None else card[1])
    parts = [part for part in PARTS if arguments.only is None or part.name in arguments.only]
    return check(setting, parts, "no GPU" if card is None else card[0])


if __name__ == "__main__":
    sys.exit(main())
