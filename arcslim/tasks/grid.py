"""``Grid``: a rectangular int8 array, sides 1 to 30, cells 0 to 9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arcslim.errors import GridError

MAX_SIDE = 30
COLOURS = 10


class Grid:
    """An immutable ARC grid. ``cells`` has shape (rows, columns), dtype int8, and is read-only.

    Raises:
        GridError: with ``reason`` one of ``not_a_grid``, ``empty``, ``ragged``, ``too_large``, ``not_an_integer``,
            ``bad_colour``.
    """

    __slots__ = ("cells",)
    cells: NDArray[np.int8]

    def __init__(self, rows: Sequence[Sequence[int]] | NDArray[Any]) -> None:
        self.cells = _checked(rows)
        self.cells.setflags(write=False)

    @property
    def height(self) -> int:
        return int(self.cells.shape[0])

    @property
    def width(self) -> int:
        return int(self.cells.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.height, self.width

    def rows(self) -> list[list[int]]:
        """Plain lists, as JSON wants them."""
        rows: list[list[int]] = self.cells.tolist()
        return rows

    def key(self) -> bytes:
        """Equal for equal grids, and for those alone."""
        return bytes(self.shape) + self.cells.tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return False
        return self.cells.shape == other.cells.shape and self.cells.tobytes() == other.cells.tobytes()

    def __hash__(self) -> int:
        return hash(self.key())

    def __reduce__(self) -> tuple[Callable[[int, int, bytes], Grid], tuple[int, int, bytes]]:
        return _from_bytes, (*self.shape, self.cells.tobytes())

    def __repr__(self) -> str:
        return f"Grid({self.height}x{self.width})"


def _from_bytes(height: int, width: int, cells: bytes) -> Grid:
    return Grid(np.frombuffer(cells, dtype=np.int8).reshape(height, width))


def _checked(rows: Sequence[Sequence[int]] | NDArray[Any]) -> NDArray[np.int8]:
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2:
            raise GridError("not_a_grid", f"a grid has two dimensions, not {rows.ndim}")
        if _sound(rows):
            return rows.astype(np.int8)
        rows = rows.tolist()
    if not isinstance(rows, (list, tuple)):
        raise GridError("not_a_grid", f"a grid is a list of rows, not {type(rows).__name__}")
    if not rows:
        raise GridError("empty", "a grid without rows")
    if len(rows) > MAX_SIDE:
        raise GridError("too_large", f"{len(rows)} rows; ARC allows {MAX_SIDE}")
    width: int | None = None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, (list, tuple)):
            raise GridError("not_a_grid", f"row {number} is {type(row).__name__}, not a list of cells")
        if not row:
            raise GridError("empty", f"row {number} has no cells")
        if len(row) > MAX_SIDE:
            raise GridError("too_large", f"row {number} has {len(row)} cells; ARC allows {MAX_SIDE}")
        if width is not None and len(row) != width:
            raise GridError("ragged", f"row {number} has {len(row)} cells, the rows above have {width}")
        width = len(row)
        for column, cell in enumerate(row, 1):
            if isinstance(cell, bool) or not isinstance(cell, int):
                raise GridError("not_an_integer", f"row {number}, column {column}: {str(cell)[:20]!r} is no integer")
            if not 0 <= cell < COLOURS:
                raise GridError("bad_colour", f"row {number}, column {column}: {str(cell)[:20]} is outside 0-9")
    return np.array(rows, dtype=np.int8)


def _sound(cells: NDArray[Any]) -> bool:
    """Whether an array is a grid as it stands; checked without a loop: every answer of a rollout comes by here."""
    return (
        cells.dtype.kind in "iu"
        and 0 < cells.shape[0] <= MAX_SIDE
        and 0 < cells.shape[1] <= MAX_SIDE
        and bool(cells.max() < COLOURS)
        and (cells.dtype.kind == "u" or bool(cells.min() >= 0))
    )
