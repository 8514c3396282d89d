"""What is trained on, and what is held out.

Held-out sets are drawn first, from the seed alone, so that they stay the same whatever the number of training tasks.
Then training tasks are drawn; one whose content is held out (up to symmetry, colours and order, see ``content.py``) is
passed over and counted, and so is one that shows a held-out test pair among its own pairs. Of tasks from files that
pair is known up to symmetry and colours too: the same puzzle goes around with other examples. Of generated tasks it is
known as it stands: on grids of 3 x 3 up to 6 x 6 there are few pairs up to symmetry and colours, every generator gives
them again and again, and nine in ten training tasks of the mirrors and turns would be lost. A generated task is held
out only if its test pair is none of the common ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from arcslim.config import DataSection
from arcslim.errors import DataError
from arcslim.tasks.arc import Refused
from arcslim.tasks.augment import draw_change, is_asked_for
from arcslim.tasks.finite import Counts, Finite
from arcslim.tasks.generated import Rearc
from arcslim.tasks.leaks import Seen
from arcslim.tasks.mix import mixed, shares
from arcslim.tasks.sources import Source, open_arc1, open_held_families, open_kept_out, open_sources
from arcslim.tasks.task import Task
from arcslim.tasks.trivial import why_trivial

Fits = Callable[[Task], bool]
HELD_FAMILIES = "held-out generators"
CHANGES = 8  # that are tried for a task
NO_HOLDOUTS = {"holdout_select": 0, "holdout_test": 0, "holdout_arc1": 0, "holdout_families": ()}
HELD_ARC1 = "arc1 (tested apart)"


@dataclass(frozen=True)
class Split:
    """Training tasks and the sets held out; every task has one test pair, whose output is known.

    ``counts`` holds a row a source: ``read`` is the sum of all the others (``kept``, and what was dropped, by
    reason). ``refusals``: pairs that generators tried and that broke the limits, by reason. ``refused``: files and
    tasks that could not be read. ``copy_rate``: for each set the share of tasks for which the test input itself is
    the right answer, and under ``SET/cells`` the mean share of cells that it gets right. ``notes``: what a reader
    of the counts should know, in words.
    """

    train: tuple[Task, ...]
    select: tuple[Task, ...]
    test: tuple[Task, ...]
    test_families: tuple[Task, ...]
    test_arc1: tuple[Task, ...]
    counts: dict[str, dict[str, int]]
    refusals: dict[str, dict[str, int]]
    refused: tuple[Refused, ...]
    copy_rate: dict[str, float]
    notes: tuple[str, ...]


def build_split(data: DataSection, seed: int, fits: Fits) -> Split:
    """Read and draw everything that ``data`` asks for. ``fits(task)`` tells whether a task's prompt is in the limit.

    Takes about 5 ms of one core a generated task (4,000 RE-ARC tasks at the default difficulty: 20 s), with
    two of three pairs drawn refused by the limits.

    Raises:
        InputError: a source that cannot be opened.
        DataError: nothing usable, or fewer tasks than are to be held out.
    """

    def readable(task: Task) -> str | None:
        if task.test[0].output is None:
            return "no_truth"
        return None if fits(task) else "too_long"

    def usable(task: Task) -> str | None:
        return (why_trivial(task) if data.drop_trivial else None) or readable(task)

    sources = open_sources(data, seed, usable)
    seen = Seen()
    seen.hold(open_kept_out(data))
    brought = _hold_brought(sources, readable, seen)
    if brought:
        data = data.model_copy(update=NO_HOLDOUTS)
    arc1 = open_arc1("", seed) if data.holdout_arc1 else None
    held_families = open_held_families(data, seed) if data.holdout_families else None
    test_arc1 = _hold_arc1(arc1, data.holdout_arc1, readable, seen) if arc1 is not None else []
    if data.holdout_test or data.holdout_select or held_families:
        drawn = (source.first_instances(usable) for source in sources if isinstance(source, Rearc))
        seen.common.update(pair.key() for tasks in drawn for task in tasks for pair in (*task.train, *task.test))
    finite = [source for source in sources if isinstance(source, Finite)]
    test = _hold_out("test", data.holdout_test, sources, usable, seen)
    select = _hold_out("select", data.holdout_select, sources, usable, seen)
    test_families = _hold_families(held_families, data.holdout_family_tasks, usable, seen) if held_families else []
    train, notes = _augmented(_draw_training(data.tasks, sources, usable, seen), data, seed, usable, seen)
    for source in [*finite, *([arc1] if arc1 else [])]:
        source.close()

    drawn_sets = {"select": select, "test": test, "test_families": test_families, "test_arc1": test_arc1}
    sets = {"train": train} | drawn_sets | brought
    counted = {source.spec.name: source.counts for source in sources}
    counted |= {HELD_FAMILIES: held_families.counts} if held_families else {}
    counted |= {HELD_ARC1: arc1.counts} if arc1 else {}
    return Split(
        **{name: tuple(tasks) for name, tasks in sets.items()},
        counts={name: counts.as_dict() for name, counts in counted.items()},
        refusals={name: dict(sorted(counts.refusals.items())) for name, counts in counted.items() if counts.refusals},
        refused=tuple(item for source in finite for item in source.refused),
        copy_rate=_copy_rates(sets),
        notes=(*_notes(data, sets, sources), *notes),
    )


def _hold_brought(sources: list[Source], readable: Callable[[Task], str | None], seen: Seen) -> dict[str, list[Task]]:
    """Hold the sets that built folders bring of their own, whole; those over the prompt's limit are left out."""
    held: dict[str, list[Task]] = {}
    for source in sources:
        if not isinstance(source, Finite):
            continue
        for name, tasks in source.brings.items():
            reasons = [readable(task) for task in tasks]
            kept = [task for task, reason in zip(tasks, reasons, strict=True) if reason is None]
            source.counts.kept += len(kept)
            source.counts.dropped.update(reason for reason in reasons if reason is not None)
            seen.hold(tasks)
            held[name] = [*held.get(name, ()), *kept]
            source.notes.append(
                f"{source.spec.name} brings its own {name}: {len(kept)} tasks; data.holdout_* do not count"
            )
    return held


