"""A target out of a file: a picture, a grid, or a test output of an ARC task. What a file is, its content says."""

from __future__ import annotations

import difflib
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arcslim.errors import GridError, InputError, TaskError
from arcslim.tasks.arc import load_path, read_grid
from arcslim.tasks.drawing import Image
from arcslim.tasks.grid import MAX_SIDE, Grid
from arcslim.tasks.jsonfile import read_json
from arcslim.tasks.task import Task

PALETTE = ("#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00", "#aaaaaa", "#f012be", "#ff851b", "#7fdbff", "#870c25")
"""ARC's colours 0 to 9, as its web page shows them."""
LIFTED_BLACK = "#262626"  # 0 in our own pictures, so that a grid's edge shows on a black terminal too
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_PIXELS = 4096  # a side
_MAX_TEXT = 2**16  # bytes of a grid as text; one of 30 x 30, spaced, has 1,800
_NAMED = 4  # colours that a note names


@dataclass(frozen=True)
class Pick:
    """What is asked of a file: the test pair, counted from 0 (None: the only one), and the pixels a side of a cell."""

    test: int | None = None
    cell: int | None = None


def read_target(path: Path, task_id: str, pick: Pick) -> tuple[Image, tuple[str, ...]]:
    """The cells, and notes on what had to be changed.

    Raises:
        InputError: the file cannot be read, or holds no grid of 1 to 30 cells a side.
    """
    if path.is_dir():
        return output_of(_one_task(path, task_id), pick, str(path)), ()
    if not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder")
    head = _head(path)
    if head.startswith(_PNG):
        _refuse_a_task(path, task_id, pick)
        return read_picture(path, pick.cell)
    if pick.cell is not None:
        raise InputError(f"{path}: #cell{pick.cell} is said of a picture, and this is none")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        _refuse_a_task(path, task_id, pick)
        return _rows_of_digits(path), ()
    content: Any = read_json(path)
    if isinstance(content, list):
        _refuse_a_task(path, task_id, pick)
        return read_grid(content, str(path)).cells, ()
    return output_of(_one_task(path, task_id), pick, str(path)), ()


def _refuse_a_task(path: Path, task_id: str, pick: Pick) -> None:
    """A picture or a grid is one image: there is no task in it to choose, nor a test pair."""
    if task_id or pick.test is not None:
        asked = task_id or f"test{pick.test}"
        raise InputError(f"{path}: #{asked} chooses of tasks, and this is one image", "leave it out")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from error


