"""The drawing language: what a program is, what it draws, and how it is written.

A program is a list of calls; ``drawing_parse.parse_program`` reads one from text, and nothing that a model wrote is
executed by Python. Points are (row, column), colours 0 to 9. The calls, and what their numbers mean, in order::

    create_img(shape=(H, W), color=0)                        a new image of one colour, which takes the old one's place
    draw_line(img, point1=(R, C), point2=(R, C), color=K)    Bresenham, both ends included
    draw_rectangle(img, point1=(R, C), point2=(R, C), color=K)    filled, both corners included
    draw_horizontal_line(img, y=R, color=K)                  the whole row
    draw_vertical_line(img, x=C, color=K)                    the whole column
    draw_pixel(img, point=(R, C), color=K)                   one cell

Whatever lies outside the image is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arcslim.tasks.drawing_paint import DRAW, blank
from arcslim.tasks.grid import MAX_SIDE, Grid

Image = NDArray[np.int8]
"""Shape (rows, columns), sides 1 to 30, cells 0 to 9."""

Kind = Literal["shape", "point", "number", "colour"]
Reason = Literal[
    "too_long",  # more bytes than are read
    "too_many_lines",
    "too_many_calls",
    "too_deep",  # brackets within brackets within brackets
    "character",  # one that no program needs: quotes, dots, operators, control characters, all beyond ASCII
    "number",  # too large, or written as no plain integer is
    "syntax",  # no Python, a call over several lines, uneven indentation
    "no_task",  # no `def task(img):`
    "outside_task",  # something beside it
    "signature",  # it begins otherwise than with `def task(img):`
    "statement",  # anything but a call or `return img`
    "unknown_call",
    "arguments",  # missing, unknown, twice, by position
    "not_literal",  # an argument that is no integer, or no pair of them
    "colour",
    "canvas",  # create_img with a side that is not 1 to 30
    "no_return",
    "after_return",
    "no_image",  # nothing to draw on: no input, and the first call is not create_img
]

CREATE = "create_img"
PARAMETERS: dict[str, tuple[tuple[str, Kind], ...]] = {
    CREATE: (("shape", "shape"), ("color", "colour")),
    "draw_line": (("point1", "point"), ("point2", "point"), ("color", "colour")),
    "draw_rectangle": (("point1", "point"), ("point2", "point"), ("color", "colour")),
    "draw_horizontal_line": (("y", "number"), ("color", "colour")),
    "draw_vertical_line": (("x", "number"), ("color", "colour")),
    "draw_pixel": (("point", "point"), ("color", "colour")),
}
"""The parameters of each call behind ``img``. A shape and a point are two of the call's numbers, the others one."""

HEADER, FOOTER, INDENT = "def task(img):", "    return img", "    "


class DrawingRefused(Exception):
    """A program that is none, or that cannot be run; ``reason`` is the short name that it is counted under."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(reason, words)  # both, or it could not be pickled
        self.reason = reason
        self.words = words

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class DrawingLimits:
    """What a program may be at most. ``max_number``: the largest absolute value of a coordinate."""

    max_bytes: int = 12_288
    max_lines: int = 256
    max_calls: int = 128
    max_side: int = MAX_SIDE
    max_number: int = 999


LIMITS = DrawingLimits()


class Call(NamedTuple):
    """One call, its numbers in the order of ``PARAMETERS``: ``draw_line`` has (row, column, row, column, colour)."""

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """Calls that were checked, by ``parse_program`` or by whoever drew them; ``run`` trusts their names and colours."""

    calls: tuple[Call, ...]

    def run(self, image: Image | None) -> Image:
        """The image that the program makes of ``image``, which stays as it is. ``None``: there is no input.

        Raises:
            DrawingRefused: ``no_image``, where there is no input and the first call is not ``create_img``.
            GridError: ``image`` breaks ARC's rules.
        """
        height, width, canvas = self.paint(image)
        return np.frombuffer(canvas, dtype=np.int8).reshape(height, width)

    def paint(self, image: Image | None) -> tuple[int, int, bytearray]:
        """``run`` without the array: height, width, and the cells row by row."""
        calls = self.calls
        if image is not None:
            if image.dtype != np.int8 or image.ndim != 2:
                image = Grid(image).cells
            height, width = image.shape
            canvas = bytearray(image.tobytes())
        elif calls and calls[0].name == CREATE:
            height, width, canvas = 0, 0, bytearray()
        else:
            raise DrawingRefused("no_image", f"without an input image the first call is {CREATE}")
        for name, numbers in calls:
            if name == CREATE:
                height, width, canvas = blank(numbers)
            else:
                DRAW[name](canvas, height, width, numbers)
        return height, width, canvas

    def to_source(self) -> str:
        """The program as text, in the one form that training sees; ``parse_program`` gives it back as it is."""
        lines = [_FORMS[name] % numbers for name, numbers in self.calls]
        return "\n".join([HEADER, *lines, FOOTER]) + "\n"


_WRITTEN: dict[Kind, str] = {"shape": "(%d, %d)", "point": "(%d, %d)", "number": "%d", "colour": "%d"}


def call_form(name: str) -> str:
    """How a call is written, with ``%d`` for each number: ``img = draw_pixel(img, point=(%d, %d), color=%d)``."""
    arguments = [f"{parameter}={_WRITTEN[kind]}" for parameter, kind in PARAMETERS[name]]
    return f"img = {name}({', '.join(arguments if name == CREATE else ['img', *arguments])})"


_FORMS = {name: INDENT + call_form(name) for name in PARAMETERS}
