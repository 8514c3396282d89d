"""Grids side by side in a terminal: in ARC's colours where there are colours, in digits where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from arcslim.tasks.target_files import LIFTED_BLACK
from arcslim.tasks.target_files import PALETTE as ARC_PALETTE

PALETTE = (LIFTED_BLACK, *ARC_PALETTE[1:])
GAP = 3
Cells = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Panel:
    """One grid with its caption. ``cells`` None: there is no grid, and ``missing`` says why.

    ``truth``: cells that differ from it are marked with a cross where a cell has room for one.
    """

    caption: str
    cells: Cells | None
    missing: str = ""
    truth: Cells | None = None

    @property
    def width(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    @property
    def height(self) -> int:
        return len(self.cells) if self.cells else 0


def draw_panels(panels: Sequence[Panel], columns: int, lines: int, *, colour: bool) -> list[Text]:
    """At most ``lines`` lines of at most ``columns`` columns: captions first, then the grids side by side.

    The largest of three forms that fits is taken: two columns a cell, one column and half a line a cell, and that form
    cropped. Without colours a cell is one digit (a dot for 0), cropped where it does not fit.
    """
    room = columns - GAP * (len(panels) - 1)
    share = room // max(len(panels), 1)
    if lines < 2 or share < 4:
        return []
    widest, tallest = (
        max((panel.width for panel in panels), default=0),
        max((panel.height for panel in panels), default=0),
    )
    if not colour:
        form, across, down = _digits, share, lines - 1
    elif 2 * widest <= share and tallest <= lines - 1:
        form, across, down = _blocks, share // 2, lines - 1
    else:
        form, across, down = _half_blocks, share, 2 * (lines - 1)
    drawn = [form(panel, across, down) for panel in panels]
    widths = [_column_width(panel, body, share) for panel, body in zip(panels, drawn, strict=True)]
    captions = [_caption(panel, across, down) for panel in panels]
    rows = [[_fit(Text(text, style="dim"), width) for text, width in zip(captions, widths, strict=True)]]
    for line in range(max(map(len, drawn), default=0)):
        rows.append(
            [_fit(body[line] if line < len(body) else Text(), width) for body, width in zip(drawn, widths, strict=True)]
        )
    return [Text(" " * GAP).join(row) for row in rows][:lines]


def _column_width(panel: Panel, body: Sequence[Text], share: int) -> int:
    widest = max((line.cell_len for line in body), default=0)
    return min(share, max(widest, len(panel.caption) + 7))  # room for ` 30×30`


def _caption(panel: Panel, across: int, down: int) -> str:
    if panel.cells is None:
        return panel.caption
    cropped = "" if panel.width <= across and panel.height <= down else ", part"
    return f"{panel.caption} {panel.height}×{panel.width}{cropped}"


def _fit(text: Text, width: int) -> Text:
    text = text.copy()
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def _missing(panel: Panel) -> list[Text]:
    return [Text(panel.missing, style="italic dim")]


def _blocks(panel: Panel, across: int, down: int) -> list[Text]:
    if panel.cells is None:
        return _missing(panel)
    lines = []
    for number, row in enumerate(panel.cells[:down]):
        line = Text()
        for column, cell in enumerate(row[:across]):
            wrong = panel.truth is not None and not _same(panel.truth, number, column, cell)
            line.append(
                "><" if wrong else "  ",
                Style(color="#ffffff" if cell in (0, 1, 9) else "#000000", bgcolor=PALETTE[cell]),
            )
        lines.append(line)
    return lines


def _same(truth: Cells, row: int, column: int, cell: int) -> bool:
    return row < len(truth) and column < len(truth[row]) and truth[row][column] == cell


def _half_blocks(panel: Panel, across: int, down: int) -> list[Text]:
    """A line holds two rows: the upper one as the foreground of an upper half block, the lower as its background."""
    if panel.cells is None:
        return _missing(panel)
    rows = [list(row[:across]) for row in panel.cells[:down]]
    lines = []
    for top in range(0, len(rows), 2):
        line = Text()
        below = rows[top + 1] if top + 1 < len(rows) else None
        for column, cell in enumerate(rows[top]):
            line.append("▀", Style(color=PALETTE[cell], bgcolor=None if below is None else PALETTE[below[column]]))
        lines.append(line)
    return lines


def _digits(panel: Panel, across: int, down: int) -> list[Text]:
    if panel.cells is None:
        return _missing(panel)
    return [Text("".join("." if cell == 0 else str(cell) for cell in row[:across])) for row in panel.cells[:down]]
