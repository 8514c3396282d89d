"""RE-ARC as a source that is drawn from without end. A task depends on (seed, generator, index) alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from arcslim.tasks.finite import Counts, Screen, draw_of
from arcslim.tasks.rearc import RearcLimits, generate
from arcslim.tasks.spec import Spec
from arcslim.tasks.task import Task

PROBES = 10  # a generator that gives nothing usable in so many instances is left out
PROBE_GIVE_UPS = 2  # and so is one that uses up its attempts so often: these are the slow ones
PATIENCE = 30  # instances in a row without a usable one after which a generator rests for the set being drawn
REFERENCE = 4  # training instances of each generator that show which pairs are common
INDEX_BASE = {"train": 0, "test": 10_000_000, "select": 20_000_000, "test_families": 30_000_000}


@dataclass
class Rearc:
    """RE-ARC's generators. ``alive`` remembers which of them can give a usable task at all, by their first training
    instances; ``ahead`` keeps the instances that were looked at for that."""

    spec: Spec
    names: tuple[str, ...]
    limits: RearcLimits
    seed: int
    counts: Counts
    alive: dict[str, bool] = field(default_factory=dict)
    ahead: dict[tuple[str, int], tuple[Task | None, Counter[str]]] = field(default_factory=dict)

    def first_instances(self, usable: Screen) -> Iterator[Task]:
        """The usable ones of the first training instances of every generator: they show what is common."""
        for name in self.names:
            if self._is_alive(name, usable):
                drawn = (self._look(name, index)[0] for index in range(REFERENCE))
                yield from (task for task in drawn if task is not None and usable(task) is None)

    def take(self, purpose: str, number: int, usable: Screen, reason_for: Screen) -> list[Task]:
        """Draw up to ``number`` tasks, one generator after the other; fewer when all generators run dry.

        ``usable`` is the part of the screen that does not depend on what was drawn before: it decides whether a
        generator is worth asking. ``reason_for`` is asked about tasks that are usable.
        """
        taken: list[Task] = []
        misses = Counter[str]()
        asked = sorted(self.names, key=lambda name: draw_of(f"{self.seed}/{purpose}", name.encode()))
        index = INDEX_BASE[purpose]
        while len(taken) < number and asked:
            for name in asked:
                if len(taken) == number:
                    break
                if not self._is_alive(name, usable):
                    misses[name] = PATIENCE
                    continue
                task = self._draw(name, index, usable, reason_for)
                misses[name] = 0 if task is not None else misses[name] + 1
                if task is not None:
                    taken.append(task)
            asked = [name for name in asked if misses[name] < PATIENCE]
            index += 1
        return taken

    def left_out(self) -> list[str]:
        return sorted(name for name, alive in self.alive.items() if not alive)

    def _draw(self, name: str, index: int, usable: Screen, reason_for: Screen) -> Task | None:
        task, refusals = self._look(name, index)
        del self.ahead[name, index]
        reason = "gave_up" if task is None else usable(task) or reason_for(task)
        self._count(reason, refusals)
        return task if reason is None else None

    def _count(self, reason: str | None, refusals: Counter[str]) -> None:
        self.counts.read += 1
        self.counts.refusals.update(refusals)
        if reason is None:
            self.counts.kept += 1
        else:
            self.counts.dropped[reason] += 1

    def _generate(self, name: str, index: int) -> tuple[Task | None, Counter[str]]:
        refusals = Counter[str]()
        task = generate(name, index, self.seed, self.limits, refusals)
        del refusals["gave_up"]  # a row of the counts, not a refused pair
        return task, refusals

    def _look(self, name: str, index: int) -> tuple[Task | None, Counter[str]]:
        """An instance, kept in ``ahead`` until it is counted."""
        if (name, index) not in self.ahead:
            self.ahead[name, index] = self._generate(name, index)
        return self.ahead[name, index]

    def _is_alive(self, name: str, usable: Screen) -> bool:
        if name not in self.alive:
            reasons: list[str] = []
            while len(reasons) < PROBES and reasons.count("gave_up") < PROBE_GIVE_UPS:
                task, _ = self._look(name, len(reasons))
                reason = "gave_up" if task is None else usable(task)
                if reason is None:
                    self.alive[name] = True
                    return True
                reasons.append(reason)
            self.alive[name] = False
            for index, reason in enumerate(reasons):  # nobody will draw these: this is where they count
                self._count(reason, self.ahead.pop((name, index))[1])
        return self.alive[name]
