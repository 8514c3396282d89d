"""Honest thinking for a task: which rule, what it does to an example, and how large the answer is.

Everything said is checked against the task's grids. A task that no rule of ``rules.py`` explains has no honest
thinking, and is left out of what is taught.
"""

from __future__ import annotations

from arcslim.tasks.grid import Grid
from arcslim.tasks.rules import find_rule
from arcslim.tasks.task import Task


def explain(task: Task) -> str | None:
    """A few sentences of thinking about the first test pair, or None where no rule explains every pair.

    For example::

        Rule: mirror left to right. Example 1: row 1 is 407 and becomes 704. The test input has 3 rows of 4 cells. \
The output has 3 rows of 4 cells.
    """
    rule = find_rule((*task.train, task.test[0]))
    if rule is None:
        return None
    first, asked = task.train[0], task.test[0]
    assert first.output is not None and asked.output is not None  # a rule explains known outputs only
    return (
        f"Rule: {rule.words}. Example 1: row 1 is {_row(first.input)} and becomes {_row(first.output)}. "
        f"The test input has {_size(asked.input)}. The output has {_size(asked.output)}."
    )


def _row(grid: Grid) -> str:
    return "".join(str(cell) for cell in grid.rows()[0])


def _size(grid: Grid) -> str:
    return f"{grid.height} rows of {grid.width} cells"
