"""A source that was read whole: groups of single-test tasks, shuffled by content and seed, and what became of each row.

A large file is gathered row by row, and of a bounded gathering only those with the least draws stay: the tasks that
would be taken are the same, whatever is thrown away, and memory does not grow with the file.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from arcslim.tasks.arc import Refused
from arcslim.tasks.content import canonical_key
from arcslim.tasks.spec import Spec
from arcslim.tasks.task import Task

MOST_LISTED = 1000  # rows that could not be read, with their places; the rest is only counted

Screen = Callable[[Task], str | None]
"""Why a single-test task is not taken, as a short name to count by; None when it is."""


@dataclass
class Counts:
    """Rows of one source: ``read`` = ``kept`` + all of ``dropped``. ``refusals`` are pairs that generators tried."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, int]:
        return {"read": self.read, "kept": self.kept, **dict(sorted(self.dropped.items()))}


@dataclass(frozen=True)
class Group:
    """What one task of a file gives: ``tasks``, one a test pair, which stay on one side of every split.

    ``keys``: the canonical content of the whole task, and of each of ``tasks``.
    """

    tasks: tuple[Task, ...]
    keys: frozenset[bytes]


@dataclass
class Finite:
    """A source that was read whole. ``brings``: held-out sets of its own, by name."""

    spec: Spec
    groups: list[Group]
    refused: tuple[Refused, ...]
    counts: Counts
    notes: list[str] = field(default_factory=list)
    brings: dict[str, tuple[Task, ...]] = field(default_factory=dict)

    @property
    def room(self) -> int:
        return sum(len(group.tasks) for group in self.groups)

    def forget(self, before: set[bytes]) -> None:
        """Drop the groups whose content stands in ``before``, and add the others' to it."""
        groups = []
        for group in self.groups:
            if group.keys & before:
                self.counts.dropped["duplicate"] += len(group.tasks)
            else:
                groups.append(group)
                before |= group.keys
        self.groups = groups

    def screen(self, reason_for: Screen) -> None:
        """Drop the tasks that do not pass, counted."""
        groups = []
        for group in self.groups:
            reasons = [reason_for(task) for task in group.tasks]
            self.counts.dropped.update(reason for reason in reasons if reason is not None)
            passed = tuple(task for task, reason in zip(group.tasks, reasons, strict=True) if reason is None)
            if passed:
                groups.append(Group(passed, group.keys))
        self.groups = groups

    def take(self, number: int, rest: str) -> list[Task]:
        """The next ``number`` tasks, group by group; what is cut off the last group is counted as ``rest``."""
        taken: list[Task] = []
        while len(taken) < number and self.groups:
            tasks = self.groups.pop(0).tasks
            wanted = number - len(taken)
            taken.extend(tasks[:wanted])
            self.counts.kept += len(tasks[:wanted])
            self.counts.dropped[rest] += len(tasks[wanted:])
        return taken

    def close(self) -> None:
        """Count what nobody asked for."""
        self.counts.dropped["not_drawn"] += self.room
        self.groups = []
        self.counts.dropped = +self.counts.dropped


class Gathering:
    """Collects the tasks of a source as they are read.

    With ``most``, that many groups stay, those with the least draws, and of what is read only tasks that are
    ``usable`` take a place; the others are counted as ``not_drawn`` at once. A task turned away has a higher draw than
    all that stay, and so has each of its copies: none of them comes in later.
    """

    def __init__(self, spec: Spec, seed: int, most: int | None = None, usable: Screen | None = None) -> None:
        self.spec, self.seed, self.most, self.usable = spec, seed, most, usable
        self.counts = Counts()
        self.refused: list[Refused] = []
        self._groups: dict[int, Group] = {}
        self._highest: list[int] = []  # a heap of -draw

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, row: tuple[str, Task] | Refused) -> None:
        """Take in what a reader gives."""
        if isinstance(row, Refused):
            self.refuse(row)
        else:
            self.add(row[1])

    def refuse(self, item: Refused) -> None:
        """Count a row that could not be read, and list it."""
        self.counts.read += 1
        self.counts.dropped[item.reason] += 1
        if len(self.refused) < MOST_LISTED:
            self.refused.append(item)

    def add(self, task: Task) -> None:
        """Take a task in, with all its tests, or count why not."""
        tasks = tuple(task.for_each_test())
        self.counts.read += len(tasks)
        key = canonical_key(task)
        draw = int.from_bytes(draw_of(str(self.seed), key), "big")
        if draw in self._groups:  # of two with the same content the first in the file stays
            self.counts.dropped["duplicate"] += len(tasks)
        elif self.most is not None and len(self) >= self.most and draw > -self._highest[0]:
            self.counts.dropped["not_drawn"] += len(tasks)
        else:
            self._take(draw, key, tasks)

    def finite(self) -> Finite:
        """What was gathered, in the order of the draws."""
        groups = [self._groups[draw] for draw in sorted(self._groups)]
        return Finite(self.spec, groups, tuple(self.refused), self.counts)

    def _take(self, draw: int, key: bytes, tasks: tuple[Task, ...]) -> None:
        if self.usable is not None:
            reasons = [self.usable(task) for task in tasks]
            self.counts.dropped.update(reason for reason in reasons if reason is not None)
            tasks = tuple(task for task, reason in zip(tasks, reasons, strict=True) if reason is None)
            if not tasks:
                return
        once = {canonical_key(task): task for task in tasks}
        self.counts.dropped["duplicate"] += len(tasks) - len(once)
        self._groups[draw] = Group(tuple(once.values()), frozenset({key, *once}))
        if self.most is None:
            return
        heapq.heappush(self._highest, -draw)
        if len(self) > self.most:
            group = self._groups.pop(-heapq.heappop(self._highest))
            self.counts.dropped["not_drawn"] += len(group.tasks)


def draw_of(salt: str, content: bytes) -> bytes:
    """32 bytes that order contents at random: the same for the same salt, whatever else is drawn."""
    return hashlib.sha256(salt.encode() + b"/" + content).digest()
