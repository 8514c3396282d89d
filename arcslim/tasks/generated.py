"""RE-ARC as a source that is drawn from without end. A task depends on (seed, generator, index) alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice

from arcslim.tasks.finite import Counts, Screen, draw_of
from arcslim.tasks.rearc import RearcLimits
from arcslim.tasks.spec import Spec
from arcslim.tasks.task import Task
from arcslim.tasks.workers import Instance, Key, Workers, generate_one

PROBES = 10  # a generator that gives nothing usable in so many instances is left out
PROBE_GIVE_UPS = 2  # and so is one that uses up its attempts so often: these are the slow ones
PATIENCE = 30  # instances in a row without a usable one after which a generator rests for the set being drawn
MOST_AHEAD = 4000  # instances that are asked for at once
REFERENCE = 4  # training instances of each generator that show which pairs are common
INDEX_BASE = {"train": 0, "test": 10_000_000, "select": 20_000_000, "test_families": 30_000_000}


@dataclass
class Rearc:
    """RE-ARC's generators. ``alive`` remembers which of them can give a usable task at all, by their first training
    instances; ``ahead`` keeps the instances that were looked at for that. With ``workers`` instances are made side by
    side before they are looked at; that changes nothing but the time."""

    spec: Spec
    names: tuple[str, ...]
    limits: RearcLimits
    seed: int
    counts: Counts
    alive: dict[str, bool] = field(default_factory=dict)
    ahead: dict[Key, Instance] = field(default_factory=dict)
    workers: Workers | None = None

    def first_instances(self, usable: Screen) -> Iterator[Task]:
        """The usable ones of the first training instances of every generator: they show what is common."""
        self._probe(self.names, usable, range(REFERENCE))
        self._ask((name, index) for name in self.names if self.alive[name] for index in range(REFERENCE))
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
        if number >= len(asked):  # the first round would come to each of them anyway
            self._probe(asked, usable, range(index, index + number // max(1, len(asked))))
        while len(taken) < number and asked:
            for place, name in enumerate(asked):
                if len(taken) == number:
                    break
                if not self._is_alive(name, usable):
                    misses[name] = PATIENCE
                    continue
                self._ask_ahead(asked, place, index, number - len(taken))
                task = self._draw(name, index, usable, reason_for)
                misses[name] = 0 if task is not None else misses[name] + 1
                if task is not None:
                    taken.append(task)
            asked = [name for name in asked if misses[name] < PATIENCE]
            index += 1
        if self.workers is not None:
            self.workers.forget()
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

    def _ask(self, keys: Iterable[Key]) -> None:
        if self.workers is not None:
            self.workers.ask(key for key in keys if key not in self.ahead)

    def _ask_ahead(self, names: Sequence[str], place: int, index: int, number: int) -> None:
        """Ask for the next ``number`` instances, from generator ``place`` of this round on, unless it is asked for."""
        if self.workers is None or self.workers.knows((names[place], index)) or (names[place], index) in self.ahead:
            return
        giving = [name for name in names if self.alive.get(name, True)]
        rest = [name for name in names[place:] if self.alive.get(name, True)]
        later = ((name, another) for another in count(index + 1) for name in giving)
        keys = chain(((name, index) for name in rest), later)
        self._ask(islice(keys, min(number + number // 20, MOST_AHEAD)))

    def _look(self, name: str, index: int) -> Instance:
        """An instance, kept in ``ahead`` until it is counted."""
        key = name, index
        if key not in self.ahead:
            made = generate_one(key, self.seed, self.limits) if self.workers is None else self.workers.get(key)
            self.ahead[key] = made
        return self.ahead[key]

    def _is_alive(self, name: str, usable: Screen) -> bool:
        if name not in self.alive:
            self._probe((name,), usable)
        return self.alive[name]

    def _probe(self, names: Sequence[str], usable: Screen, wanted: Sequence[int] = ()) -> None:
        """Find out which of these can give a usable task, by their first training instances.

        ``wanted``: instances that will be drawn of each that can. They are asked for as soon as most are known, so that
        nobody waits while the slow ones are found out.
        """
        reasons: dict[str, list[str]] = {name: [] for name in names if name not in self.alive}
        for index in range(PROBES):
            asked = [name for name, some in reasons.items() if self._is_open(name, some)]
            self._ask((name, index) for name in asked)
            if index == 1:
                giving = [name for name in names if self.alive.get(name)]
                self._ask(islice(((name, later) for later in wanted for name in giving), MOST_AHEAD))
            for name in asked:
                task, _ = self._look(name, index)
                reason = "gave_up" if task is None else usable(task)
                if reason is None:
                    self.alive[name] = True
                else:
                    reasons[name].append(reason)
        for name, some in reasons.items():
            if name in self.alive:
                continue
            self.alive[name] = False
            for index, reason in enumerate(some):  # nobody will draw these: this is where they count
                self._count(reason, self.ahead.pop((name, index))[1])

    def _is_open(self, name: str, reasons: list[str]) -> bool:
        return name not in self.alive and reasons.count("gave_up") < PROBE_GIVE_UPS
