"""The nouns of ARC: ``Pair`` and ``Task``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from arcslim.tasks.grid import Grid


@dataclass(frozen=True)
class Pair:
    """One input grid and its output; ``output`` is None where the truth is hidden (Kaggle's test files)."""

    input: Grid
    output: Grid | None

    def key(self) -> bytes:
        """Equal for pairs of equal grids, and for those alone."""
        return self.input.key() + b">" + (b"?" if self.output is None else self.output.key())


@dataclass(frozen=True)
class Task:
    """One ARC task: example pairs that show a rule, and test pairs to apply it to.

    ``task_id`` names the instance, ``source`` where it came from (``rearc``, ``arc1:train``, a file name), and
    ``family`` what it is an instance of (RE-ARC's generator id; the task's own id elsewhere).
    """

    task_id: str
    source: str
    family: str
    train: tuple[Pair, ...]
    test: tuple[Pair, ...]
    content_key: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """Kept by ``content.canonical_key``, which is asked again at each screen of a split."""

    def content_hash(self) -> str:
        """A hash of the grids alone: tasks that differ only in id, or in the order of examples, share it."""
        digest = hashlib.sha256()
        for part in (sorted(pair.key() for pair in self.train), sorted(pair.key() for pair in self.test)):
            for item in part:
                digest.update(len(item).to_bytes(4, "big") + item)
            digest.update(b"|")
        return digest.hexdigest()

    def for_each_test(self) -> Iterable[Task]:
        """One task a test pair: what a prompt asks for."""
        if len(self.test) == 1:
            yield self
            return
        for index, pair in enumerate(self.test):
            yield Task(f"{self.task_id}#{index}", self.source, self.family, self.train, (pair,))
