"""The study behind ``docs/log.md``: the same run with different rewards, several seeds each, on the embedded model.

    python benchmarks/grpo_study.py --all --jobs 2
    python benchmarks/grpo_study.py --cells floor:0 none:0 control:0

A cell is an arm and a seed: one ``arcslim grpo --preset cpu`` in a process of one thread. It is done when
``benchmarks/results/grpo/ARM-SEED.json`` is there; that file holds all that ``grpo_report.py`` needs. Calling the
script again does what is missing: an interrupted cell goes on from its newest checkpoint. A cell that fails leaves
``ARM-SEED.failed.json`` with its last lines, the others go on, and it is tried again next time. Ctrl-C and SIGTERM let
the running cells save first; a second one does not wait.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from arcslim.runs.figures import duration
from arcslim.runs.writing import read_rows, write_json_atomic, write_text_atomic
from benchmarks.grpo_record import summary

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "grpo"
SAVED = (130, 143)  # stopped by a signal, everything saved
LAST_LINES = 30


def _mode(mode: str) -> tuple[str, ...]:
    return ("--set", f"reward.min_thinking.mode={mode}")


LONGER = ("--max-steps", "60", "--set", "run.test_samples=8")  # than the demo, which has ten minutes
ARMS: dict[str, tuple[str, ...]] = {
    **{mode: _mode(mode) for mode in ("floor", "none", "bonus", "gate")},
    "control": (
        *("--reward", "arcslim.rewards.control:RandomReward", "--set", "reward.grid.weight=0"),
        *_mode("none"),
    ),
}


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    arm: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.arm}-{self.seed}"

    def arguments(self, extra: Sequence[str]) -> list[str]:
        """What is typed behind ``arcslim``, the run folder apart."""
        return ["grpo", "--preset", "cpu", "--seed", str(self.seed), *LONGER, *ARMS[self.arm], *extra]


def whole_grid() -> list[Cell]:
    """All cells, those that the claims rest on first."""
    first = [Cell(arm, seed) for seed in range(3) for arm in ("floor", "none", "control")]
    second = [Cell(arm, seed) for seed in range(3) for arm in ("bonus", "gate")]
    return first + second + [Cell(arm, seed) for seed in (3, 4) for arm in ("floor", "none", "bonus", "gate")]


def parse_cell(text: str) -> Cell:
    arm, _, seed = text.partition(":")
    if arm not in ARMS or not seed.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no cell: write ARM:SEED, with an arm of {', '.join(ARMS)}")
    return Cell(arm, int(seed))


# Running ------------------------------------------------------------------------------------------------------------


@dataclass
class Study:
    """Where things lie, and what is running."""

    work: Path
    results: Path
    extra: tuple[str, ...]
    running: dict[Cell, tuple[subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: list[Cell] = field(default_factory=list)

    def record(self, cell: Cell) -> Path:
        return self.results / f"{cell.name}.json"

    def failure(self, cell: Cell) -> Path:
        return self.record(cell).with_suffix(".failed.json")

    def folder(self, cell: Cell) -> Path:
        return self.work / cell.name

    def log(self, cell: Cell) -> Path:
        return self.work / f"{cell.name}.log"

    def attempts(self, cell: Cell) -> Path:
        return self.work / f"{cell.name}.attempts.jsonl"

    def command(self, cell: Cell) -> str:
        """As a reader types it; without the run folder, which is a place on this machine."""
        return shlex.join(["arcslim", *cell.arguments(self.extra)])

    def start(self, cell: Cell) -> None:
        """Begin a cell, or go on with it; never with a run folder that another command began."""
        note = self.work / f"{cell.name}.command"
        if self.folder(cell).exists() and note.exists() and note.read_text(encoding="utf-8") != self.command(cell):
            self._fail(cell, f"WORK/{cell.name} was begun by another command: move it away, or name another --work")
            return
        write_text_atomic(note, self.command(cell))
        command = [sys.executable, "-m", "arcslim", *cell.arguments(self.extra)]
        command += ["--run-dir", str(self.folder(cell)), "--resume", "auto"]
        with self.log(cell).open("ab") as log:
            log.write(f"\n$ {self.command(cell)}\n".encode())
            log.flush()
            # A session of its own: Ctrl-C in the terminal reaches this script, which passes it on once.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
                start_new_session=True,
            )
        self.running[cell] = (process, time.monotonic())
        say(f"{cell.name}: begun")

    def collect(self) -> None:
        """Take in the cells that have ended since."""
        for cell, (process, began) in list(self.running.items()):
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)  # and not poll(): wait4 tells the CPU time as well
            if not pid:
                continue
            process.returncode = os.waitstatus_to_exitcode(status)
            del self.running[cell]
            attempt = {
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "exit": process.returncode,
                "seconds": time.monotonic() - began,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
            }
            with self.attempts(cell).open("a", encoding="utf-8") as file:
                file.write(json.dumps(attempt) + "\n")
            self._end(cell, process.returncode)

    def _end(self, cell: Cell, code: int) -> None:
        if code in SAVED:
            say(f"{cell.name}: stopped and saved; it goes on next time")
            return
        why = f"exit code {code}"
        if code == 0:
            try:
                kept = summary(self.folder(cell))
            except (OSError, ValueError, KeyError) as error:
                why = f"{type(error).__name__}: {error}"
            else:
                write_json_atomic(self.record(cell), self._head(cell) | kept)
                self.failure(cell).unlink(missing_ok=True)
                start, end = (kept["figures"]["test"][name]["pass@1"] for name in ("start", "end"))
                say(f"{cell.name}: done; test pass@1 {start:.1%} → {end:.1%}")
                return
        self._fail(cell, why)

    def _fail(self, cell: Cell, why: str) -> None:
        lines = self.log(cell).read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        plain = [line.replace(str(self.work), "WORK").replace(str(ROOT), ".") for line in lines]
        write_json_atomic(self.failure(cell), self._head(cell) | {"why": why, "last_lines": plain})
        self.failed.append(cell)
        say(f"{cell.name}: FAILED ({why}); see {self.failure(cell)}")

    def _head(self, cell: Cell) -> dict[str, Any]:
        attempts = list(read_rows(self.attempts(cell)))
        return {
            "cell": cell.name,
            "arm": cell.arm,
            "seed": cell.seed,
            "command": self.command(cell),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(sum(attempt["seconds"] for attempt in attempts), 1),
            "cpu_seconds": round(sum(attempt["cpu_seconds"] for attempt in attempts), 1),
            "attempts": len(attempts),
        }

    def stop(self, signum: int) -> None:
        for process, _ in self.running.values():
            process.send_signal(signum)


def to_do(study: Study, cells: Iterable[Cell]) -> list[Cell]:
    """The cells without a record. One that was made by another command is left, and told."""
    missing = []
    for cell in dict.fromkeys(cells):
        if not study.record(cell).exists():
            missing.append(cell)
            continue
        made_by = json.loads(study.record(cell).read_text(encoding="utf-8"))["command"]
        if made_by != study.command(cell):
            say(f"{cell.name}: done before, by another command: {made_by}\n  move its record away to run it again")
        else:
            say(f"{cell.name}: done before")
    return missing


def run_all(study: Study, cells: Sequence[Cell], jobs: int) -> bool:
    """Run the cells, ``jobs`` at a time; False where a signal ended it early."""
    asked: list[int] = []

    def on_signal(signum: int, _frame: FrameType | None) -> None:
        asked.append(signum)
        say(f"stopping: {len(study.running)} cells save first" if len(asked) == 1 else "stopping now")
        study.stop(signal.SIGTERM if len(asked) == 1 else signal.SIGKILL)

    before_us = {signum: signal.signal(signum, on_signal) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        _take_turns(study, list(cells), jobs, asked)
    finally:
        for signum, handler in before_us.items():
            signal.signal(signum, handler)
    return not asked


def _take_turns(study: Study, waiting: list[Cell], jobs: int, asked: Sequence[int]) -> None:
    """Until all have ended, or those that run have after ``asked`` got a signal."""
    began, todo = time.monotonic(), len(waiting)
    while study.running or (waiting and not asked):
        while waiting and len(study.running) < jobs and not asked:
            study.start(waiting.pop(0))
        time.sleep(0.5)
        before = len(study.running)
        study.collect()
        done = todo - len(waiting) - len(study.running)
        if len(study.running) < before and done < todo and not asked:
            left = (time.monotonic() - began) / done * (todo - done)
            say(f"{done} of {todo} cells; about {duration(left)} left")


def say(words: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {words}", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cells", nargs="+", type=parse_cell, metavar="ARM:SEED", help=f"arms: {', '.join(ARMS)}")
    which.add_argument("--all", action="store_true", help="the whole grid, the most telling cells first")
    which.add_argument("--list", action="store_true", help="say which cells are done, and stop")
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time, each on one thread (about 2.5 GB each)")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "study", help="run folders and logs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the records")
    parser.add_argument(
        "--extra", nargs=argparse.REMAINDER, default=[], help="the rest of the line goes to every `arcslim grpo`"
    )
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    study = Study(options.work.resolve(), options.results.resolve(), tuple(options.extra))
    study.work.mkdir(parents=True, exist_ok=True)
    study.results.mkdir(parents=True, exist_ok=True)
    cells = options.cells or whole_grid()
    missing = to_do(study, cells)
    if options.list:
        print("not done:", " ".join(f"{cell.arm}:{cell.seed}" for cell in missing) or "none")
        return 0
    with (study.work / "study.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another study runs in {study.work}: name another place with --work", file=sys.stderr)
            return 2
        if not run_all(study, missing, options.jobs):
            return SAVED[0]
    return 1 if study.failed else 0


if __name__ == "__main__":
    sys.exit(main())
