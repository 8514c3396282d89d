"""How fast RE-ARC tasks are built, on one core and on two, against the plain loop over reasoning-gym's own data set.

    python benchmarks/rearc_build.py [--tasks 4000] [--rounds 3] [--output benchmarks/results/rearc_build.json]

Arms, each in a process of its own, in turns; the best of ``--rounds`` counts, as other work on the machine only adds:

``plain``     ``for i in range(n): dataset[i]`` over ``reasoning_gym``'s ``rearc``: 4 example pairs and a test, one core
``one``       what ``arcslim data build`` does, on one core: 400 generators × 10 tasks, every pair taken as it comes
``two``       the same on two cores
``limits 1``  the same on one core with the default limits (sides of 3 at least, no pair whose output is the input): two
              of three pairs are refused, and the generators that give nothing are found out
``limits 2``  the same on two cores

``busy 1``    a loop of additions on one core, ``busy 2`` one on each of two: what two cores of this machine are worth
              while others use it too

``draw`` is the time to draw the tasks (imports and the start of processes with it), ``build`` that and writing them.
All builds of the same settings must give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent / "results" / "rearc_build.json"
ARMS = {"plain": 1, "one": 1, "two": 2, "limits 1": 1, "limits 2": 2, "busy 1": 1, "busy 2": 2}
ADDITIONS = 60_000_000
AS_IT_COMES = {"min_side": 1, "allow_identity": True}
GOAL = 1.8


def run_arm(arm: str, tasks: int) -> dict[str, Any]:
    """In a process of its own: seconds, and for builds what came of it."""
    before = time.perf_counter()
    if arm.startswith("busy"):
        total = 0
        for number in range(ADDITIONS):
            total += number
        return {"tasks": tasks * ARMS[arm], "draw": time.perf_counter() - before}
    if arm == "plain":
        from reasoning_gym import create_dataset

        dataset = create_dataset("rearc", min_examples=4, max_examples=4, size=tasks, seed=0)
        made = [dataset[number] for number in range(tasks)]
        return {"tasks": len(made), "draw": time.perf_counter() - before}
    from arcslim.config import DataSection
    from arcslim.tasks.built import SETS, write_built
    from arcslim.tasks.manifest import about
    from arcslim.tasks.split import build_split

    limits = {} if arm.startswith("limits") else AS_IT_COMES
    data = DataSection(sources=("rearc",), tasks=tasks, holdout_select=0, workers=ARMS[arm], **limits)
    split = build_split(data, 0, lambda task: True)
    drawn = time.perf_counter() - before
    with tempfile.TemporaryDirectory() as folder:
        write_built(Path(folder), {name: getattr(split, name) for name in SETS}, about(split, data, 0, None))
        built = time.perf_counter() - before
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(folder).iterdir()))).hexdigest()
    generators = {task.family for task in split.train}
    return {
        "tasks": len(split.train),
        "generators": len(generators),
        "draw": drawn,
        "build": built,
        "sha256": digest,
        "counts": split.counts["rearc"],
    }


def measure(arm: str, tasks: int) -> dict[str, Any]:
    """One run of an arm, on as many cores as it is to have."""
    cores = sorted(os.sched_getaffinity(0))[: ARMS[arm]]
    before, load = resource.getrusage(resource.RUSAGE_CHILDREN), os.getloadavg()[0]
    line = [sys.executable, __file__, "--tasks", str(tasks), "--arm", arm]
    processes = [_start(line, cores[:1])]
    if arm == "busy 2":
        processes.append(_start(line, cores[1:]))
    elif len(cores) > 1:
        _pin_helper(processes[0], cores[1:])
    outputs = [process.communicate()[0] for process in processes]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows: list[dict[str, Any]] = [json.loads(output.splitlines()[-1]) for output in outputs]
    row = max(rows, key=lambda one: one["draw"])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row |= {"arm": arm, "cores": len(cores), "cpu": cpu, "load_before": load}
    print(f"{arm:10}{row['draw']:8.2f} s{cpu:8.2f} CPU s{load:7.1f} load", flush=True)
    return row


def _start(line: list[str], cores: list[int]) -> subprocess.Popen[str]:
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(process.pid, cores)
    return process


def _pin_helper(process: subprocess.Popen[str], cores: list[int]) -> None:
    """Give the process that helps a core of its own, so that the scheduler does not put both on one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        helpers = children.read_text().split()
        if helpers:
            os.sched_setaffinity(int(helpers[0]), cores)
            return
        time.sleep(0.005)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--arm", choices=ARMS, help="run this arm alone, in this process")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    if options.arm:
        print(json.dumps(run_arm(options.arm, options.tasks)))
        return 0
    from arcslim.runs.environment import cpu_model, git_commit, usable_threads
    from arcslim.runs.writing import write_json_atomic

    rows = [measure(arm, options.tasks) for _ in range(options.rounds) for arm in ARMS]
    best = {arm: min(row["draw"] for row in rows if row["arm"] == arm) for arm in ARMS}
    rates = {arm: options.tasks / seconds for arm, seconds in best.items() if not arm.startswith("busy")}
    speedups = {  # of tasks a second
        "two / one": rates["two"] / rates["one"],
        "limits 2 / limits 1": rates["limits 2"] / rates["limits 1"],
        "one / plain": rates["one"] / rates["plain"],
        "two / plain": rates["two"] / rates["plain"],
        "two cores of this machine": 2 * best["busy 1"] / best["busy 2"],
    }
    same = {
        kind: len({row["sha256"] for row in rows if row["arm"] in arms}) == 1
        for kind, arms in {"as it comes": ("one", "two"), "limits": ("limits 1", "limits 2")}.items()
    }
    for arm, rate in rates.items():
        print(f"{arm:10}{rate:9.1f} tasks/s")
    for name, speedup in speedups.items():
        print(f"{name:20}{speedup:6.2f}")
    print(f"the same bytes: {same}")
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(Path(__file__).parent),
        "machine": f"{usable_threads()} cores, {cpu_model()}, shared; nice {os.nice(0)}",
        "tasks": options.tasks,
        "goal": GOAL,
        "met": speedups["two / one"] >= GOAL,
        "tasks_a_second": rates,
        "speedups": speedups,
        "same_bytes": same,
        "mean_load": statistics.fmean(row["load_before"] for row in rows),
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(options.output, record)
    return 0 if all(same.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
