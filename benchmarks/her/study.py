"""The HER study behind ``docs/her.md`` and ``docs/log.md``: a grid of small runs on the embedded model, which resumes.

    python benchmarks/her/study.py --kind solve
    python benchmarks/her/study.py --all --jobs 2
    python benchmarks/her/study.py --report

Kinds: ``base`` (what the model draws without learning, by temperature, with a HER run's whole budget), ``solve`` (the
preset's run, five seeds), ``ladder`` (targets by programs an epoch), ``ablation`` (what each part is for, at equal
generations), ``explore`` (exploring with and without exploiting, ten seeds), ``grpo`` (GRPO with the drawing reward).

A cell is done when ``benchmarks/results/her/CELL.json`` is there; calling the script again does what is missing. Cells
of one process share one import of the stack; each loads the model anew, on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arcslim.runs.writing import write_json_atomic

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "her"
GRPO_PRESET = ROOT / "benchmarks" / "her" / "grpo_draw.toml"
TARGET = "9-vertical-lines"
BUDGET = 4096  # programs: the preset's her.max_generations
EQUAL = 1024  # programs of an ablation's cell
TEMPERATURES = (0.5, 0.7, 0.9, 1.0)
LADDER = (
    TARGET,
    "4-squares",
    "6-squares",
    "9-squares",
    "12-squares",
    "16-squares",
    "20-squares",
    "25-squares",
    "chick",
)
LIMITS = {"16-squares": 360.0}  # seconds; the others 120
EPOCHS = (4, 16, 64, 128)
EXPLORED = "12-squares"
ARMS: dict[str, tuple[str, ...]] = {
    "whole": (),
    "no-training": ("her.train=false",),
    "no-relabelling": ("her.relabel=false",),
    "shuffled": ("her.shuffle_pairs=true",),
    "no-novelty": ("her.novel_only=false",),
    "no-shortest": ("her.shortest_only=false",),
    "replay-lap": ("her.replay=lap",),
    "replay-uniform": ("her.replay=uniform",),
}


def samplers(number: int) -> str:
    """One in eight exploits, the others explore."""
    low = max(number // 8, 1)
    return f'her.samplers=["{low}@0.1","{number - low}@0.9"]'


@dataclass(frozen=True)
class Cell:
    """One run. ``sets``: knobs over the preset ``cpu``; ``seconds``: of processor time that it may take."""

    name: str
    target: str
    seed: int
    sets: tuple[str, ...] = ()
    seconds: float = 600.0
    recipe: str = "her"

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.json"


def cells(kind: str) -> list[Cell]:
    capped = (f"her.max_generations={EQUAL}", "her.patience=0")
    if kind == "base":
        every = f"her.max_generations={BUDGET}", "her.patience=0", "her.train=false", "her.rollout_batch=256"
        return [
            Cell(f"base-{at}", TARGET, 0, (*every, f'her.samplers=["256@{at}"]', "her.max_epochs=1000"))
            for at in TEMPERATURES
        ]
    if kind == "solve":
        return [Cell(f"solve-{seed}", TARGET, seed) for seed in range(5)]
    if kind == "ladder":
        return [
            Cell(
                f"ladder-{name}-{number}",
                name,
                0,
                (samplers(number), "her.patience=0", "her.max_epochs=2000"),
                LIMITS.get(name, 120.0),
            )
            for name in LADDER
            for number in EPOCHS
        ]
    if kind == "ablation":
        return [
            Cell(f"ablation-{arm}-{seed}", TARGET, seed, (*capped, *sets), 90.0)
            for arm, sets in ARMS.items()
            for seed in range(5)
        ]
    if kind in ("explore", "explore32"):
        number, seconds = (64, 90.0) if kind == "explore" else (32, 40.0)
        arms = {"both": samplers(number), "explore": f'her.samplers=["{number}@0.9"]'}
        return [
            Cell(f"{kind}-{arm}-{seed}", EXPLORED, seed, ("her.patience=0", sets), seconds)
            for seed in range(10)
            for arm, sets in arms.items()
        ]
    names = (TARGET, "4-squares", "12-squares", "16-squares")
    return [Cell(f"grpo-{name}-{seed}", name, seed, (), 900.0, "grpo") for name in names for seed in range(2)]


KINDS = ("solve", "base", "ablation", "explore", "explore32", "ladder", "grpo")


@dataclass
class Kept:
    """A sink and store that keeps the figures of each epoch and what was drawn best."""

    path: Path
    began: float = field(default_factory=time.monotonic)
    cpu_began: float = field(default_factory=time.process_time)
    rows: list[dict[str, Any]] = field(default_factory=list)
    best: float = 0.0
    drawn: int = 0
    solved_at: int | None = None

    def metrics(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        if kind == "train":
            self.rows.append({"step": step, "seconds": round(time.monotonic() - self.began, 2), **values})

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """GRPO writes every rollout down: the first that draws the target counts."""
        for row in rows:
            self.drawn += 1
            accuracy = float(row["score"]["parts"].get("drawing", 0.0))
            self.best = max(self.best, accuracy)
            if accuracy == 1.0 and self.solved_at is None:
                self.solved_at = self.drawn

    def task_rows(self, rows: Any) -> None: ...
    def event(self, step: int, event: str, detail: str) -> None: ...
    def progress(self, step: int, total: int, **facts: Any) -> None: ...
    def mark_best(self, step: int) -> None: ...
    def prune(self, keep: int, best: int | None = None) -> list[str]:
        return []

    def rewind(self) -> list[str]:
        return []

    def write_text(self, name: str, text: str) -> None: ...


class InTime:
    """Asks to stop when the cell's time is over, or when GRPO has what it was asked for."""

    def __init__(self, kept: Kept, seconds: float) -> None:
        self._kept, self._seconds = kept, seconds

    @property
    def requested(self) -> bool:
        late = time.process_time() - self._kept.cpu_began > self._seconds  # what else runs must not count
        return late or self._kept.solved_at is not None or self._kept.drawn >= BUDGET

    def check(self) -> None:
        from arcslim.errors import Stopped

        if self.requested:
            raise Stopped("the cell is over", signum=15)


