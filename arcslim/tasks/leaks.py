"""What is held out, by content, and why a task is not trained on: the rules are in ``split.py``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from arcslim.tasks.content import canonical_key, content_keys, pair_key
from arcslim.tasks.rearc import SOURCE as GENERATED
from arcslim.tasks.task import Pair, Task

Reason = Literal["held_out", "shows_held_out_pair"]


@dataclass(frozen=True)
class Leak:
    """Why a task is not trained on, and the number of the held-out task that it gives away."""

    reason: Reason
    number: int


class HeldOut:
    """Held-out tasks by content, numbered in the order in which they came; it keeps hashes, not tasks.

    The pairs of a task from a file are known up to symmetry and colours, the test pairs of a generated one as they
    stand (``split.py`` says why).
    """

    def __init__(self) -> None:
        self._contents: dict[bytes, int] = {}
        self._pairs: dict[bytes, int] = {}
        self._asked: dict[bytes, int] = {}  # test pairs of generated tasks
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def hold(self, task: Task) -> int:
        """Hold a task with all its tests; its number."""
        number = self._number
        self._number += 1
        for key in content_keys(task):
            self._contents.setdefault(key, number)
        if task.source == GENERATED:
            for pair in task.test:
                self._asked.setdefault(pair.key(), number)
        else:
            for pair in (*task.train, *task.test):
                self._pairs.setdefault(pair_key(pair), number)
        return number

    def holds(self, task: Task) -> bool:
        """Whether the task, or one of its tests alone, is held."""
        return any(key in self._contents for key in content_keys(task))

    def asks(self, pair: Pair) -> bool:
        """Whether it is the test pair of a generated task that is held."""
        return pair.key() in self._asked

    def find(self, task: Task) -> Leak | None:
        """Why the task must not be trained on; None where nothing speaks against it."""
        for key in content_keys(task):
            if key in self._contents:
                return Leak("held_out", self._contents[key])
        for pair in (*task.train, *task.test):
            number = self._asked.get(pair.key())
            if number is None and self._pairs:
                number = self._pairs.get(pair_key(pair))
            if number is not None:
                return Leak("shows_held_out_pair", number)
        return None


@dataclass
class Seen:
    """The content drawn so far. ``common``: pairs that the generators give again and again, which are no secret."""

    held: HeldOut = field(default_factory=HeldOut)
    trained: set[bytes] = field(default_factory=set)
    common: set[bytes] = field(default_factory=set)

    def hold(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.held.hold(task)

    def refuse_held(self, task: Task) -> str | None:
        """For a generated task that would be held out: not twice, and no test pair that is asked elsewhere."""
        if self.held.holds(task) or self.held.asks(task.test[0]):
            return "duplicate"
        if task.test[0].key() in self.common:
            return "common_pair"
        self.held.hold(task)
        return None

    def refuse_trained(self, task: Task) -> str | None:
        """For a task that would be trained on."""
        reason = self.refuse_leak(task)
        if reason is not None:
            return reason
        key = canonical_key(task)
        if key in self.trained:
            return "duplicate"
        self.trained.add(key)
        return None

    def refuse_leak(self, task: Task) -> Reason | None:
        """For a task that gives a held-out one away."""
        leak = self.held.find(task)
        return None if leak is None else leak.reason
