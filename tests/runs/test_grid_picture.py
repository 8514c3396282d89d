"""Pictures of tasks: the colours of the cells are in the pixels, and long texts keep their end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.image import imread

from arcslim.prompts.pieces import Piece
from arcslim.runs.grid_picture import BACKGROUND, MOST_LINES, Strip, _lines, draw_strips
from arcslim.runs.grid_view import PALETTE
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

WIDE = Grid([[cell % 10 for cell in range(30)]] * 30)
PAIR = Pair(Grid([[2, 4], [6, 8]]), Grid([[2]]))


def colours(picture: Path) -> dict[str, int]:
    pixels = (imread(picture)[:, :, :3] * 255).round().astype(int)
    values, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return {"#{:02x}{:02x}{:02x}".format(*value): int(n) for value, n in zip(values, counts, strict=True)}


def test_the_cells_of_a_task_are_drawn_in_arcs_colours(tmp_path: Path) -> None:
    task = Task("t", "made", "t", (PAIR,), (Pair(Grid([[1, 3]]), None),))
    seen = colours(draw_strips([Strip("a $caption_ with % marks\x1b", task)], tmp_path / "task.png", title="A task"))
    cell = min(seen[PALETTE[colour]] for colour in (4, 6, 8, 1, 3))
    assert cell > 100, "a cell is large enough to see"
    assert 1.8 < seen[PALETTE[2]] / cell < 2.2, "two red cells: one in the input, one in the output"
    assert seen.get(PALETTE[5], 0) < cell / 4, "no grey cell: the soft edge of a letter at most"
    assert [path.name for path in tmp_path.iterdir()] == ["task.png"]


def test_ten_pairs_of_the_largest_grids_fit_the_page(tmp_path: Path) -> None:
    task = Task("t", "made", "t", (Pair(WIDE, WIDE),) * 9, (Pair(WIDE, WIDE),))
    picture = draw_strips(
        [Strip("large", task), Strip("small", Task("s", "m", "s", (PAIR,), (PAIR,)))], tmp_path / "x.png"
    )
    pixels = imread(picture)
    assert np.all(pixels[:, -10:, :3] == 1.0), "nothing runs over the right edge"


def test_the_prefill_and_what_gets_loss_have_colours_of_their_own(tmp_path: Path) -> None:
    pieces = (Piece("read\n", (1,), "prompt"), Piece("<think>\n", (2,), "prefill"), Piece("so it is", (3,), "trained"))
    seen = colours(draw_strips([Strip("row", None, pieces)], tmp_path / "row.png"))
    assert seen[BACKGROUND["prefill"]] > 100 and seen[BACKGROUND["trained"]] > 100


def test_of_a_long_text_the_end_stays() -> None:
    long = Piece("line\n" * 500, (1,), "prompt")
    lines = _lines((long, Piece("the end", (2,), "trained")))
    assert len(lines) == MOST_LINES
    assert "lines above" in lines[0][0][0] and lines[-1] == [("the end", "trained")]
    assert all(sum(len(text) for text, _ in line) < 160 for line in _lines((Piece("x" * 5000, (1,), "prompt"),)))
