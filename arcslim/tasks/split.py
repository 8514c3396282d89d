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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arcslim.config import DataSection
from arcslim.errors import DataError
from arcslim.tasks.arc import Refused
from arcslim.tasks.content import canonical_key, pair_key
from arcslim.tasks.finite import Counts, Finite
from arcslim.tasks.generated import Rearc
from arcslim.tasks.sources import Source, open_arc1, open_held_families, open_sources
from arcslim.tasks.task import Task
from arcslim.tasks.trivial import why_trivial

Fits = Callable[[Task], bool]
HELD_FAMILIES = "held-out generators"
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


@dataclass
class _Seen:
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

    def hold(self, tasks: Sequence[Task]) -> None:
        """Hold tasks of a file, with every pair that they show."""
        for task in tasks:
            self.held.add(canonical_key(task))
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
    seen = _Seen()
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
    train = _draw_training(data.tasks, sources, usable, seen)
    for source in [*finite, *([arc1] if arc1 else [])]:
        source.close()

    sets = {"train": train, "select": select, "test": test, "test_families": test_families, "test_arc1": test_arc1}
    counted = {source.spec.name: source.counts for source in sources}
    counted |= {HELD_FAMILIES: held_families.counts} if held_families else {}
    counted |= {HELD_ARC1: arc1.counts} if arc1 else {}
    return Split(
        **{name: tuple(tasks) for name, tasks in sets.items()},
        counts={name: counts.as_dict() for name, counts in counted.items()},
        refusals={name: dict(sorted(counts.refusals.items())) for name, counts in counted.items() if counts.refusals},
        refused=tuple(item for source in finite for item in source.refused),
        copy_rate=_copy_rates(sets),
        notes=_notes(data, sets, sources),
    )


def shares(number: int, weights: Sequence[float], rooms: Sequence[int | None]) -> list[int]:
    """Divide ``number`` by weight, no source above its room (None: endless); what does not fit goes to the others.

    Largest remainders, the first source on a tie. The sum is below ``number`` only when every room is full.
    """
    given = [0] * len(weights)
    open_ = list(range(len(weights)))
    while open_ and number > 0:
        total = sum(weights[i] for i in open_)
        ideal = {i: number * weights[i] / total for i in open_}
        full = {i: room for i in open_ if (room := rooms[i]) is not None and ideal[i] > room}
        if not full:
            for i in open_:
                given[i] = int(ideal[i])
            missing = number - sum(given[i] for i in open_)
            for i in sorted(open_, key=lambda i: given[i] - ideal[i])[:missing]:
                given[i] += 1
            break
        for i, room in full.items():
            given[i] = room
            number -= room
            open_.remove(i)
    return given


def _hold_arc1(source: Finite, number: int, usable: Callable[[Task], str | None], seen: _Seen) -> list[Task]:
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


def _hold_families(source: Rearc, number: int, usable: Callable[[Task], str | None], seen: _Seen) -> list[Task]:
    tasks = source.take("test_families", number, usable, seen.refuse_held)
    if len(tasks) < number:
        raise DataError(
            f"the generators of data.holdout_families gave {len(tasks)} tasks of {number}; {_why(source.counts)}",
            "lower data.holdout_family_tasks, or name other generators",
        )
    return tasks


def _hold_out(
    purpose: str, number: int, sources: list[Source], usable: Callable[[Task], str | None], seen: _Seen
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
    tasks = _mixed(parts)
    left = sum(source.room for source in sources if isinstance(source, Finite))
    if len(tasks) < number or (number and not endless and not left):
        raise DataError(
            f"data.holdout_{purpose} asks for {number} tasks, but the sources give {len(tasks) + left}, "
            f"those to train on included; {_why(*(source.counts for source in sources))}",
            f"lower data.holdout_{purpose} (and the other holdouts), or add a source",
        )
    return tasks


def _draw_training(number: int, sources: list[Source], usable: Callable[[Task], str | None], seen: _Seen) -> list[Task]:
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
    tasks = _mixed(parts)
    if not tasks:
        counts = [source.counts for source in sources]
        raise DataError(f"no task to train on; {_why(*counts)}", _mend(*counts))
    return tasks


def _room(source: Source, part: int) -> int | None:
    return source.room // part if isinstance(source, Finite) else None


def _mixed(parts: list[list[Task]]) -> list[Task]:
    """One list in which every part is spread evenly."""
    placed = [((i + 0.5) / len(part), number, task) for number, part in enumerate(parts) for i, task in enumerate(part)]
    return [task for *_, task in sorted(placed, key=lambda item: item[:2])]


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
