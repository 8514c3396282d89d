"""The plainest program of an image: how long a program may have to be, before any model has drawn it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from arcslim.tasks.drawing import Call, Image, Program


def plain_program(image: Image) -> Program:
    """A program that draws ``image`` on a blank (all 0) of its shape: the commonest colour everywhere, unless it is 0,
    then a call for each block of one colour. A shorter one may exist, where things lie over one another."""
    height, width = image.shape
    base = int(np.bincount(image.ravel().astype(np.int64), minlength=10).argmax())
    calls = [Call("create_img", (height, width, base))] if base else []
    left = image != base
    for row, column in np.argwhere(left).tolist():  # row by row
        if left[row, column]:
            down, across = _block(image, left, row, column)
            left[row : row + down, column : column + across] = False
            calls.append(_call(image, row, column, down, across))
    return Program(tuple(calls))


def _block(image: Image, left: npt.NDArray[np.bool_], row: int, column: int) -> tuple[int, int]:
    """Rows and columns of the largest block from this corner on, to the right first."""
    same = left & (image == image[row, column])
    across = int(np.argmin(np.append(same[row, column:], False)))
    whole = same[row:, column : column + across].all(axis=1)
    return int(np.argmin(np.append(whole, False))), across


def _call(image: Image, row: int, column: int, down: int, across: int) -> Call:
    """The shortest call that draws the block."""
    colour = int(image[row, column])
    if (down, across) == (1, 1):
        return Call("draw_pixel", (row, column, colour))
    if down == image.shape[0] and across == 1:
        return Call("draw_vertical_line", (column, colour))
    if across == image.shape[1] and down == 1:
        return Call("draw_horizontal_line", (row, colour))
    return Call("draw_rectangle", (row, column, row + down - 1, column + across - 1, colour))
