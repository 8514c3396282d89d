"""Does memory stay flat while a large file streams? 100,000 puzzles through ``data build`` and ``data check``.

    python benchmarks/data_memory.py [--rows 100000] [--output FILE.json] [--picture docs/images/data_memory.png]

A file in BARC's form is made first: random puzzles of 4 pairs, 3 to 20 cells a side.
Each arm reads it in a process of its own, whose resident memory is noted every 2,000 rows:

``build``   what ``arcslim data build --data barc:FILE`` does with it: 2,000 tasks are asked for and 100 held out
``check``   what ``arcslim data check barc:FILE`` does with it
``keep``    for comparison: a list of all tasks, as a loader that reads everything would hold it
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

OUTPUT = Path(__file__).parent / "results" / "data_memory.json"
ARMS = ("build", "check", "keep")
EVERY = 2000
LABEL = 0.075  # of the picture's height, from one label to the next
PAGE = os.sysconf("SC_PAGE_SIZE")


def make_file(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(rows):
            height, width = rng.integers(3, 21, 2)
            grids = rng.integers(0, 10, (4, 2, height, width)).tolist()
            file.write(json.dumps({"source": "", "examples": grids, "seeds": []}) + "\n")


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def run_arm(arm: str, path: str) -> dict[str, Any]:
    """In a process of its own: resident MB by rows read."""
    from arcslim.config import DataSection
    from arcslim.tasks import reading
    from arcslim.tasks.audit import Audit
    from arcslim.tasks.spec import parse_spec
    from arcslim.tasks.split import build_split

    spec, seen = parse_spec(f"barc:{path}"), [(0, resident_mb())]

    def noted(spec: Any, pairs: int, passed_over: Any) -> Iterator[Any]:
        for number, row in enumerate(read(spec, pairs, passed_over), 1):
            yield row
            if number % EVERY == 0:
                seen.append((number, resident_mb()))

    read, reading.READERS["barc"] = reading.READERS["barc"], noted
    before = time.perf_counter()
    if arm == "build":
        data = DataSection(sources=(f"barc:{path}",), tasks=2000, holdout_select=100)
        came_of_it: Any = build_split(data, 0, lambda task: True).counts
    elif arm == "check":
        audit = Audit(4)
        found = sum(1 for _ in audit.look(spec))
        came_of_it = audit.looked[0].as_dict() | {"findings": found}
    else:
        came_of_it = len(list(reading.read_tasks(spec, 4)))
    seconds = time.perf_counter() - before
    return {"arm": arm, "resident_mb": seen, "seconds": seconds, "outcome": came_of_it}


def draw(rows: Sequence[dict[str, Any]], output: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from arcslim.runs.picture import COLOURS, FAINT, INK

    names = {"build": "data build", "check": "data check", "keep": "all tasks in a list"}
    figure = Figure(figsize=(7, 3.4), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    highest = max(megabytes for row in rows for _, megabytes in row["resident_mb"])
    label = -highest
    for row, colour in sorted(
        zip(rows, (*COLOURS[:2], "#777777"), strict=True), key=lambda one: one[0]["resident_mb"][-1][1]
    ):
        read, memory = zip(*row["resident_mb"], strict=True)
        axes.plot([number / 1000 for number in read], memory, color=colour, linewidth=1.8)
        label = max(memory[-1], label + LABEL * highest)  # lines that end side by side
        words = f"{names[row['arm']]}, {memory[-1]:.0f} MB"
        axes.text(1.015 * read[-1] / 1000, label, words, color=colour, va="center", fontsize=9, clip_on=False)
    last = rows[0]["resident_mb"][-1][0] / 1000
    axes.set(xlabel="thousand rows read", ylim=(0, None), xlim=(0, last), xticks=np.linspace(0, last, 6))
    axes.set_title("Resident memory while a file of puzzles is read, MB", loc="left", fontsize=10.5, color=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--arm", nargs=2, metavar=("ARM", "FILE"), help="run this arm alone, in this process")
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(run_arm(*options.arm)))
        return 0
    from arcslim.runs.environment import cpu_model, git_commit, usable_threads
    from arcslim.runs.writing import write_json_atomic

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "puzzles.jsonl"
        make_file(path, options.rows)
        size = path.stat().st_size
        rows = []
        for arm in ARMS:
            line = [sys.executable, str(Path(__file__).resolve()), "--arm", arm, path.name]
            done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True, cwd=folder)
            row = json.loads(done.stdout.splitlines()[-1])
            memory = [megabytes for _, megabytes in row["resident_mb"]]
            row |= {"grown_mb": memory[-1] - memory[0], "in_second_half_mb": memory[-1] - memory[len(memory) // 2]}
            rows.append(row)
            said = f"{memory[0]:.0f} MB at the start, {memory[-1]:.0f} at the end, "
            print(
                f"{arm:8}{said}{row['in_second_half_mb']:+.1f} in the second half, {row['seconds']:.0f} s", flush=True
            )
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(Path(__file__).parent),
        "machine": f"{usable_threads()} cores, {cpu_model()}, shared",
        "rows": options.rows,
        "file_mb": size / 2**20,
        "arms": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(options.output, record)
    if options.picture:
        draw(rows, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
