"""The six calls of the drawing language, on a canvas of bytes.

A canvas is a ``bytearray`` of height x width cells, row by row, each 0 to 9. Whatever lies outside is left out, and
costs nothing: a call takes O(canvas) however far away its points are. A negative coordinate lies outside as well; it
does not count from the far edge.
"""

from __future__ import annotations

from collections.abc import Callable

from arcslim.tasks.grid import COLOURS, MAX_SIDE

Numbers = tuple[int, ...]

_BARS = tuple(bytes([colour]) * (MAX_SIDE * MAX_SIDE) for colour in range(COLOURS))


def blank(numbers: Numbers) -> tuple[int, int, bytearray]:
    """``create_img``: (height, width, colour) becomes a canvas of one colour."""
    height, width, colour = numbers
    return height, width, bytearray(_BARS[colour][: height * width])


def _line(canvas: bytearray, height: int, width: int, numbers: Numbers) -> None:
    """Bresenham's line from point1 to point2, both included: along the longer axis one cell a step, and a tie between
    two cells goes to the one farther from point1's row or column.

    After t steps of n along the longer axis, with m along the shorter, the shorter has moved by floor((2tm + n) / 2n):
    so the first step inside the canvas is found without walking there.
    """
    row, column, end_row, end_column, colour = numbers
    rows, columns = abs(end_row - row), abs(end_column - column)
    down, right = (1 if end_row > row else -1), (1 if end_column > column else -1)
    if columns >= rows:
        n, m, along, across, forward, aside = columns, rows, column, row, right, down
        length, breadth, stride_along, stride_across = width, height, 1, width
    else:
        n, m, along, across, forward, aside = rows, columns, row, column, down, right
        length, breadth, stride_along, stride_across = height, width, width, 1
    if forward > 0:
        first, last = max(0, -along), min(n, length - 1 - along)
    else:
        first, last = max(0, along - length + 1), min(n, along)
    moved, error = divmod(2 * first * m + n, 2 * n) if n else (0, 0)
    across += aside * moved
    place = (along + forward * first) * stride_along + across * stride_across
    step, shift = forward * stride_along, aside * stride_across
    rise, full = 2 * m, 2 * n
    for _ in range(last - first + 1):
        if 0 <= across < breadth:
            canvas[place] = colour
        place += step
        error += rise
        if error >= full:
            error -= full
            across += aside
            place += shift


def _rectangle(canvas: bytearray, height: int, width: int, numbers: Numbers) -> None:
    """All cells from one corner to the other, both included, whichever corners they are."""
    top, left, bottom, right, colour = numbers
    if top > bottom:
        top, bottom = bottom, top
    if left > right:
        left, right = right, left
    top, left = max(top, 0), max(left, 0)
    bottom, right = min(bottom, height - 1), min(right, width - 1)
    if left > right:
        return
    bar = _BARS[colour][: right - left + 1]
    for start in range(top * width + left, bottom * width + left + 1, width):
        canvas[start : start + len(bar)] = bar


def _horizontal(canvas: bytearray, height: int, width: int, numbers: Numbers) -> None:
    row, colour = numbers
    if 0 <= row < height:
        canvas[row * width : (row + 1) * width] = _BARS[colour][:width]


def _vertical(canvas: bytearray, height: int, width: int, numbers: Numbers) -> None:
    column, colour = numbers
    if 0 <= column < width:
        canvas[column::width] = _BARS[colour][:height]


def _pixel(canvas: bytearray, height: int, width: int, numbers: Numbers) -> None:
    row, column, colour = numbers
    if 0 <= row < height and 0 <= column < width:
        canvas[row * width + column] = colour


DRAW: dict[str, Callable[[bytearray, int, int, Numbers], None]] = {
    "draw_line": _line,
    "draw_rectangle": _rectangle,
    "draw_horizontal_line": _horizontal,
    "draw_vertical_line": _vertical,
    "draw_pixel": _pixel,
}
"""Each changes the canvas that it is given: (canvas, height, width, the call's numbers)."""