def _one_task(path: Path, task_id: str) -> Task:
    """The task of this id, or the only one there is."""
    tasks = {task.task_id: task for task in load_path(path, path.name).tasks}
    if not task_id and len(tasks) == 1:
        return next(iter(tasks.values()))
    if task_id in tasks:
        return tasks[task_id]
    if not task_id:
        raise TaskError(
            "not_found", f"{path} holds {len(tasks)} tasks", f"name one: {path}#ID, ID such as {_few(tasks)}"
        )
    near = difflib.get_close_matches(task_id, tasks, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else f"it has {len(tasks)}: {_few(tasks)}"
    raise TaskError("not_found", f"{path} has no task {task_id!r}", hint)


def _few(tasks: dict[str, Task]) -> str:
    return ", ".join(list(tasks)[:3]) + (", …" if len(tasks) > 3 else "")


def output_of(task: Task, pick: Pick, where: str) -> Image:
    """The output of the task's test pair that is asked for; the only one where none is."""
    number = len(task.test)
    if pick.test is None and number > 1:
        raise InputError(f"{where}: {task.task_id} has {number} test pairs", f"name one: #test0 to #test{number - 1}")
    index = pick.test or 0
    if index >= number:
        raise InputError(f"{where}: {task.task_id} has no #test{index}", f"it has #test0 to #test{number - 1}")
    output = task.test[index].output
    if output is None:
        raise InputError(
            f"{where}: the output of {task.task_id}#test{index} is hidden", "give a task whose truth is known"
        )
    return output.cells


def _rows_of_digits(path: Path) -> Image:
    """``123`` or ``1 2 3`` or ``1,2,3``, a row a line."""
    data = _head(path)
    text = data.decode("utf-8-sig", errors="replace")
    lines = [line.replace(",", " ").split() for line in text.split("\n") if line.strip()]
    rows = [list(parts[0]) if len(parts) == 1 else parts for parts in lines]
    if len(data) > _MAX_TEXT or not all(len(cell) == 1 and cell in "0123456789" for row in rows for cell in row):
        raise InputError(
            f"{path} is neither a PNG, nor JSON, nor rows of digits",
            "a picture is a PNG; a grid is a JSON list of rows, or a line of digits for each row",
        )
    try:
        return Grid([[int(cell) for cell in row] for row in rows]).cells
    except GridError as error:
        raise GridError(error.reason, f"{path}: {error.message}") from error


def read_picture(path: Path, cell: int | None) -> tuple[Image, tuple[str, ...]]:
    """A PNG as cells: each pixel takes the nearest of ARC's colours (by distance in RGB; what is transparent is 0),
    then the pixels become cells.

    ``cell``: pixels a side of a cell. None: one where both sides are at most 30, else the largest squares that are each
    of one colour. A picture of large blocks can be read with larger cells than were meant: then ``cell`` says so.

    Raises:
        InputError: no readable PNG, or no grid of at most 30 cells a side.
    """
    codes, counts, places = _colours(path)
    nearest, far = _nearest(codes)
    pixels = nearest[places].astype(np.int8)
    height, width = pixels.shape
    if cell is None:
        cell = 1 if max(height, width) <= MAX_SIDE else _cell_size(pixels)
    if height % cell or width % cell:
        raise InputError(f"{path}: {width} x {height} pixels do not divide into cells of {cell}")
    cells = pixels[::cell, ::cell]
    if max(cells.shape) > MAX_SIDE:
        raise InputError(
            f"{path}: {width} x {height} pixels in cells of {cell} make a grid of {cells.shape[1]} x {cells.shape[0]}; "
            f"a side has at most {MAX_SIDE}",
            "make each cell a square of one colour, or scale the picture down to one pixel a cell",
        )
    uneven = int(
        (pixels.reshape(cells.shape[0], cell, cells.shape[1], cell) != cells[:, None, :, None]).any((1, 3)).sum()
    )
    if uneven:
        raise InputError(f"{path}: {uneven} of {cells.size} cells of {cell} pixels are of several colours")
    return cells, (
        *_seen_through(codes, counts),
        *_off_palette(codes, counts, nearest, far),
        f"{cells.shape[0]} x {cells.shape[1]} cells of {cell} px",
    )


def _colours(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The picture's colours (as 0xRRGGBB; -1 is transparent), how many pixels have each, and which one each pixel has,
    shape (height, width)."""
    from PIL import Image as Pillow

    try:
        with Pillow.open(path, formats=["PNG"]) as picture:
            if max(picture.size) > _MAX_PIXELS:
                raise InputError(
                    f"{path}: {picture.width} x {picture.height} pixels; at most {_MAX_PIXELS} a side are read"
                )
            deep = picture.mode.startswith("I")  # 16 bits of grey, which Pillow would clip and not scale
            grey = Pillow.fromarray((np.asarray(picture) // 256).astype(np.uint8)) if deep else picture
            pixels = np.asarray(grey.convert("RGBA")).astype(np.int64)
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        zlib.error,
        Pillow.DecompressionBombError,
    ) as error:
        raise InputError(f"{path} is no PNG that can be read: {error}") from error
    codes = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    codes[pixels[..., 3] < 128] = -1
    found, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return found, counts, places.reshape(codes.shape)


def _nearest(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each colour ARC's nearest, and how far away it is in RGB (0 to 442)."""
    known = np.array([int(colour[1:], 16) for colour in (*PALETTE, LIFTED_BLACK)])
    apart = np.stack([((known >> shift) & 255) - ((codes[:, None] >> shift) & 255) for shift in (16, 8, 0)], axis=-1)
    distances = np.sqrt((apart**2).sum(axis=-1))
    distances[codes < 0] = np.arange(len(known)) * 1000.0  # what is transparent is 0
    index = distances.argmin(axis=1)
    return np.where(index == len(PALETTE), 0, index), distances.min(axis=1)


def _cell_size(pixels: Image) -> int:
    """The largest square that tiles the picture so that each tile is of one colour."""
    size = math.gcd(*pixels.shape)
    down = np.flatnonzero((pixels[1:] != pixels[:-1]).any(axis=1)) + 1
    across = np.flatnonzero((pixels[:, 1:] != pixels[:, :-1]).any(axis=0)) + 1
    return math.gcd(size, *down.tolist(), *across.tolist())


def _seen_through(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[str, ...]:
    """A note on what is transparent, which becomes 0 whatever it would look like on a page."""
    clear = counts[codes < 0].sum()
    return (f"{100 * clear / counts.sum():.0f}% of the picture is transparent and is read as 0",) if clear else ()


def _off_palette(
    codes: NDArray[np.int64], counts: NDArray[np.int64], nearest: NDArray[np.int64], far: NDArray[np.float64]
) -> tuple[str, ...]:
    """A note on the colours that are not ARC's, the farthest first; none where all are."""
    off = [index for index in np.argsort(-far, kind="stable").tolist() if far[index] > 0]
    if not off:
        return ()
    share = 100 * counts[off].sum() / counts.sum()
    named = [
        f"#{codes[index]:06x} is read as {nearest[index]} ({PALETTE[nearest[index]]}, {far[index]:.0f} away)"
        for index in off[:_NAMED]
    ]
    more = f", and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
    return (
        f"{len(off)} of {len(codes)} colours ({share:.0f}% of the picture) are not ARC's: {'; '.join(named)}{more}",
    )
