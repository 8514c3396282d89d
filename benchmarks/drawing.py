"""How many drawing programs are read and drawn a second, against running the same in a subprocess with a time limit.

    python benchmarks/drawing.py [--seconds 2] [--subprocesses 40] [--output benchmarks/results/drawing.json]

The programs are different ones, of ten calls each, on a 10 x 10 canvas: drawn at random, written as a trained model
writes them, and read and run anew each time. The subprocess is what `exec` in a process of its own costs: a Python with
NumPy that runs the program and prints the image, stopped after some seconds. Both are held to draw the same images.

Rates are of one core's time, the best of many passes, since the machine has other work as well; a subprocess's is the
processor time of the child that took least. The time on the clock is the mean.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from arcslim.tasks.drawing import PARAMETERS, Call, DrawingRefused, Program
from arcslim.tasks.drawing_choice import prune
from arcslim.tasks.drawing_paint import DRAW
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.random_drawings import drawing_at

PROGRAMS, CALLS, SIDE, TIME_LIMIT = 500, 10, 10, 10.0
GOAL_RATE, GOAL_RATIO, GOAL_MS = 5_000, 1_000, 10.0
Row = tuple[str, float, float | None]  # name, measured, goal

RUNNER = """
import sys
import numpy as np

def create_img(shape, color=0):
    return np.full(shape, color, dtype=np.int8)

def draw_pixel(img, point, color):
    if 0 <= point[0] < img.shape[0] and 0 <= point[1] < img.shape[1]:
        img[point[0], point[1]] = color
    return img

def draw_horizontal_line(img, y, color):
    if 0 <= y < img.shape[0]:
        img[y] = color
    return img

def draw_vertical_line(img, x, color):
    if 0 <= x < img.shape[1]:
        img[:, x] = color
    return img

def draw_rectangle(img, point1, point2, color):
    img[max(point1[0], 0):point2[0] + 1, max(point1[1], 0):point2[1] + 1] = color
    return img

def draw_line(img, point1, point2, color):
    row, column = point1
    columns, rows = abs(point2[1] - column), -abs(point2[0] - row)
    error = columns + rows
    while True:
        draw_pixel(img, (row, column), color)
        if (row, column) == point2:
            return img
        twice = 2 * error
        if twice >= rows:
            error, column = error + rows, column + (1 if column < point2[1] else -1)
        if twice <= columns:
            error, row = error + columns, row + (1 if row < point2[0] else -1)

exec(sys.stdin.read())
print("/".join("".join(map(str, row)) for row in task(np.zeros((10, 10), dtype=np.int8)).tolist()))
"""


def made_programs() -> list[Program]:
    rng, programs = random.Random(0), []
    for _ in range(PROGRAMS):
        calls = []
        for _ in range(CALLS):
            name = rng.choice(sorted(DRAW))
            points = sum(2 if kind == "point" else 1 for _, kind in PARAMETERS[name]) - 1
            numbers = [rng.randrange(SIDE) for _ in range(points)]
            if name == "draw_rectangle":
                numbers = [min(numbers[0::2]), min(numbers[1::2]), max(numbers[0::2]), max(numbers[1::2])]
            calls.append(Call(name, (*numbers, rng.randrange(10))))
        programs.append(Program(tuple(calls)))
    return programs


def rate(call: Callable[[], object], items: int, seconds: float) -> float:
    """Items a second of one core's time."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return items / best


def run_apart(source: str) -> str:
    """One program in a Python of its own: its image, as rows with a stroke between."""
    command = [sys.executable, "-c", RUNNER]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return done.stdout.strip()


def time_apart(sources: list[str], images: list[str]) -> tuple[float, float]:
    """Seconds a program in a subprocess: processor time of the best child, and the mean on the clock."""
    start, used = time.perf_counter(), [children_seconds()]
    for source, image in zip(sources, images, strict=True):
        if run_apart(source) != image:
            raise SystemExit(f"the subprocess drew another image:\n{source}")
        used.append(children_seconds())
    return min(after - before for before, after in pairwise(used)), (time.perf_counter() - start) / len(sources)


def children_seconds() -> float:
    """Processor time of the children that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hostile() -> dict[str, str]:
    """Programs that are refused as late as can be, or that are large."""
    call = "    img = draw_line(img,point1=(0, 1), point2=(3, 4), color=2)\n"
    return {
        "1 MB of calls": "def task(img):\n" + call * 17_000 + "    return img\n",
        "1 MB of brackets": "(" * 2**20,
        "128 calls, then no image": "def task(img):\n" + call * 127 + "    return task\n",
        "12 KB of lambda": "\n".join("lambda:" * 20 + "1" for _ in range(85)),
        "a coordinate of 10^9": "def task(img):\n" + call.replace("3,", "1000000000,") + "    return img\n",
        "__import__": "def task(img):\n    img = __import__('os').system('id')\n    return img\n",
    }


def refuse(source: str) -> None:
    try:
        parse_program(source)
    except DrawingRefused:
        return
    raise SystemExit(f"not refused: {source[:80]}")


def measure(seconds: float, subprocesses: int) -> list[Row]:
    programs = made_programs()
    blank = np.zeros((SIDE, SIDE), dtype=np.int8)
    plain = [program.to_source() for program in programs]
    spaced = [source.replace("(img, ", "(img,") for source in plain]
    images = ["/".join("".join(map(str, row)) for row in program.run(blank).tolist()) for program in programs]

    def read_and_draw(sources: list[str]) -> None:
        for source in sources:
            parse_program(source).run(blank)

    ours = rate(partial(read_and_draw, plain), PROGRAMS, seconds)
    by_ast = rate(partial(read_and_draw, spaced), PROGRAMS, seconds)
    drawn = rate(lambda: [program.run(blank) for program in programs], PROGRAMS, seconds)
    pruned = rate(lambda: [prune(program, blank) for program in programs], PROGRAMS, seconds)
    made = rate(lambda: [drawing_at(0, index) for index in range(PROGRAMS)], PROGRAMS, seconds)
    used, wall = time_apart(plain[:subprocesses], images[:subprocesses])
    rows: list[Row] = [
        ("read and drawn a second", ours, GOAL_RATE),
        ("the same, written otherwise (by ast)", by_ast, None),
        ("drawn a second", drawn, None),
        ("pruned a second", pruned, None),
        ("random drawings a second", made, None),
        ("in a subprocess, a second of its time", 1 / used, None),
        ("in a subprocess, a second on the clock", 1 / wall, None),
        ("times as many as in a subprocess", ours * used, GOAL_RATIO),
        ("times as many, written otherwise", by_ast * used, None),
    ]
    for name, source in hostile().items():
        rows.append((f"refused, {name}: ms", 1_000 / rate(partial(refuse, source), 1, seconds / 4), GOAL_MS))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--subprocesses", type=int, default=40, help="programs that are run in one")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "drawing.json")
    options = parser.parse_args()

    record, all_met = [], True
    print(f"{'':44}{'measured':>12}{'goal':>10}")
    for name, measured, goal in measure(options.seconds, options.subprocesses):
        met = goal is None or (measured < goal if name.endswith("ms") else measured >= goal)
        all_met &= met
        verdict = "" if goal is None else f"{goal:10,.0f}  {'met' if met else 'MISSED'}"
        print(f"{name:44}{measured:12,.2f}{verdict}")
        record.append({"name": name, "measured": measured, "goal": goal, "met": met})
    options.output.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "programs": PROGRAMS,
        "calls_each": CALLS,
        "rows": record,
    }
    options.output.write_text(json.dumps(facts, indent=2) + "\n")
    return 0 if all_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
