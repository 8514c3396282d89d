"""What HER learns to draw: images by name, from a file of the user's, or out of an ARC task.

``target(text)`` takes

- a name: ``N-vertical-lines`` (N x N cells), ``N-squares``, ``chick``;
- a file: a PNG, a grid as JSON, or a grid as rows of digits (``target_files.py``);
- an ARC task's test output: ``TASK.json``, ``FOLDER#ID``, ``CHALLENGES.json#ID``, ``arc1:ID``, each with ``#test1`` for
  another test pair than ``#test0``.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcslim.errors import InputError, TaskError
from arcslim.tasks.arc import load_arc1
from arcslim.tasks.drawing import Image
from arcslim.tasks.grid import MAX_SIDE, Grid
from arcslim.tasks.spec import ARC1_SPLITS
from arcslim.tasks.target_files import Pick, output_of, read_target
from arcslim.tasks.task import Task

SQUARE = 2  # cells a side
SQUARES: dict[int, tuple[int, int]] = {
    4: (4, 4),
    6: (4, 6),
    9: (6, 6),
    12: (6, 8),
    20: (10, 8),
    **{side * side: (2 * side, 2 * side) for side in range(4, 11)},
}
"""Number of squares: rows and columns of the image."""
_MANY = 81  # from so many squares on, seven colours instead of nine
CHICK = (
    "8888448888 8844444488 8440440448 8424474248 8444774448 "
    "8844444488 4444444444 4444444444 8444444448 8847447488"
)  # fmt: skip
_LINES = re.compile("([1-9][0-9]?)-vertical-lines")
_N_SQUARES = re.compile("([1-9][0-9]{0,2})-squares")
_ARC1 = "arc1:"
_ARC1_FORM = "write arc1:ID, such as arc1:007bbfb7"
_SELECT = re.compile(r"test([0-9]{1,2})|cell([1-9][0-9]{0,3})")


@dataclass(frozen=True, eq=False)
class Target:
    """An image to draw. ``image`` is read-only; ``notes`` say what had to be changed to read it, in words."""

    name: str
    image: Image
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the image, and of the blank one that a program starts with."""
        height, width = self.image.shape
        return height, width

    @property
    def blank(self) -> Image:
        """What a program is given: as large as the image, all 0."""
        return np.zeros(self.image.shape, dtype=np.int8)


def names() -> tuple[str, ...]:
    """The names that targets have of their own; of the lines one stands for all."""
    return ("9-vertical-lines", *(f"{number}-squares" for number in sorted(SQUARES)), "chick")


def target(name_or_path: str) -> Target:
    """The target of this name, or of this file.

    Raises:
        InputError: an unknown name (with the nearest and the list), a file that cannot be read, or holds no grid.
    """
    text = name_or_path.strip()
    image = named_image(text)
    if image is not None:
        return _made(text, image)
    if text.startswith(_ARC1):
        task_id, pick = _selected(text.removeprefix(_ARC1), text)
        return _made(text, output_of(_arc1_task(task_id), pick, text))
    place, chosen = (text, "") if text and _exists(text) else _cut(text)
    if not place or not _exists(place):
        raise _unknown(text, Path(place))
    path = Path(place).expanduser()
    task_id, pick = _selected(chosen, text)
    cells, notes = read_target(path, task_id, pick)
    return _made(text, cells, notes)


def _exists(place: str) -> bool:
    try:
        return Path(place).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long for a name, no such home, a NUL
        return False


def named_image(name: str) -> Image | None:
    """The image that has this name, or None."""
    if name == "chick":
        return np.array([[int(cell) for cell in row] for row in CHICK.split()], dtype=np.int8)
    lines = _LINES.fullmatch(name)
    if lines and 2 <= int(lines[1]) <= MAX_SIDE:
        return _vertical_lines(int(lines[1]))
    squares = _N_SQUARES.fullmatch(name)
    return _squares(int(squares[1])) if squares and int(squares[1]) in SQUARES else None


def _vertical_lines(number: int) -> Image:
    """Column x has colour x + 1; beyond nine columns the colours begin again."""
    return np.tile(np.arange(number, dtype=np.int8) % 9 + 1, (number, 1))


def _squares(number: int) -> Image:
    """Squares of 2 x 2 cells column by column, each column from above, in colours that go round."""
    height, width = SQUARES[number]
    colours = 7 if number >= _MANY else 9
    down, across = height // SQUARE, width // SQUARE
    order = np.arange(number, dtype=np.int64).reshape(across, down).T % colours + 1
    return np.kron(order, np.ones((SQUARE, SQUARE), dtype=np.int64)).astype(np.int8)


def _made(name: str, image: Image, notes: tuple[str, ...] = ()) -> Target:
    return Target(name, Grid(image).cells, notes)


def _cut(text: str) -> tuple[str, str]:
    """The path and what is chosen of it: ``a.json#ID#test1`` is ``a.json`` and ``ID#test1``."""
    place, _, chosen = text.partition("#")
    return place, chosen


def _selected(chosen: str, text: str) -> tuple[str, Pick]:
    """``ID#test1`` taken apart: the task's id ("" where none is named), and what to pick."""
    task_id, pick = "", Pick()
    for part in filter(None, (part.strip() for part in chosen.split("#"))):
        found = _SELECT.fullmatch(part)
        if found and found[1]:
            pick = Pick(int(found[1]), pick.cell)
        elif found:
            pick = Pick(pick.test, int(found[2]))
        elif part.startswith(("test", "cell")):
            raise InputError(
                f"target {text!r}: #{part} is neither a test pair nor a size of cell",
                "write #test0, #test1, … or #cell1, #cell2, … (pixels a side of a picture's cell)",
            )
        elif task_id:
            raise InputError(f"target {text!r} names two tasks", "write FILE.json#ID#test0")
        else:
            task_id = part
    return task_id, pick


def _arc1_task(task_id: str) -> Task:
    if not task_id:
        raise InputError(f"{_ARC1} names no task", _ARC1_FORM)
    tasks: dict[str, Task] = {}
    for part in ARC1_SPLITS:
        tasks.update({task.task_id: task for task in load_arc1(part, f"{_ARC1}{part}").tasks})
        if task_id in tasks:
            return tasks[task_id]
    near = difflib.get_close_matches(task_id, tasks, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(_ARC1 + name for name in near)}?" if near else _ARC1_FORM
    raise TaskError("not_found", f"ARC-1 has no task {task_id!r}", hint)


def _unknown(text: str, path: Path) -> InputError:
    if "/" in text or path.suffix.lower() in (".png", ".json", ".txt"):
        beside = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
        near_files = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
        hint = f"did you mean {path.with_name(near_files[0])}?" if near_files else "known names: " + ", ".join(names())
        return InputError(f"target {text!r}: no such file", hint)
    known = sorted({*names(), *(f"{number}-vertical-lines" for number in range(2, MAX_SIDE + 1))})
    near = difflib.get_close_matches(text.lower(), known, n=3, cutoff=0.6)
    guess = f"did you mean {', '.join(near)}? " if near else ""
    return InputError(
        f"there is no target {text[:80]!r}",
        f"{guess}known: {', '.join(names())}; N-vertical-lines for N of 2 to {MAX_SIDE}; a PNG or grid file; "
        "TASK.json#test0; arc1:ID",
    )
