"""How fast RE-ARC tasks are built, on one core and on two, against the plain loop over reasoning-gym's own data set.

    python benchmarks/rearc_build.py [--tasks 4000] [--rounds 3] [--quiet 60] [--output FILE.json]

Arms, each in a process of its own, in turns; the best of ``--rounds`` counts, as other work on the machine only adds.
Before each the script waits up to ``--quiet`` seconds until others use less than a tenth of a core, and after each it
notes how much they used meanwhile. Where they leave no quiet, CPU seconds tell more than the clock: ``drawing_cpu`` is
what all processes together use while tasks are drawn, ``busiest`` what the one does that uses most. The first of them
divided by the number of processes bounds the time from below, for they share the work until it is done.

``plain``     ``for i in range(n): dataset[i]`` over ``reasoning_gym``'s ``rearc``: 4 example pairs and a test, one core
``one``       what ``arcslim data build`` does, on one core: 400 generators × 10 tasks, every pair taken as it comes
``two``       the same on two cores
``limits 1``  the same on one core with the default limits (sides of 3 at least, no pair whose output is the input): two
              of three pairs are refused, and the generators that give nothing are found out
``limits 2``  the same on two cores

``busy 1``    a loop of additions on one core, ``busy 2`` one on each of two: what two cores of this machine are worth
              while others use it too

``draw`` is the time to draw the tasks, the start of processes with it, ``write`` that to write them, ``imports`` that
before both. All builds of the same settings must give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent / "results" / "rearc_build.json"
ARMS = {"plain": 1, "one": 1, "two": 2, "limits 1": 1, "limits 2": 2, "busy 1": 1, "busy 2": 2}
BUILDS = ("one", "two", "limits 1", "limits 2")
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

        imported = time.perf_counter()
        dataset = create_dataset("rearc", min_examples=4, max_examples=4, size=tasks, seed=0)
        made = [dataset[number] for number in range(tasks)]
        return {"tasks": len(made), "imports": imported - before, "draw": time.perf_counter() - imported}
    from arcslim.config import DataSection
    from arcslim.tasks.built import SETS, write_built
    from arcslim.tasks.manifest import about
    from arcslim.tasks.split import build_split

    imported = time.perf_counter()
    limits = {} if arm.startswith("limits") else AS_IT_COMES
    data = DataSection(sources=("rearc",), tasks=tasks, holdout_select=0, workers=ARMS[arm], **limits)
    own, helpers = time.process_time(), helpers_cpu()
    split = build_split(data, 0, lambda task: True)
    own, helpers = time.process_time() - own, helpers_cpu() - helpers
    drawn = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_built(Path(folder), {name: getattr(split, name) for name in SETS}, about(split, data, 0, None))
        written = time.perf_counter()
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(folder).iterdir()))).hexdigest()
    generators = {task.family for task in split.train}
    return {
        "tasks": len(split.train),
        "generators": len(generators),
        "imports": imported - before,
        "draw": drawn - imported,
        "busiest": max(own, helpers / max(ARMS[arm] - 1, 1)),
        "drawing_cpu": own + helpers,
        "write": written - drawn,
        "sha256": digest,
        "counts": split.counts["rearc"],
    }


def helpers_cpu() -> float:
    """CPU seconds of the processes that this one started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used so far, and those that its host took away."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(longest: float) -> float:
    """Wait until others use less than a tenth of a core, ``longest`` seconds at most; the seconds that it took."""
    start = time.perf_counter()
    while time.perf_counter() - start < longest:
        before = busy_seconds()
        time.sleep(1)
        if busy_seconds() - before < 0.1:
            break
    return time.perf_counter() - start


def measure(arm: str, tasks: int, quiet: float) -> dict[str, Any]:
    """One run of an arm, on as many cores as it is to have."""
    cores = sorted(os.sched_getaffinity(0))[: ARMS[arm]]
    waited = wait_for_quiet(quiet)
    before, busy, start = helpers_cpu(), busy_seconds(), time.perf_counter()
    line = [sys.executable, __file__, "--tasks", str(tasks), "--arm", arm]
    processes = [_start(line, cores[:1])]
    if arm == "busy 2":
        processes.append(_start(line, cores[1:]))
    elif len(cores) > 1:
        _pin_helper(processes[0], cores[1:])
    outputs = [process.communicate()[0] for process in processes]
    cpu, wall, busy = helpers_cpu() - before, time.perf_counter() - start, busy_seconds() - busy
    rows: list[dict[str, Any]] = [json.loads(output.splitlines()[-1]) for output in outputs]
    row = max(rows, key=lambda one: one["draw"])
    row["cpu"] = cpu
    others = max(busy - cpu, 0.0) / wall
    row |= {"arm": arm, "cores": len(cores), "cores_used_by_others": others, "waited": waited}
    print(f"{arm:10}{row['draw']:8.2f} s{cpu:8.2f} CPU s; others used {others:.2f} cores", flush=True)
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


def summed_up(rows: list[dict[str, Any]], tasks: int) -> dict[str, Any]:
    """Tasks a second by the best run of each arm, and what the rest is by."""
    best = {arm: min(row["draw"] for row in rows if row["arm"] == arm) for arm in ARMS}
    rates = {arm: tasks / seconds for arm, seconds in best.items() if not arm.startswith("busy")}
    least = {arm: min(row["drawing_cpu"] for row in rows if row["arm"] == arm) for arm in ARMS if arm in BUILDS}
    speedups = {  # of tasks a second
        "two / one": rates["two"] / rates["one"],
        "limits 2 / limits 1": rates["limits 2"] / rates["limits 1"],
        "one / plain": rates["one"] / rates["plain"],
        "two / plain": rates["two"] / rates["plain"],
        "two cores of this machine": 2 * best["busy 1"] / best["busy 2"],
        "two / one at most, by CPU seconds": 2 * least["one"] / least["two"],
        "limits 2 / limits 1 at most, by CPU seconds": 2 * least["limits 1"] / least["limits 2"],
    }
    same = {
        kind: len({row["sha256"] for row in rows if row["arm"] in arms}) == 1
        for kind, arms in {"as it comes": ("one", "two"), "limits": ("limits 1", "limits 2")}.items()
    }
    return {
        "goal": GOAL,
        "met": speedups["two / one"] >= GOAL,
        "tasks_a_second": rates,
        "speedups": speedups,
        "same_bytes": same,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain-rounds", type=int, default=3, help="of the plain loop, which is the slowest by far")
    parser.add_argument("--quiet", type=float, default=60, metavar="SECONDS", help="wait so long at most before an arm")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--arm", choices=ARMS, help="run this arm alone, in this process")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    if options.arm:
        print(json.dumps(run_arm(options.arm, options.tasks)))
        return 0
    from arcslim.runs.environment import cpu_model, git_commit, usable_threads
    from arcslim.runs.writing import write_json_atomic

    rows = [
        measure(arm, options.tasks, options.quiet)
        for number in range(options.rounds)
        for arm in ARMS
        if arm != "plain" or number < options.plain_rounds
    ]
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(Path(__file__).parent),
        "machine": f"{usable_threads()} cores, {cpu_model()}, shared; nice {os.nice(0)}",
        "tasks": options.tasks,
        **summed_up(rows, options.tasks),
        "rows": rows,
    }
    for arm, rate in record["tasks_a_second"].items():
        print(f"{arm:10}{rate:9.1f} tasks/s")
    for name, speedup in record["speedups"].items():
        print(f"{name:46}{speedup:6.2f}")
    print(f"the same bytes: {record['same_bytes']}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(options.output, record)
    return 0 if all(record["same_bytes"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
