"""Tasks that need no thinking: rules that find them without a model.

The first experiments trained on synthetic puzzles of which many can be answered by copying, and learned that thinking
does not pay. A rule must hold on *every* pair whose output is known, the test's included; the last one looks at the
test's answer alone. Each is named, so that a report can say which of them dropped how many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Task

PREFIX = "trivial_"  # before a rule's name in the counts of a source

Solved = Sequence[tuple[Grid, Grid]]
"""Input and output of each pair whose output is known."""


def output_is_input(pairs: Solved) -> bool:
    """Nothing happens."""
    return all(before == after for before, after in pairs)


def one_fixed_colour(pairs: Solved) -> bool:
    """Every output is filled with one colour, the same in all of them, whatever its size."""
    return len({int(cell) for _, after in pairs for cell in np.unique(after.cells)}) == 1


def same_output(pairs: Solved) -> bool:
    """Every output is the same grid, whatever the input."""
    return len(pairs) > 1 and len({after for _, after in pairs}) == 1


def input_repeated(pairs: Solved) -> bool:
    """The output is the input laid side by side, one below the other, or both, equally often in every pair."""
    times = _times(pairs)
    return times is not None and all(_equal(np.tile(before.cells, times), after) for before, after in pairs)


def input_enlarged(pairs: Solved) -> bool:
    """The output is the input with its cells repeated, to the side, downwards, or both, equally often in every pair."""
    times = _times(pairs)
    return times is not None and all(
        _equal(before.cells.repeat(times[0], axis=0).repeat(times[1], axis=1), after) for before, after in pairs
    )


def copies_train_output(task: Task) -> bool:
    """The answer stands among the examples: it is one of their outputs. True if that holds for every test pair."""
    shown = {pair.output for pair in task.train}
    return all(pair.output is not None and pair.output in shown for pair in task.test)


RULES: dict[str, Callable[[Solved], bool]] = {
    rule.__name__: rule for rule in (output_is_input, one_fixed_colour, same_output, input_repeated, input_enlarged)
}
NAMES = (*RULES, copies_train_output.__name__)
"""Every rule, in the order in which they are asked."""


def trivial_rules(task: Task) -> tuple[str, ...]:
    """The names of all rules that a task meets."""
    pairs = [(pair.input, pair.output) for pair in (*task.train, *task.test) if pair.output is not None]
    found = [name for name, holds in RULES.items() if pairs and holds(pairs)]
    if copies_train_output(task):
        found.append(copies_train_output.__name__)
    return tuple(found)


def why_trivial(task: Task) -> str | None:
    """The first rule that a task meets, as a reason to count by (``trivial_output_is_input``), or None."""
    found = trivial_rules(task)
    return PREFIX + found[0] if found else None


def _times(pairs: Solved) -> tuple[int, int] | None:
    """How often the input fits into the output, downwards and to the side.

    None where it does not, fits once, or not equally often in every pair: to find how often is a rule of its own.
    """
    fits = {
        (after.height / before.height, after.width / before.width) if after.cells.size > before.cells.size else (0, 0)
        for before, after in pairs
    }
    down, right = fits.pop()
    return (int(down), int(right)) if not fits and down * right > 1 and down % 1 == right % 1 == 0 else None


def _equal(cells: NDArray[np.int8], grid: Grid) -> bool:
    return bool(np.array_equal(cells, grid.cells))
