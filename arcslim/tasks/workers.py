"""Processes that generate RE-ARC instances side by side.

An instance depends on the seed, its generator and its index alone, so it does not matter who makes it: the parent asks
for instances in the order in which it will want them, and takes each by its key. Where it would have to wait, it makes
the next one itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import cast

from arcslim.errors import ArcslimError
from arcslim.tasks.content import canonical_key
from arcslim.tasks.rearc import RearcLimits, generate
from arcslim.tasks.task import Task

Key = tuple[str, int]
Instance = tuple[Task | None, Counter[str]]
"""What ``generate`` gave, and the pairs that it refused by reason."""

CHUNK = 8  # instances a message at most, while many are left; one at the end, so that all end together
IN_FLIGHT = 2  # messages that a worker has before it, so that it never waits for the parent
WORTH_IT = 300  # instances: below, starting the processes (half a second and 50 MB each) costs more than it saves
EACH = 100  # instances for which another process is worth starting
ONE_PROCESS = "with --set data.workers=1 one process does it all"
LOOK_UP = 0.2  # seconds between looks at whether a stop is asked for
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a terminal or `timeout` sends them to everyone
QUOTAS = (Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))  # of a container: cgroup 2, 1


def generate_one(key: Key, seed: int, limits: RearcLimits) -> Instance:
    refusals = Counter[str]()
    task = generate(*key, seed, limits, refusals)
    del refusals["gave_up"]  # a row of the counts, not a refused pair
    return task, refusals


def worth_starting(asked: int, instances: int) -> int:
    """How many processes to start beside this one; ``asked`` counts this one, 0 means one a usable core in all."""
    number = min(asked or usable_cores(), -(-instances // EACH))
    return number - 1 if instances >= WORTH_IT else 0


def usable_cores(quotas: Sequence[Path] = QUOTAS) -> int:
    """Cores that this process may use. A container with a share of a large machine sees all of its cores, so its
    quota counts too: ``quotas`` are the files that may hold it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for file in quotas:
        try:
            quota, _, period = file.read_text().strip().partition(" ")
            period = period or file.with_name("cpu.cfs_period_us").read_text()
        except OSError:  # another version of cgroups, or none
            continue
        if quota not in ("max", "-1"):
            cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    chunks: deque[list[Key]] = field(default_factory=deque)


class Workers:
    """Use it as a context: at its end, whichever way it comes, the processes are ended at once.

    ``check`` is called while the parent waits; it may raise, to stop.

    Raises:
        ArcslimError: the machine starts no more processes.
    """

    def __init__(self, number: int, seed: int, limits: RearcLimits, check: Callable[[], None] | None = None) -> None:
        self._seed, self._limits, self._check = seed, limits, check
        self._waiting: deque[Key] = deque()
        self._under_way: set[Key] = set()  # waiting, or with a worker
        self._made: dict[Key, Instance] = {}
        self._workers: dict[Connection, _Worker] = {}
        try:
            self._start_all(number)
        except OSError as error:
            self._end()
            raise ArcslimError(f"no process to generate tasks could be started: {error}", ONE_PROCESS) from error
        except BaseException:
            self._end()
            raise

    def _start_all(self, number: int) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # a Ctrl-C while they start is the parent's affair
        try:
            for _ in range(number):
                worker = _start(self._seed, self._limits)
                self._workers[worker.pipe] = worker
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.wait()
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
        """The instance, asked for or not.

        Raises:
            ArcslimError: a process was ended from outside.
        """
        if not self.knows(key):
            self._under_way.add(key)
            self._waiting.appendleft(key)
        while key not in self._made:
            if self._check is not None:
                self._check()
            self._collect(0 if self._waiting else LOOK_UP)
            if key not in self._made and self._waiting:
                self._make(self._waiting.popleft())
        return self._made.pop(key)

    def _make(self, key: Key) -> None:
        self._made[key] = generate_one(key, self._seed, self._limits)
        self._under_way.remove(key)

    def _collect(self, seconds: float) -> None:
        for pipe in wait(list(self._workers), timeout=seconds):
            worker = self._workers[cast(Connection, pipe)]
            try:
                made: list[Instance] = worker.pipe.recv()
            except (EOFError, OSError) as error:
                raise ArcslimError(
                    f"a process that generates tasks was ended (exit code {worker.process.wait(timeout=5)})",
                    f"-9 means that the machine ran out of memory; {ONE_PROCESS}",
                ) from error
            keys = worker.chunks.popleft()
            self._made.update(zip(keys, made, strict=True))
            self._under_way.difference_update(keys)
        self._hand_out()

    def _hand_out(self) -> None:
        """Fill the workers up evenly."""
        for ahead in range(IN_FLIGHT):
            for worker in self._workers.values():
                if self._waiting and len(worker.chunks) <= ahead:
                    size = max(1, min(CHUNK, len(self._waiting) // (8 * len(self._workers))))
                    chunk = [self._waiting.popleft() for _ in range(size)]
                    worker.chunks.append(chunk)
                    with contextlib.suppress(OSError):  # it was ended: told when its answer is waited for
                        worker.pipe.send(chunk)


def _start(seed: int, limits: RearcLimits) -> _Worker:
    """Not forked: the parent may hold threads and a GPU. Not by ``multiprocessing``, which imports the main file."""
    here, there = Pipe()
    with there:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from arcslim.tasks.workers import serve; serve({there.fileno()}, {os.getpid()})"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=(there.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    here.send((seed, limits))
    return _Worker(process, here)


def serve(fileno: int, parent: int) -> None:
    """What a worker does: answer each message of keys with one of instances, until the parent is gone."""
    for stop in STOPS:  # the parent ends its workers
        signal.signal(stop, signal.SIG_IGN)
    if sys.platform == "linux":  # nor do they outlive it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            return
    with contextlib.suppress(EOFError, OSError), Connection(fileno) as pipe:
        seed, limits = pipe.recv()
        while True:
            keys: list[Key] = pipe.recv()
            pipe.send([_with_key(generate_one(key, seed, limits)) for key in keys])


def _with_key(made: Instance) -> Instance:
    """The instance, whose content is known already: the parent would be the one that all wait for."""
    if made[0] is not None:
        canonical_key(made[0])
    return made
