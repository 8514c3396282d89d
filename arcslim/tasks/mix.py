"""Several sources in one list: how many of each, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from arcslim.tasks.task import Task


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


def mixed(parts: list[list[Task]]) -> list[Task]:
    """One list in which every part is spread evenly."""
    placed = [((i + 0.5) / len(part), number, task) for number, part in enumerate(parts) for i, task in enumerate(part)]
    return [task for *_, task in sorted(placed, key=lambda item: item[:2])]