def _hold_arc1(source: Finite, number: int, usable: Callable[[Task], str | None], seen: Seen) -> list[Task]:
    source.screen(usable)
    room = source.room
    tasks = source.take(number, "rest_of_a_task")
    if len(tasks) < number:
        raise DataError(
            f"data.holdout_arc1 asks for {number} ARC-1 tasks, but {room} fit the prompt's limit",
            f"lower data.holdout_arc1 to {room}, or raise prompt.max_tokens",
        )
    seen.hold(tasks)
    return tasks


def _hold_families(source: Rearc, number: int, usable: Callable[[Task], str | None], seen: Seen) -> list[Task]:
    tasks = source.take("test_families", number, usable, seen.refuse_held)
    if len(tasks) < number:
        raise DataError(
            f"the generators of data.holdout_families gave {len(tasks)} tasks of {number}; {_why(source.counts)}",
            "lower data.holdout_family_tasks, or name other generators",
        )
    return tasks


def _hold_out(
    purpose: str, number: int, sources: list[Source], usable: Callable[[Task], str | None], seen: Seen
) -> list[Task]:
    """Hold ``number`` tasks out, from every source by its weight."""
    for source in sources:
        if isinstance(source, Finite):
            source.screen(seen.refuse_leak)
    endless = any(isinstance(source, Rearc) for source in sources)
    # Beside generators, a small file must not end up in the held-out sets whole.
    rooms = [_room(source, 2 if endless else 1) for source in sources]
    parts: list[list[Task]] = []
    for source, part in zip(sources, shares(number, [s.spec.weight for s in sources], rooms), strict=True):
        if isinstance(source, Finite):
            held = source.take(part, "rest_of_a_task")
            seen.hold(held)
            parts.append(held)
        else:
            parts.append(source.take(purpose, part, usable, seen.refuse_held))
    tasks = mixed(parts)
    left = sum(source.room for source in sources if isinstance(source, Finite))
    if len(tasks) < number or (number and not endless and not left):
        raise DataError(
            f"data.holdout_{purpose} asks for {number} tasks, but the sources give {len(tasks) + left}, "
            f"those to train on included; {_why(*(source.counts for source in sources))}",
            f"lower data.holdout_{purpose} (and the other holdouts), or add a source",
        )
    return tasks