def run_cell(cell: Cell, cache: Path) -> dict[str, Any]:
    from arcslim.errors import Stopped
    from arcslim.presets import load_config

    preset = str(GRPO_PRESET) if cell.recipe == "grpo" else "cpu"
    flags: dict[str, object] = {"run.seed": cell.seed}
    if cell.recipe == "grpo":
        flags |= {"data.sources": [f"draw:{cell.target}"]}
    else:
        flags |= {"her.target": cell.target}
    config = load_config(preset, cell.sets, flags, recipe=cell.recipe).config
    if cell.recipe == "grpo":
        from arcslim.recipes.grpo import run
    else:
        from arcslim.recipes.her import run  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as place:
        kept = Kept(Path(place))
        with contextlib.suppress(Stopped):
            run(config, kept, kept, InTime(kept, cell.seconds), cache_dir=cache)  # type: ignore[arg-type]
        seconds = time.monotonic() - kept.began
    return _record(cell, kept, seconds, time.process_time() - kept.cpu_began)


def _record(cell: Cell, kept: Kept, seconds: float, cpu: float) -> dict[str, Any]:
    last = kept.rows[-1] if kept.rows else {}
    if cell.recipe == "grpo":
        solved, drawn, best = kept.solved_at is not None, kept.drawn, kept.best
    else:
        solved = bool(last.get("her/solved", 0.0))
        drawn, best = int(last.get("her/generations_total", 0)), float(last.get("her/best_pixel_accuracy", 0.0))
    return {
        "cell": cell.name,
        "target": cell.target,
        "seed": cell.seed,
        "sets": list(cell.sets),
        "recipe": cell.recipe,
        "solved": solved,
        "generations": kept.solved_at if cell.recipe == "grpo" and kept.solved_at else drawn,
        "epochs": len(kept.rows),
        "best": best,
        "accuracy_by_epoch": [round(float(row.get("her/epoch_pixel_accuracy", 0.0)), 4) for row in kept.rows],
        "unique_rate": [round(float(row.get("her/unique_rate", 0.0)), 3) for row in kept.rows],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "limit_seconds": cell.seconds,
        "machine": f"{platform.machine()}, one thread, other work on the other core",
    }


def run_some(names: Sequence[str]) -> None:
    """The cells of these names, one after the other in this process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known = {cell.name: cell for kind in KINDS for cell in cells(kind)}
    with tempfile.TemporaryDirectory() as cache:
        for name in names:
            cell = known[name]
            if cell.path.is_file():
                continue
            write_json_atomic(cell.path, run_cell(cell, Path(cache)))
            print(f"{name} done", flush=True)


def run_all(kinds: Sequence[str], jobs: int) -> int:
    """What is missing, over ``jobs`` processes; those that die are started again where they were, as long as that gets
    any cell done. The exit code: 1 where cells are missing all the same, which are named."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    before: list[str] = []
    while (missing := _missing(kinds)) and missing != before:
        parts = [missing[number::jobs] for number in range(jobs)]
        words = [[sys.executable, __file__, "--cells", *part] for part in parts if part]
        for child in [subprocess.Popen(line, env=environment) for line in words]:
            child.wait()
        before = missing
    if missing:
        print(f"not done: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


def _missing(kinds: Sequence[str]) -> list[str]:
    return [cell.name for kind in kinds for cell in cells(kind) if not cell.path.is_file()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kind", choices=KINDS, action="append", default=[])
    options.add_argument("--all", action="store_true")
    options.add_argument("--cells", nargs="+", default=[])
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--report", action="store_true")
    asked = options.parse_args()
    if asked.cells:
        run_some(asked.cells)
    elif asked.report:
        from report import report

        print(report(RESULTS))
    else:
        sys.exit(run_all(KINDS if asked.all else asked.kind, asked.jobs))


if __name__ == "__main__":
    main()
