"""From specs to tasks: finite sources (files, ARC-1, BARC) that are read at once, and RE-ARC, which is drawn from.

Both hand out single-test tasks that have passed a screen, and count what they passed over. Nothing here depends on
the order of rows, files or generators: a finite source is shuffled by content and seed, a generated task depends on
(seed, generator, index) alone.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arcslim.config import DataSection
from arcslim.errors import InputError
from arcslim.tasks.arc import Refused
from arcslim.tasks.built import read_built, read_manifest
from arcslim.tasks.content import canonical_key
from arcslim.tasks.finite import Counts, Finite, Gathering, Group, Screen
from arcslim.tasks.generated import Rearc
from arcslim.tasks.grid import Grid
from arcslim.tasks.reading import READERS, existing, read_tasks
from arcslim.tasks.rearc import RearcLimits, check_families, families
from arcslim.tasks.spec import BUILT, DRAW, HUB, PATH, ROWS, SAMPLES, Spec, parse_spec
from arcslim.tasks.targets import target
from arcslim.tasks.task import Pair, Task
from arcslim.tasks.workers import Workers, worth_starting

STREAMED = 1.1  # of the tasks asked for: so many are read of the hub's file, for some will be left out
SPARE = 1000  # tasks of a large file that are kept beyond what is asked for: leaks among them are left out

Source = Finite | Rearc


@dataclass(frozen=True)
class Opening:
    """What every opener gets. ``usable`` screens the tasks of files while they are read."""

    data: DataSection
    seed: int
    usable: Screen | None = None


def open_sources(data: DataSection, seed: int, usable: Screen | None = None) -> list[Source]:
    """Open every source of the configuration; files are read and screened here, generators are asked later.

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
            f"{', '.join(rows)}: rows of traces, not tasks",
            "`arcslim sft` learns from them; BARC's puzzles are named barc:FILE",
        )
    opening = Opening(_without_held_generators(specs, data), seed, usable)
    sources = [OPENERS[spec.kind](spec, opening) for spec in specs]
    trained = Counter(name for source in sources if isinstance(source, Rearc) for name in source.names)
    twice = sorted(name for name, times in trained.items() if times > 1)
    if twice:
        raise InputError(f"generators in two data sources: {', '.join(twice[:5])}", "name each in one of them")
    before: set[bytes] = set()
    for source in sources:
        if isinstance(source, Finite):
            source.forget(before)
    return sources


def _without_held_generators(specs: list[Spec], data: DataSection) -> DataSection:
    """``data`` that also holds out the generators which a built folder holds out."""
    held = set(data.holdout_families)
    for spec in specs:
        if spec.kind == BUILT:
            held.update(read_manifest(existing(spec))["data"]["holdout_families"])
    return data.model_copy(update={"holdout_families": tuple(sorted(held))})


@contextlib.contextmanager
def generating(
    sources: list[Source], data: DataSection, seed: int, check: Callable[[], None] | None
) -> Iterator[Workers | None]:
    """Start the processes that generate for these sources, where there is enough to generate for more than one."""
    drawn = [source for source in sources if isinstance(source, Rearc)]
    weight = sum(source.spec.weight for source in drawn) / sum(source.spec.weight for source in sources)
    instances = round(weight * (data.tasks + data.holdout_select + data.holdout_test))
    number = worth_starting(data.workers, instances)
    if not number:
        yield None
        return
    with Workers(number, seed, _limits(data), check) as workers:
        for source in drawn:
            source.workers = workers
        yield workers


def open_held_families(data: DataSection, seed: int, workers: Workers | None = None) -> Rearc:
    """The generators that are never trained on, as a source of their own."""
    check_families(data.holdout_families)
    return Rearc(Spec("rearc", "", 1.0), data.holdout_families, _limits(data), seed, Counts(), workers=workers)


def open_kept_out(data: DataSection) -> Iterator[Task | Refused]:
    """The tasks of ``data.keep_out``, one by one, and what of it cannot be read.

    Raises:
        InputError: a spec that cannot be read, or that names generators or rows.
    """
    for text in data.keep_out:
        spec = parse_spec(text)
        if spec.kind not in READERS:
            raise InputError(f"data.keep_out: {text!r} names no tasks that can be read", "give files, folders or ARC-1")
        for row in read_tasks(spec, data.pairs):
            yield row if isinstance(row, Refused) else row[1]


def open_arc1(part: str, seed: int) -> Finite:
    """ARC-1, whole (``part`` empty) or one part of it."""
    source = _open_read(Spec("arc1", part, 1.0), Opening(DataSection(), seed))
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


def _open_rearc(spec: Spec, opening: Opening) -> Rearc:
    data = opening.data
    asked = tuple(spec.argument.split(",")) if spec.argument else ()
    check_families(asked)
    both = [name for name in asked if name in data.holdout_families]
    if both:
        raise InputError(f"{', '.join(both)}: trained on (data.sources) and held out (data.holdout_families)")
    names = asked or tuple(name for name in families() if name not in data.holdout_families)
    return Rearc(spec, names, _limits(data), opening.seed, Counts())


def _open_read(spec: Spec, opening: Opening) -> Finite:
    gathering = Gathering(spec, opening.seed, None, opening.usable)
    for row in read_tasks(spec, opening.data.pairs):
        gathering.put(row)
    return gathering.finite()


def _open_built(spec: Spec, opening: Opening) -> Finite:
    """A built folder, in the order in which it was built."""
    built = read_built(existing(spec))
    source = Finite(spec, [], (), Counts(), brings=built.held)
    source.counts.read = sum(len(tasks) for tasks in built.sets.values())
    source.groups = [Group((task,), frozenset({canonical_key(task)})) for task in built.sets.get("train", ())]
    if opening.usable is not None:
        source.screen(opening.usable)
    return source


def _open_barc(spec: Spec, opening: Opening) -> Finite:
    """A file of puzzles, of which no more stays in memory than may be asked for; or the hub's, read no further."""
    data = opening.data
    asked = data.tasks + data.holdout_select + data.holdout_test
    gathering = Gathering(spec, opening.seed, 2 * asked + SPARE, opening.usable)
    fewer = taken = 0
    for row in read_tasks(spec, data.pairs, gathering.counts.refusals):
        gathering.put(row)
        if not isinstance(row, Refused):
            taken += 1
            fewer += len(row[1].train) < data.pairs
        if not spec.argument and len(gathering) >= asked * STREAMED:
            break
    source = gathering.finite()
    if fewer:
        source.notes.append(f"{spec.name}: {fewer} of {taken} puzzles have fewer examples than data.pairs {data.pairs}")
    return source


def _open_draw(spec: Spec, opening: Opening) -> Finite:
    """One target, as a task without examples whose test output is the image."""
    wanted = target(spec.argument)
    task = Task(spec.name, DRAW, DRAW, (), (Pair(Grid(wanted.blank), Grid(wanted.image)),))
    source = Finite(spec, [Group((task,), frozenset({canonical_key(task)}))], (), Counts(read=1))
    source.notes += [f"{spec.name}: {note}" for note in wanted.notes]
    if opening.usable is not None:
        source.screen(opening.usable)
    return source


OPENERS: dict[str, Callable[[Spec, Opening], Source]] = {
    "rearc": _open_rearc,
    "arc1": _open_read,
    "arc2": _open_read,
    "barc": _open_barc,
    PATH: _open_read,
    BUILT: _open_built,
    DRAW: _open_draw,
}
