"""Processes that generate RE-ARC instances side by side.

An instance depends on the seed, its generator and its index alone, so it does not matter who makes it: the parent asks
for instances in the order in which it will want them, and takes each by its key.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, cast

from arcslim.errors import ArcslimError
from arcslim.tasks.rearc import RearcLimits, generate
from arcslim.tasks.task import Task

Key = tuple[str, int]
Instance = tuple[Task | None, Counter[str]]
"""What ``generate`` gave, and the pairs that it refused by reason."""

CHUNK = 4  # instances a message: some 20 ms of work
IN_FLIGHT = 3  # messages that a worker has before it, so that it never waits for the parent
WORTH_IT = 300  # instances: below, starting the processes (1 s and 60 MB each) costs more than it saves
EACH = 100  # instances for which another process is worth starting
LOOK_UP = 0.2  # seconds between looks at whether a stop is asked for


def generate_one(key: Key, seed: int, limits: RearcLimits) -> Instance:
    refusals = Counter[str]()
    task = generate(*key, seed, limits, refusals)
    del refusals["gave_up"]  # a row of the counts, not a refused pair
    return task, refusals


def worth_starting(asked: int, instances: int) -> int:
    """How many processes to start: ``asked`` of them, or one a usable core (0); none where there is little to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = min(asked or cores, -(-instances // EACH))
    return number if number > 1 and instances >= WORTH_IT else 0


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    chunks: deque[list[Key]] = field(default_factory=deque)


class Workers:
    """Use it as a context: at its end, whichever way it comes, the processes are ended at once.

    ``check`` is called while the parent waits; it may raise, to stop.
    """

    def __init__(self, number: int, seed: int, limits: RearcLimits, check: Callable[[], None] | None = None) -> None:
        self._check = check
        self._waiting: deque[Key] = deque()
        self._under_way: set[Key] = set()  # waiting, or with a worker
        self._made: dict[Key, Instance] = {}
        self._workers: list[_Worker] = []
        # Not forked: the parent may hold threads and a GPU. A Ctrl-C during the start is the parent's affair.
        context = multiprocessing.get_context("spawn")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(number):
                here, there = context.Pipe()
                process = context.Process(target=_work, args=(there, seed, limits, os.getpid()), daemon=True)
                process.start()
                there.close()
                self._workers.append(_Worker(process, here))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def ask(self, keys: Iterable[Key]) -> None:
        """Have these made, in this order, after what was asked for before."""
        for key in keys:
            if not self.knows(key):
                self._under_way.add(key)
                self._waiting.append(key)
        self._hand_out()

    def knows(self, key: Key) -> bool:
        """Whether it was asked for, or is made."""
        return key in self._under_way or key in self._made

    def forget(self) -> None:
        """What nobody has begun is not wanted any more."""
        self._under_way.difference_update(self._waiting)
        self._waiting.clear()

    def get(self, key: Key) -> Instance:
        """The instance, asked for or not; waits for it.

        Raises:
            ArcslimError: a process was ended from outside.
        """
        if not self.knows(key):
            self._under_way.add(key)
            self._waiting.appendleft(key)
            self._hand_out()
        while key not in self._made:
            if self._check is not None:
                self._check()
            self._collect()
        return self._made.pop(key)

    def _collect(self) -> None:
        pipes = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(pipes), timeout=LOOK_UP):
            worker = pipes[cast(Connection, pipe)]
            try:
                made: list[Instance] = worker.pipe.recv()
            except (EOFError, OSError) as error:
                worker.process.join(timeout=1)
                raise ArcslimError(
                    f"a process that generates tasks was ended (exit code {worker.process.exitcode})",
                    "-9 means that the machine ran out of memory; with --set data.workers=1 one process does it all",
                ) from error
            keys = worker.chunks.popleft()
            self._made.update(zip(keys, made, strict=True))
            self._under_way.difference_update(keys)
        self._hand_out()

    def _hand_out(self) -> None:
        """Fill the workers up evenly."""
        for ahead in range(IN_FLIGHT):
            for worker in self._workers:
                if self._waiting and len(worker.chunks) <= ahead:
                    size = min(CHUNK, -(-len(self._waiting) // len(self._workers)))
                    chunk = [self._waiting.popleft() for _ in range(size)]
                    worker.chunks.append(chunk)
                    with contextlib.suppress(OSError):  # it was ended: told when its answer is waited for
                        worker.pipe.send(chunk)


def _work(pipe: Any, seed: int, limits: RearcLimits, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everyone: the parent ends its workers
    if sys.platform == "linux":  # nor do they outlive it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            return
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            keys: list[Key] = pipe.recv()
            pipe.send([generate_one(key, seed, limits) for key in keys])
