"""From specs to tasks: finite sources (files, ARC-1) that are read at once, and RE-ARC, which is drawn from.

Both hand out single-test tasks that have passed a screen, and count what they passed over. Nothing here depends on
the order of rows, files or generators: a finite source is shuffled by content and seed, a generated task depends on
(seed, generator, index) alone.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from arcslim.config import DataSection
from arcslim.errors import InputError, TaskError
from arcslim.tasks.arc import Loaded, Refused, load_arc1, load_path
from arcslim.tasks.content import canonical_key
from arcslim.tasks.rearc import RearcLimits, check_families, families, generate
from arcslim.tasks.spec import ARC1_SPLITS, HUB, PATH, ROWS, SAMPLES, Spec, parse_spec
from arcslim.tasks.task import Task

PROBES = 10  # a generator that gives nothing usable in so many instances is left out
PROBE_GIVE_UPS = 2  # and so is one that uses up its attempts so often: these are the slow ones
PATIENCE = 30  # instances in a row without a usable one after which a generator rests for the set being drawn
REFERENCE = 4  # training instances of each generator that show which pairs are common
INDEX_BASE = {"train": 0, "test": 10_000_000, "select": 20_000_000, "test_families": 30_000_000}

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
    """A source that was read whole."""

    spec: Spec
    groups: list[Group]
    refused: tuple[Refused, ...]
    counts: Counts

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
        asked = sorted(self.names, key=lambda name: _draw_of(f"{self.seed}/{purpose}", name.encode()))
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


Source = Finite | Rearc


def open_sources(data: DataSection, seed: int) -> list[Source]:
    """Open every source of the configuration; files are read here, generators are asked later.

    Raises:
        InputError: a spec, path or generator id that cannot be used, a source given twice, or a generator that is to
            be trained on and held out.
    """
    specs = [parse_spec(text) for text in data.sources]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the data source {name!r} is given twice", "raise its weight instead")
    rows = [spec.name for spec in specs if spec.kind in (ROWS, HUB, SAMPLES)]
    if rows:
        raise InputError(
            f"{', '.join(rows)}: rows of traces, not tasks", "`arcslim sft` learns from them; give tasks here"
        )
    sources = [OPENERS[spec.kind](spec, data, seed) for spec in specs]
    trained = Counter(name for source in sources if isinstance(source, Rearc) for name in source.names)
    twice = sorted(name for name, times in trained.items() if times > 1)
    if twice:
        raise InputError(f"generators in two data sources: {', '.join(twice[:5])}", "name each in one of them")
    before: set[bytes] = set()
    for source in sources:
        if isinstance(source, Finite):
            source.forget(before)
    return sources


def open_held_families(data: DataSection, seed: int) -> Rearc:
    """The generators that are never trained on, as a source of their own."""
    check_families(data.holdout_families)
    return Rearc(Spec("rearc", "", 1.0), data.holdout_families, _limits(data), seed, Counts())


def open_arc1(part: str, seed: int) -> Finite:
    """ARC-1, whole (``part`` empty) or one part of it."""
    source = _open_arc1(Spec("arc1", part, 1.0), DataSection(), seed)
    source.forget(set())
    return source


def _limits(data: DataSection) -> RearcLimits:
    return RearcLimits(
        pairs=data.pairs,
        difficulty_min=data.difficulty_min,
        difficulty_max=data.difficulty_max,
        min_side=data.min_side,
        max_side=data.max_side,
        allow_identity=data.allow_identity,
        attempts=data.attempts,
    )


def _open_rearc(spec: Spec, data: DataSection, seed: int) -> Source:
    asked = tuple(spec.argument.split(",")) if spec.argument else ()
    check_families(asked)
    both = [name for name in asked if name in data.holdout_families]
    if both:
        raise InputError(f"{', '.join(both)}: trained on (data.sources) and held out (data.holdout_families)")
    names = asked or tuple(name for name in families() if name not in data.holdout_families)
    return Rearc(spec, names, _limits(data), seed, Counts())


def _open_arc1(spec: Spec, data: DataSection, seed: int) -> Finite:
    parts = (spec.argument,) if spec.argument else ARC1_SPLITS
    loaded = [load_arc1(part, f"arc1:{part}") for part in parts]
    tasks = tuple(task for part in loaded for task in part.tasks)
    return _finite(spec, Loaded(tasks, tuple(item for part in loaded for item in part.refused)), seed)


def _open_path(spec: Spec, data: DataSection, seed: int) -> Source:
    path = Path(spec.argument).expanduser()
    if not path.exists():
        raise TaskError("not_found", f"no such file or folder: {spec.argument}", _near(path))
    return _finite(spec, load_path(path, path.name), seed)


def _finite(spec: Spec, loaded: Loaded, seed: int) -> Finite:
    counts = Counts(read=len(loaded.refused), dropped=Counter(item.reason for item in loaded.refused))
    groups: list[tuple[bytes, Group]] = []
    for task in loaded.tasks:
        tasks = tuple(task.for_each_test())
        counts.read += len(tasks)
        once = {canonical_key(one): one for one in tasks}
        counts.dropped["duplicate"] += len(tasks) - len(once)
        key = canonical_key(task)
        groups.append((_draw_of(str(seed), key), Group(tuple(once.values()), frozenset({key, *once}))))
    groups.sort(key=lambda item: item[0])  # stable: of two with the same content the first in the file stays
    return Finite(spec, [group for _, group in groups], loaded.refused, counts)


OPENERS: dict[str, Callable[[Spec, DataSection, int], Source]] = {
    "rearc": _open_rearc,
    "arc1": _open_arc1,
    PATH: _open_path,
}


def _draw_of(salt: str, content: bytes) -> bytes:
    return hashlib.sha256(salt.encode() + b"/" + content).digest()


def _near(path: Path) -> str | None:
    """What stands beside a path that does not exist, if a name there is close to it."""
    if not path.parent.is_dir():
        return None
    names = difflib.get_close_matches(path.name, [item.name for item in path.parent.iterdir()], n=1, cutoff=0.6)
    return f"did you mean {path.with_name(names[0])}?" if names else None