def _draw_training(number: int, sources: list[Source], usable: Callable[[Task], str | None], seen: Seen) -> list[Task]:
    for source in sources:
        if isinstance(source, Finite):
            source.screen(seen.refuse_trained)
    rooms = [_room(source, 1) for source in sources]
    parts: list[list[Task]] = []
    for source, part in zip(sources, shares(number, [s.spec.weight for s in sources], rooms), strict=True):
        if isinstance(source, Finite):
            parts.append(source.take(part, "not_drawn"))
        else:
            parts.append(source.take("train", part, usable, seen.refuse_trained))
    tasks = mixed(parts)
    if not tasks:
        counts = [source.counts for source in sources]
        raise DataError(f"no task to train on; {_why(*counts)}", _mend(*counts))
    return tasks


def _augmented(
    tasks: list[Task], data: DataSection, seed: int, usable: Callable[[Task], str | None], seen: Seen
) -> tuple[list[Task], list[str]]:
    """Each task after a change of its own; as it was where each change tried is too long or shows a held-out pair."""
    if not is_asked_for(data):
        return tasks, []
    changed: list[Task] = []
    unchanged = 0
    for task in tasks:
        tried = (draw_change(task, data, seed, attempt).apply(task) for attempt in range(CHANGES))
        found = next((one for one in tried if usable(one) is None and seen.refuse_leak(one) is None), None)
        unchanged += found is None
        changed.append(task if found is None else found)
    words = f"{unchanged} training tasks stay as they were: changed, they are too long or show a held-out pair"
    return changed, [words] if unchanged else []


def _room(source: Source, part: int) -> int | None:
    return source.room // part if isinstance(source, Finite) else None


def _mend(*counts: Counts) -> str:
    """What to do about the most frequent reason."""
    dropped = sum((item.dropped + item.refusals for item in counts), Counter[str]()).most_common(1)
    reason = dropped[0][0] if dropped else ""
    if reason == "no_truth":
        return "their test outputs are not known: put the solutions beside the challenges, or give another source"
    if reason == "too_long":
        return "raise prompt.max_tokens, or give smaller tasks"
    return "widen the limits in [data], or give another source"


def _why(*counts: Counts) -> str:
    """The dropped rows and refused pairs in words, most first."""
    read = sum(item.read for item in counts)
    dropped = sum((item.dropped + item.refusals for item in counts), Counter[str]())
    reasons = ", ".join(f"{reason} {number}" for reason, number in dropped.most_common(6) if number)
    return f"read {read}, of which dropped: {reasons or 'none'}"


def _notes(data: DataSection, sets: dict[str, list[Task]], sources: list[Source]) -> tuple[str, ...]:
    notes = []
    for source in sources:
        silent = source.left_out() if isinstance(source, Rearc) else []
        if silent and isinstance(source, Rearc):
            asked = len(source.alive)
            notes.append(f"{source.spec.name}: {len(silent)} of {asked} generators give nothing within the limits")
        notes += source.notes if isinstance(source, Finite) else []
    if len(sets["train"]) < data.tasks:
        notes.append(
            f"{len(sets['train'])} training tasks instead of data.tasks = {data.tasks}: the sources hold no more"
        )
    return tuple(notes)


def _copy_rates(sets: dict[str, list[Task]]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for name, tasks in sets.items():
        if tasks:
            scores = [_copied(task) for task in tasks]
            rates[name] = sum(score == 1.0 for score in scores) / len(scores)
            rates[f"{name}/cells"] = sum(scores) / len(scores)
    return rates


def _copied(task: Task) -> float:
    """The share of the output's cells that the test input gets right; 0 where the sizes differ."""
    pair = task.test[0]
    if pair.output is None or pair.input.shape != pair.output.shape:
        return 0.0
    return float((pair.input.cells == pair.output.cells).mean())
