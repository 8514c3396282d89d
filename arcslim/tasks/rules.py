"""A small library of whole-grid rules, for honest thinking: each rule is a function that can be checked.

``find_rule`` names the first rule that explains every pair of a task that it is shown. Rules with a parameter (which
colour becomes which) are fitted to the pairs first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arcslim.tasks.grid import MAX_SIDE, Grid
from arcslim.tasks.task import Pair

Cells = NDArray[np.int8]
Apply = Callable[[Cells], Cells]


@dataclass(frozen=True)
class Rule:
    """``words`` completes the sentence "Rule: …."; ``apply`` maps cells (rows, columns) to the output's cells."""

    words: str
    apply: Apply

    def explains(self, pairs: Iterable[Pair]) -> bool:
        return all(pair.output is not None and self.on(pair.input) == pair.output for pair in pairs)

    def on(self, grid: Grid) -> Grid | None:
        """The rule's output, or None where it is no ARC grid (over 30 cells a side, or nothing left)."""
        cells = self.apply(grid.cells)
        if 0 in cells.shape or max(cells.shape) > MAX_SIDE:
            return None
        return Grid(cells)


def _beside(*parts: Cells) -> Cells:
    return np.concatenate(parts, axis=1)


def _under(*parts: Cells) -> Cells:
    return np.concatenate(parts, axis=0)


def _left_half(cells: Cells) -> Cells:
    return cells[:, : cells.shape[1] // 2]


def _top_half(cells: Cells) -> Cells:
    return cells[: cells.shape[0] // 2]


def _shift_down(cells: Cells) -> Cells:
    shifted = np.zeros_like(cells)
    shifted[1:] = cells[:-1]
    return shifted


def _crop(cells: Cells) -> Cells:
    rows, columns = np.nonzero(cells)
    if rows.size == 0:
        return cells[:0]
    return cells[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _four_corners(cells: Cells) -> Cells:
    top = _beside(cells, np.fliplr(cells))
    return _under(top, np.flipud(top))


def _scaled(factor: int) -> Apply:
    return lambda cells: np.kron(cells, np.ones((factor, factor), dtype=np.int8))


FIXED_RULES: tuple[Rule, ...] = (
    Rule("mirror left to right", np.fliplr),
    Rule("mirror top to bottom", np.flipud),
    Rule("swap rows and columns", np.transpose),
    Rule("turn by half", lambda cells: np.rot90(cells, 2)),
    Rule("turn left", lambda cells: np.rot90(cells, 1)),
    Rule("turn right", lambda cells: np.rot90(cells, -1)),
    Rule("swap rows and columns across the other corner", lambda cells: np.rot90(cells, 2).T),
    Rule("move down by one row", _shift_down),
    Rule("put the grid and its mirror side by side", lambda cells: _beside(cells, np.fliplr(cells))),
    Rule("put the mirror and the grid side by side", lambda cells: _beside(np.fliplr(cells), cells)),
    Rule("put the grid over its mirror", lambda cells: _under(cells, np.flipud(cells))),
    Rule("put the mirror over the grid", lambda cells: _under(np.flipud(cells), cells)),
    Rule("mirror into four corners", _four_corners),
    Rule("put the grid twice side by side", lambda cells: _beside(cells, cells)),
    Rule("put the grid twice one over the other", lambda cells: _under(cells, cells)),
    Rule("make each cell two by two", _scaled(2)),
    Rule("make each cell three by three", _scaled(3)),
    Rule("keep the left half", _left_half),
    Rule("keep the top half", _top_half),
    Rule("cut out what is not 0", _crop),
    Rule("cut out what is not 0 and mirror it", lambda cells: np.fliplr(_crop(cells))),
)


def _recolouring(pairs: Iterable[Pair]) -> dict[int, int] | None:
    """Which colour becomes which, where that is the same everywhere and no cell moves; None otherwise."""
    mapping: dict[int, int] = {}
    for pair in pairs:
        if pair.output is None or pair.input.shape != pair.output.shape:
            return None
        before, after = pair.input.cells.ravel(), pair.output.cells.ravel()
        for old, new in zip(before.tolist(), after.tolist(), strict=True):
            if mapping.setdefault(old, new) != new:
                return None
    return mapping


def _recolour_rule(mapping: dict[int, int]) -> Rule | None:
    changed = sorted((old, new) for old, new in mapping.items() if old != new)
    if not changed:
        return None
    table = np.arange(10, dtype=np.int8)
    for old, new in changed:
        table[old] = new
    pairs_in_words = ", ".join(f"{old} to {new}" for old, new in changed)
    return Rule(f"change {pairs_in_words}", lambda cells: table[cells])


def find_rule(pairs: tuple[Pair, ...]) -> Rule | None:
    """The first rule that explains all the pairs, or None."""
    for rule in FIXED_RULES:
        if rule.explains(pairs):
            return rule
    mapping = _recolouring(pairs)
    return None if mapping is None else _recolour_rule(mapping)
