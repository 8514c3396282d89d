"""From specs to tasks: finite sources (files, ARC-1, BARC) that are read at once, and RE-ARC, which is drawn from.

Both hand out single-test tasks that have passed a screen, and count what they passed over. Nothing here depends on
the order of rows, files or generators: a finite source is shuffled by content and seed, a generated task depends on
(seed, generator, index) alone.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from arcslim.config import DataSection
from arcslim.errors import InputError, TaskError
from arcslim.tasks.arc import Loaded, Refused, load_arc1, load_path
from arcslim.tasks.barc import read_barc, stream_barc
from arcslim.tasks.built import read_built, read_manifest
from arcslim.tasks.content import canonical_key
from arcslim.tasks.finite import Counts, Finite, Gathering, Group, Screen
from arcslim.tasks.generated import Rearc
from arcslim.tasks.rearc import RearcLimits, check_families, families
from arcslim.tasks.spec import ARC1_SPLITS, BUILT, HUB, PATH, ROWS, SAMPLES, Spec, parse_spec

ARC2_PARTS = ("training", "evaluation")
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
            f"{', '.join(rows)}: rows of traces, not tasks", "`arcslim sft` learns from them; give tasks here"
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
            held.update(read_manifest(Path(spec.argument).expanduser()).get("data", {}).get("holdout_families", ()))
    return data.model_copy(update={"holdout_families": tuple(sorted(held))})


def open_held_families(data: DataSection, seed: int) -> Rearc:
    """The generators that are never trained on, as a source of their own."""
    check_families(data.holdout_families)
    return Rearc(Spec("rearc", "", 1.0), data.holdout_families, _limits(data), seed, Counts())


def open_arc1(part: str, seed: int) -> Finite:
    """ARC-1, whole (``part`` empty) or one part of it."""
    source = _open_arc1(Spec("arc1", part, 1.0), Opening(DataSection(), seed))
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


def _open_arc1(spec: Spec, opening: Opening) -> Finite:
    parts = (spec.argument,) if spec.argument else ARC1_SPLITS
    return _gathered(spec, opening, (load_arc1(part, f"arc1:{part}") for part in parts))


def _open_arc2(spec: Spec, opening: Opening) -> Finite:
    """A folder of tasks, or ARC-AGI-2's repository, whose parts are folders."""
    path = _existing(spec)
    parts = [folder / part for folder in (path, path / "data") for part in ARC2_PARTS if (folder / part).is_dir()]
    if path.is_dir() and parts and not any(path.glob("*.json")):
        return _gathered(spec, opening, (load_path(part, f"arc2:{part.name}") for part in parts))
    return _gathered(spec, opening, [load_path(path, "arc2")])


def _open_path(spec: Spec, opening: Opening) -> Finite:
    path = _existing(spec)
    return _gathered(spec, opening, [load_path(path, path.name)])


def _open_built(spec: Spec, opening: Opening) -> Finite:
    """A built folder, in the order in which it was built."""
    built = read_built(Path(spec.argument).expanduser())
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
    passed_over = gathering.counts.refusals
    rows = (
        read_barc(_existing(spec), data.pairs, passed_over) if spec.argument else stream_barc(data.pairs, passed_over)
    )
    fewer = taken = 0
    for row in rows:
        if isinstance(row, Refused):
            gathering.refuse(row)
            continue
        gathering.add(row[1])
        taken += 1
        fewer += len(row[1].train) < data.pairs
        if not spec.argument and len(gathering) >= asked * STREAMED:
            break
    source = gathering.finite()
    if fewer:
        source.notes.append(f"{spec.name}: {fewer} of {taken} puzzles have fewer examples than data.pairs {data.pairs}")
    return source


def _gathered(spec: Spec, opening: Opening, parts: Iterable[Loaded]) -> Finite:
    gathering = Gathering(spec, opening.seed, None, opening.usable)
    for loaded in parts:
        for item in loaded.refused:
            gathering.refuse(item)
        for task in loaded.tasks:
            gathering.add(task)
    return gathering.finite()


def _existing(spec: Spec) -> Path:
    path = Path(spec.argument).expanduser()
    if not path.exists():
        raise TaskError("not_found", f"no such file or folder: {spec.argument}", _near(path))
    return path


OPENERS: dict[str, Callable[[Spec, Opening], Source]] = {
    "rearc": _open_rearc,
    "arc1": _open_arc1,
    "arc2": _open_arc2,
    "barc": _open_barc,
    PATH: _open_path,
    BUILT: _open_built,
}


def _near(path: Path) -> str | None:
    """What stands beside a path that does not exist, if a name there is close to it."""
    if not path.parent.is_dir():
        return None
    names = difflib.get_close_matches(path.name, [item.name for item in path.parent.iterdir()], n=1, cutoff=0.6)
    return f"did you mean {path.with_name(names[0])}?" if names else None
