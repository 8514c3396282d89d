"""Grids as text, in two formats."""

from __future__ import annotations

from typing import Literal

from arcslim.tasks.grid import Grid

GridFormat = Literal["compact", "spaced"]


def grid_to_text(grid: Grid, style: GridFormat) -> str:
    """One line a row, its cells as digits: ``777`` (compact) or ``7 7 7`` (spaced).

    Qwen's tokenizer gives each digit a token and the space before a digit another: spaced costs about twice as much.
    """
    gap = "" if style == "compact" else " "
    return "\n".join(gap.join(str(cell) for cell in row) for row in grid.rows())
