from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import DataSection
from arcslim.errors import ArcslimError, Stopped
from arcslim.tasks.content import canonical_key
from arcslim.tasks.rearc import RearcLimits
from arcslim.tasks.split import Split, build_split
from arcslim.tasks.task import Task
from arcslim.tasks.workers import Workers, _start, generate_one, usable_cores, worth_starting

FAMILIES = "67a3c6ac,68b16354,25ff71a9,3c9b0459"
LIMITS = RearcLimits(pairs=2)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(2, 7, LIMITS) as started:
        yield started


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def build(workers: int, **values: Any) -> Split:
    values = {"sources": (f"rearc:{FAMILIES}",), "tasks": 320, "holdout_select": 12} | values
    return build_split(DataSection(workers=workers, **values), 3, lambda task: task.train[0].input.cells.size < 150)


def test_an_instance_is_the_same_whoever_makes_it(workers: Workers) -> None:
    keys = [(name, index) for index in range(3) for name in FAMILIES.split(",")]
    workers.ask(keys)
    for key in (*reversed(keys), ("c8f0f002", 5)):  # in another order, and one that was not asked for
        assert workers.get(key) == generate_one(key, 7, LIMITS)


def test_what_a_worker_makes_comes_with_its_content_key() -> None:
    with Workers(1, 7, LIMITS) as one:
        one.ask([("67a3c6ac", 0)])
        one._collect(30)
        task, _ = one.get(("67a3c6ac", 0))
    assert task is not None and task.content_key == canonical_key(replace(task))


def test_what_is_forgotten_can_be_asked_for_again(workers: Workers) -> None:
    keys = [("67a3c6ac", index) for index in range(100, 160)]
    workers.ask(keys)
    workers.forget()
    assert not workers.knows(keys[-1])
    assert workers.get(keys[-1]) == generate_one(keys[-1], 7, LIMITS)


def test_the_split_does_not_depend_on_how_many_generate() -> None:
    alone, two, three = build(1), build(2), build(3)
    assert alone == two == three
    assert len(alone.train) == 320


@pytest.mark.slow
def test_all_generators_give_the_same_with_and_without() -> None:
    """Also where some give nothing, and each is asked a number of times that is not the same for all."""
    values: dict[str, Any] = {"sources": ("rearc",), "tasks": 450, "attempts": 20, "holdout_families": ("b1948b0a",)}
    assert build(1, **values) == build(2, **values)


def test_few_tasks_start_no_process() -> None:
    assert worth_starting(0, 299) == worth_starting(1, 10_000) == 0
    assert worth_starting(2, 10_000) == 1
    assert worth_starting(64, 350) == 3
    assert worth_starting(0, 10_000) < (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("texts", "cores"),
    [
        ({}, 64),
        ({"cpu.max": "max 100000\n"}, 64),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "20000 100000\n"}, 1),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 64),
        ({"cpu.cfs_quota_us": "300000\n", "cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_a_containers_share_of_the_cores_counts(
    texts: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert usable_cores((tmp_path / "cpu.max", tmp_path / "cpu.cfs_quota_us")) == cores


@pytest.mark.parametrize("error", [OSError(11, "no more processes"), KeyboardInterrupt()])
def test_none_is_left_where_not_all_can_be_started(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def start(*words: Any) -> Any:
        if started:
            raise error
        started.append(_start(*words))
        return started[0]

    monkeypatch.setattr("arcslim.tasks.workers._start", start)
    with pytest.raises(ArcslimError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        Workers(2, 7, LIMITS)
    assert started[0].process.returncode == -signal.SIGKILL
    if isinstance(error, OSError):
        assert "no more processes" in str(caught.value) and "data.workers=1" in str(caught.value)


def test_a_signal_to_the_whole_group_is_the_parents_affair() -> None:
    """A terminal that closes, or ``timeout``, sends it to every process: the parent stops in its own way."""
    with Workers(1, 7, LIMITS) as workers:
        workers.ask([("67a3c6ac", 0)])
        workers._collect(30)  # it is up
        (worker,) = workers._workers.values()
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(worker.process.pid, stop)
        workers.ask([("67a3c6ac", 1)])
        workers._collect(30)
        assert {("67a3c6ac", 0), ("67a3c6ac", 1)} == set(workers._made)


def test_a_worker_that_is_ended_from_outside_is_told() -> None:
    with Workers(2, 7, LIMITS) as workers:
        for child in children(os.getpid()):
            if b"tasks.workers import serve" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)
        workers.ask(("67a3c6ac", index) for index in range(2000))
        with pytest.raises(ArcslimError, match="was ended") as caught:
            any(workers.get(("67a3c6ac", index)) is None for index in range(2000))
        assert "data.workers=1" in str(caught.value.hint)


def test_a_stop_is_obeyed_while_tasks_are_drawn() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 20:
            raise Stopped("enough")

    for workers in (1, 2):
        asked, data = 0, DataSection(sources=("rearc",), tasks=100_000, workers=workers)
        before = time.monotonic()
        with pytest.raises(Stopped):
            build_split(data, 0, everything, check)
        assert time.monotonic() - before < 30
    assert not [
        pid
        for pid in children(os.getpid())
        if b"tasks.workers import serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def everything(task: Task) -> bool:
    return True


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_parent(tmp_path: Path, ending: signal.Signals) -> None:
    """Stops at once on Ctrl-C, even where a terminal sends it to every process."""
    words = ["data", "build", "--data", "rearc", "--out", str(tmp_path / "built"), "--set", "data.tasks=200000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "arcslim", *words, "--set", "data.workers=3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(busy := workers_of(process.pid)) < 2:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(3)
    before = time.monotonic()
    if ending == signal.SIGINT:
        os.killpg(process.pid, ending)
    else:
        process.kill()
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - before < 5
    assert process.returncode == (130 if ending == signal.SIGINT else -9)
    assert "Traceback" not in output
    for pid in busy:
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            assert time.monotonic() - before < 10, "a worker is left"
            time.sleep(0.1)


def workers_of(pid: int) -> list[int]:
    try:
        return [
            child
            for child in children(pid)
            if b"tasks.workers import serve" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    except FileNotFoundError:
        return []
