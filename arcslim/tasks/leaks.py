"""What is held out, by content, and why a task is not trained on: the rules are in ``split.py``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from arcslim.tasks.content import canonical_key, pair_key
from arcslim.tasks.rearc import SOURCE as GENERATED
from arcslim.tasks.task import Task


@dataclass
class Seen:
    """The content drawn so far: ``held`` tasks and secret pairs must not be trained on.

    ``secret`` pairs are of files, known up to symmetry and colours; ``secret_exact`` of generators, as they stand.
    ``common``: pairs that the generators give again and again, which are no secret.
    """

    held: set[bytes] = field(default_factory=set)
    secret: set[bytes] = field(default_factory=set)
    secret_exact: set[bytes] = field(default_factory=set)
    trained: set[bytes] = field(default_factory=set)
    common: set[bytes] = field(default_factory=set)

    def refuse_held(self, task: Task) -> str | None:
        """For a task that would be held out: not twice, and no test pair that is asked elsewhere."""
        key, asked = canonical_key(task), task.test[0].key()
        if key in self.held or asked in self.secret_exact:
            return "duplicate"
        if asked in self.common:
            return "common_pair"
        self.held.add(key)
        self.secret_exact.add(asked)
        return None

    def hold(self, tasks: Iterable[Task]) -> None:
        """Hold tasks of a file, with every pair that they show; of generated ones, the test pair as it stands."""
        for task in tasks:
            self.held.add(canonical_key(task))
            if task.source == GENERATED:
                self.secret_exact.add(task.test[0].key())
            else:
                self.secret.update(map(pair_key, (*task.test, *task.train)))

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

    def refuse_leak(self, task: Task) -> str | None:
        if canonical_key(task) in self.held:
            return "held_out"
        pairs = (*task.train, *task.test)
        if any(pair.key() in self.secret_exact for pair in pairs):
            return "shows_held_out_pair"
        if self.secret and any(pair_key(pair) in self.secret for pair in pairs):
            return "shows_held_out_pair"
        return None
