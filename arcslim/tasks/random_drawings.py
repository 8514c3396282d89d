"""Random drawings, on which a model learns to read an image back into a program.

Each has an input of one colour and a program of a few calls of which none is needless. The first experiments' generator
moved both coordinates of a line the same way, and so never drew one of the two diagonals: here both points are drawn
freely.
"""

from __future__ import annotations

import random

import numpy as np

from arcslim.tasks.drawing import Call, Program
from arcslim.tasks.drawing_choice import Drawing, draw, prune
from arcslim.tasks.drawing_paint import DRAW
from arcslim.tasks.grid import COLOURS

_NAMES = tuple(DRAW)


def drawing_at(
    seed: int,
    index: int,
    *,
    min_side: int = 3,
    max_side: int = 10,
    max_draws: int = 5,
    input_colour: int | None = None,
) -> Drawing:
    """The drawing of this seed and index: the same whichever others were made before. See ``random_drawing``."""
    rng = random.Random(f"drawing/{seed}/{index}")
    return random_drawing(rng, min_side=min_side, max_side=max_side, max_draws=max_draws, input_colour=input_colour)


def random_drawing(
    rng: random.Random,
    *,
    min_side: int = 3,
    max_side: int = 10,
    max_draws: int = 5,
    input_colour: int | None = None,
) -> Drawing:
    """Draw 1 to ``max_draws`` calls on an image of one colour, and leave out what changes nothing.

    Sides, number of calls, calls, points and colours are drawn evenly; ``input_colour`` fixes the input's. The output
    always differs from the input, and no call can be left out.
    """
    height, width = rng.randint(min_side, max_side), rng.randint(min_side, max_side)
    colour = rng.randrange(COLOURS) if input_colour is None else input_colour
    image = np.full((height, width), colour, dtype=np.int8)
    image.setflags(write=False)
    number = rng.randint(1, max_draws)
    while True:
        program = prune(Program(tuple(_random_call(rng, height, width) for _ in range(number))), image)
        if program.calls:
            return draw(program, image)


def _random_call(rng: random.Random, height: int, width: int) -> Call:
    """One call within the canvas. A line goes from any point to any other; a rectangle is written from its upper left
    to its lower right corner."""
    name = rng.choice(_NAMES)
    colour = rng.randrange(COLOURS)
    if name == "draw_horizontal_line":
        return Call(name, (rng.randrange(height), colour))
    if name == "draw_vertical_line":
        return Call(name, (rng.randrange(width), colour))
    row, column = rng.randrange(height), rng.randrange(width)
    if name == "draw_pixel":
        return Call(name, (row, column, colour))
    other_row, other_column = rng.randrange(height), rng.randrange(width)
    while name == "draw_line" and (other_row, other_column) == (row, column) and height * width > 1:
        other_row, other_column = rng.randrange(height), rng.randrange(width)
    if name == "draw_rectangle":
        row, other_row = sorted((row, other_row))
        column, other_column = sorted((column, other_column))
    return Call(name, (row, column, other_row, other_column, colour))
