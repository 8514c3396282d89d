"""Tasks as a PNG: a strip a task, inputs above outputs, in ARC's colours; under it the text that training makes of it.

matplotlib is imported when a picture is drawn, and draws without a display.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.errors import InputError
from arcslim.prompts.pieces import Piece, Role
from arcslim.runs.grid_view import PALETTE
from arcslim.runs.picture import INK
from arcslim.runs.visible import visible
from arcslim.runs.writing import atomic_file
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Task

WIDTH, DPI = 10.0, 110  # inches
MARGIN, GAP, LABEL, CAPTION = 0.2, 0.22, 0.2, 0.3  # inches; GAP between grids, LABEL above an input
LARGEST_CELL = 0.2  # inches
FONT, LINE, LETTER = 7.5, 0.145, 7 / 110  # points; inches a line, and a letter: 7 whole pixels at DPI
BACKGROUND: dict[Role, str] = {"prompt": "#ffffff", "prefill": "#ffd27f", "trained": "#b5e3c8"}
MOST_LINES = 60  # of text; the lines above them are left out, and said to be


@dataclass(frozen=True)
class Strip:
    """A task to draw, and what is said above it; ``pieces`` are written below it."""

    caption: str
    task: Task | None
    pieces: tuple[Piece, ...] = ()


def draw_strips(strips: Sequence[Strip], output: Path, title: str = "") -> Path:
    """Draw tasks one below the other to ``output``, a PNG.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("drawing needs matplotlib, which is not installed", "pip install matplotlib") from error
    top = 0.35 if title else 0.0
    height = top + sum(_height(strip) for strip in strips) + MARGIN
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    page = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    page.set(xlim=(0, WIDTH), ylim=(height, 0))  # inches from the upper left corner
    page.axis("off")
    if title:
        page.text(MARGIN, 0.26, title, fontsize=11, fontweight="bold", color=INK)
    for strip in strips:
        _draw_strip(page, strip, top)
        top += _height(strip)
    with atomic_file(output) as file:
        figure.savefig(file, format="png")
    return output


def _height(strip: Strip) -> float:
    grids = _grids_height(strip.task) if strip.task is not None else 0.0
    return CAPTION + grids + (len(_lines(strip.pieces)) * LINE + MARGIN if strip.pieces else 0.0)


def _columns(task: Task) -> list[tuple[str, Grid, Grid | None]]:
    shown = [(f"example {number}", pair.input, pair.output) for number, pair in enumerate(task.train, 1)]
    return shown + [("test", pair.input, pair.output) for pair in task.test]


def _cell(task: Task) -> float:
    """The side of a cell in inches, so that all pairs stand side by side."""
    columns = _columns(task)
    room = WIDTH - 2 * MARGIN - GAP * len(columns)
    cells = sum(max(before.width, 0 if after is None else after.width) for _, before, after in columns)
    return min(LARGEST_CELL, room / cells)


def _grids_height(task: Task) -> float:
    columns = _columns(task)
    cells = max(before.height for _, before, _ in columns)
    cells += max((after.height for *_, after in columns if after is not None), default=0)
    return LABEL + cells * _cell(task) + GAP + MARGIN


def _draw_strip(page: Any, strip: Strip, top: float) -> None:
    page.text(MARGIN, top + 0.2, visible(strip.caption), fontsize=9, color=INK, parse_math=False)
    top += CAPTION
    if strip.task is not None:
        _draw_task(page, strip.task, top)
        top += _grids_height(strip.task)
    for number, line in enumerate(_lines(strip.pieces)):
        _draw_line(page, line, top + number * LINE)


def _draw_task(page: Any, task: Task, top: float) -> None:
    cell, left = _cell(task), MARGIN
    tallest = max(before.height for _, before, _ in _columns(task)) * cell
    for label, before, after in _columns(task):
        page.text(left, top + LABEL - 0.06, label, fontsize=7.5, color=INK)
        _draw_grid(page, before, left, top + LABEL, cell)
        below = top + LABEL + tallest + GAP
        if after is None:
            page.text(left, below + 0.1, "not known", fontsize=7.5, style="italic", color=INK)
        else:
            _draw_grid(page, after, left, below, cell)
        left += max(before.width, 0 if after is None else after.width) * cell + GAP


def _draw_grid(page: Any, grid: Grid, left: float, top: float, cell: float) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    squares = [
        Rectangle((left + column * cell, top + row * cell), cell, cell)
        for row in range(grid.height)
        for column in range(grid.width)
    ]
    colours = [PALETTE[colour] for row in grid.rows() for colour in row]
    page.add_collection(PatchCollection(squares, facecolors=colours, edgecolors="#777777", linewidths=0.3))


def _lines(pieces: Sequence[Piece]) -> list[list[tuple[str, Role]]]:
    """The text in lines that fit the page, each as runs of one role; of many lines the last ones."""
    across = int((WIDTH - 2 * MARGIN) / LETTER)
    lines: list[list[tuple[str, Role]]] = [[]]
    used = 0
    for piece in pieces:
        for number, part in enumerate(piece.text.split("\n")):
            if number:
                if piece.role != "prompt":  # there every token counts
                    lines[-1].append(("⏎", piece.role))
                lines.append([])
                used = 0
            for letter in visible(part):
                if used >= across - 1:
                    lines.append([])
                    used = 0
                lines[-1].append((letter, piece.role))
                used += 1
    joined = [_runs(line) for line in lines]
    if len(joined) > MOST_LINES:
        left_out = len(joined) - MOST_LINES + 1
        joined = [[(f"… {left_out} lines above", "prompt")], *joined[left_out:]]
    return joined


def _runs(letters: Sequence[tuple[str, Role]]) -> list[tuple[str, Role]]:
    runs: list[tuple[str, Role]] = []
    for letter, role in letters:
        if runs and runs[-1][1] == role:
            runs[-1] = (runs[-1][0] + letter, role)
        else:
            runs.append((letter, role))
    return runs


def _draw_line(page: Any, runs: Sequence[tuple[str, Role]], top: float) -> None:
    from matplotlib.patches import Rectangle

    left = MARGIN
    for text, role in runs:
        width = len(text) * LETTER
        if role != "prompt":
            page.add_patch(Rectangle((left, top), width, LINE, facecolor=BACKGROUND[role], edgecolor="none"))
        page.text(
            left, top + LINE / 2, text, fontsize=FONT, family="monospace", color=INK, va="center", parse_math=False
        )
        left += width
