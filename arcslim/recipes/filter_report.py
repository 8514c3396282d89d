"""What a filter did, as figures: what each rule dropped, the pass rates, and what of each source is kept. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arcslim.recipes.rollout_cache import Tally
from arcslim.tasks.task import Task
from arcslim.tasks.trivial import NAMES, trivial_rules

MOST_BINS = 20  # of the histogram
TRIVIAL, KEPT, TOO_HARD, TOO_EASY = "trivial", "kept", "too_hard", "too_easy"


@dataclass(frozen=True)
class Bounds:
    """The pass rates that are kept, both ends included."""

    low: float
    high: float

    def verdict(self, rate: float) -> str:
        """``kept``, ``too_hard`` or ``too_easy``."""
        if rate < self.low:
            return TOO_HARD
        return KEPT if rate <= self.high else TOO_EASY


@dataclass(frozen=True)
class Tried:
    """A task and how it went."""

    task: Task
    tally: Tally


@dataclass
class Filtered:
    """``tasks`` were looked at. ``trivial`` holds those dropped, by the first rule that each meets; ``tried`` those
    that were rolled out, ``samples`` times at least, to be kept within ``bounds`` (None: no model was asked)."""

    tasks: tuple[Task, ...]
    trivial: dict[str, list[Task]] = field(default_factory=dict)
    tried: list[Tried] | None = None
    bounds: Bounds | None = None
    samples: int = 0

    def drop_trivial(self) -> None:
        """Sort the trivial tasks out."""
        for task in self.tasks:
            rules = trivial_rules(task)
            if rules:
                self.trivial.setdefault(rules[0], []).append(task)
        self.trivial = {name: self.trivial[name] for name in NAMES if name in self.trivial}

    @property
    def sound(self) -> tuple[Task, ...]:
        """Those that no rule dropped."""
        dropped = {id(task) for tasks in self.trivial.values() for task in tasks}
        return tuple(task for task in self.tasks if id(task) not in dropped)

    @property
    def kept(self) -> tuple[Task, ...]:
        """Those that passed everything."""
        if self.tried is None or self.bounds is None:
            return self.sound
        return tuple(one.task for one in self.tried if self.bounds.verdict(one.tally.rate) == KEPT)

    def counts(self) -> dict[str, int]:
        """``read`` and what became of it: ``kept``, each rule that dropped some, ``too_hard`` and ``too_easy``."""
        counts = {"read": len(self.tasks), KEPT: len(self.kept)}
        counts |= {f"{TRIVIAL}_{rule}": len(tasks) for rule, tasks in self.trivial.items()}
        if self.tried is not None and self.bounds is not None:
            verdicts = [self.bounds.verdict(one.tally.rate) for one in self.tried]
            counts |= {name: verdicts.count(name) for name in (TOO_HARD, TOO_EASY)}
        return counts

    def histogram(self) -> list[tuple[float, int]]:
        """Pass rates in bins: the rate in the middle of each, from 0 to 1, and how many tasks lie there."""
        bins = min(self.samples, MOST_BINS)
        numbers = [0] * (bins + 1)
        for one in self.tried or ():
            numbers[int(one.tally.rate * bins + 0.5)] += 1
        return [(index / bins, number) for index, number in enumerate(numbers)] if bins else []

    def total(self) -> Tally:
        """All completions together."""
        return sum((one.tally for one in self.tried or ()), Tally())

    def rows(self) -> list[dict[str, Any]]:
        """One a task that was looked at, for people's own scripts."""
        rows: list[dict[str, Any]] = [
            _row(task, f"{TRIVIAL}_{rule}") for rule, tasks in self.trivial.items() for task in tasks
        ]
        for one in self.tried or ():
            assert self.bounds is not None
            rows.append(_row(one.task, self.bounds.verdict(one.tally.rate)) | vars(one.tally))
        return rows if self.tried is not None else rows + [_row(task, KEPT) for task in self.sound]

    def summary(self) -> dict[str, Any]:
        """For a manifest."""
        said: dict[str, Any] = {"counts": self.counts()}
        if self.bounds is not None:
            said |= {"samples": self.samples, "keep": [self.bounds.low, self.bounds.high]}
            said |= {"histogram": [[rate, number] for rate, number in self.histogram()]}
        return said


def _row(task: Task, verdict: str) -> dict[str, Any]:
    return {"task_id": task.task_id, "source": task.source, "family": task.family, "verdict": verdict}


def by_source(filtered: Filtered) -> Mapping[str, Sequence[Tried]]:
    """The tasks that were rolled out, source by source."""
    found: dict[str, list[Tried]] = {}
    for one in filtered.tried or ():
        found.setdefault(one.task.source, []).append(one)
    return found
