"""What hindsight needs to know of drawings: do they change anything, what can be left out, which are the same, how near
they come.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import numpy as np

from arcslim.tasks.drawing import DrawingRefused, Image, Program

Order = Literal["asc", "random", "desc"]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A program, what it was given and what it drew: ``program.run(input)`` equals ``output``."""

    program: Program
    input: Image
    output: Image


def draw(program: Program, image: Image) -> Drawing:
    """Run a program. Raises what ``Program.run`` raises."""
    return Drawing(program, image, program.run(image))


def same_image(one: Image, other: Image) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def is_noop(program: Program, image: Image | None) -> bool:
    """Whether the program gives the image back as it was. Without an input, whatever it draws is new."""
    return image is not None and same_image(program.run(image), image)


def prune(program: Program, image: Image | None) -> Program:
    """The program without the calls that change nothing, which draws the very same image.

    One call at a time is left out and the rest run again: of two calls that cover each other one stays. A single pass
    from the first to the last is enough. A call stays because of a cell that it is the last to paint; later calls do
    not touch that cell, so that leaving any of them out does not make the call needless.

    Raises:
        DrawingRefused: ``no_image``, as ``Program.run`` does.
    """
    wanted = program.paint(image)
    kept = list(program.calls)
    index = 0
    while index < len(kept):
        shorter = Program((*kept[:index], *kept[index + 1 :]))
        if _draws(shorter, image, wanted):
            del kept[index]
        else:
            index += 1
    return program if len(kept) == len(program.calls) else Program(tuple(kept))


def _draws(program: Program, image: Image | None, wanted: tuple[int, int, bytearray]) -> bool:
    try:
        return program.paint(image) == wanted
    except DrawingRefused:  # create_img was left out, and there is no input
        return False


def pixel_accuracy(image: Image, target: Image) -> float:
    """The share of the target's cells that ``image`` has right, 0 to 1. Another shape is 0: no cell has its place.

    A blank image has right what is blank in the target: ``chick`` starts at 0.02, a target half blank at 0.5.
    """
    if image.shape != target.shape:
        return 0.0
    return float(np.count_nonzero(image == target)) / target.size


def image_key(image: Image) -> bytes:
    """Equal for equal images, and for those alone; the same as ``Grid.key``."""
    return bytes(image.shape) + image.astype(np.int8, copy=False).tobytes()


def code_length(program: Program) -> tuple[int, int]:
    """What makes one program shorter than another: fewer calls, then fewer characters."""
    return len(program.calls), len(program.to_source())


def shortest_by_image(drawings: Iterable[Drawing]) -> list[Drawing]:
    """Of drawings of the same image the shortest, and of equally short ones the first; in the order in which the images
    came first."""
    best: dict[bytes, tuple[tuple[int, int], Drawing]] = {}
    for drawing in drawings:
        key, length = image_key(drawing.output), code_length(drawing.program)
        if key not in best or length < best[key][0]:
            best[key] = length, drawing
    return [drawing for _, drawing in best.values()]


def novel(drawings: Iterable[Drawing], seen: AbstractSet[bytes]) -> list[Drawing]:
    """Those whose image is not in ``seen``, a set of ``image_key``; ``seen`` stays as it is."""
    return [drawing for drawing in drawings if image_key(drawing.output) not in seen]


def ordered(drawings: Sequence[Drawing], target: Image, order: Order, rng: random.Random) -> list[Drawing]:
    """In the order of pixel accuracy against the target, ``asc`` the worst first. Ties and ``random`` go by ``rng``."""
    shuffled = rng.sample(drawings, len(drawings))
    if order == "random":
        return shuffled
    return sorted(shuffled, key=lambda drawing: pixel_accuracy(drawing.output, target), reverse=order == "desc")
