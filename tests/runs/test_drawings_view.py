"""A HER run in the console: the way of its drawings, live and as plain lines."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from arcslim.runs.console import SafeStream
from arcslim.runs.plain import PlainView
from arcslim.runs.view_state import DRAWINGS, ViewState
from tests.runs.made import sample_row, task_row
from tests.runs.test_console import SGR, live, shown

TARGET = [[1, 2, 3], [4, 5, 6]]


def draw(view: Any, step: int, accuracy: float, cells: list[list[int]], worse: float = 0.0) -> None:
    """An epoch: its nearest drawing, and one that is farther."""
    rows = [
        sample_row(
            step, prompt_id="draw", answer=answer,
            score={"total": total, "parts": {"pixel_accuracy": total}, "weights": {"pixel_accuracy": 1.0}},
        )
        for total, answer in ((worse, [[0, 0, 0], [0, 0, 0]]), (accuracy, cells))
    ]  # fmt: skip
    view.samples(rows)
    view.metrics(step, "train", {"her/best_pixel_accuracy": accuracy, "her/novel_rate": 0.5, "loss": 1.0})


def task() -> dict[str, Any]:
    pair = {"input": [[0, 0, 0], [0, 0, 0]], "output": TARGET}
    return task_row("draw", task={"train": [], "test": [pair]})


def fed(view: Any) -> Any:
    view.task_rows([task()])
    for step, accuracy, cells in (
        (1, 0.2, [[7, 7, 7]] * 2),
        (2, 0.1, [[8, 8, 8]] * 2),
        (3, 0.9, [[1, 2, 3], [4, 5, 9]]),
    ):
        draw(view, step, accuracy, cells)
    return view


@pytest.mark.parametrize(("columns", "lines"), [(200, 50), (80, 24), (60, 16), (40, 12)])
def test_the_nearest_drawings_stand_in_a_row(columns: int, lines: int) -> None:
    text = SGR.sub("", shown(fed(live(columns, lines))))
    assert len(text.splitlines()) <= lines and max(map(len, text.splitlines())) <= columns
    if lines >= 24:
        assert "the nearest drawings" in text and "target 2×3" in text and "3: 90%" in text
    if columns >= 80 and lines >= 24:
        assert "1: 20%" in text and "2: 10%" not in text, "what came no nearer made room for the next"


def test_of_an_epoch_the_nearest_is_shown_in_its_colours() -> None:
    text = shown(fed(live(120, 40)))
    assert "0;116;217" in text and "135;12;37" in text  # ARC's 1 and 9


def test_a_long_way_keeps_its_end() -> None:
    state = ViewState()
    state.task_rows([task()])
    for step in range(1, 60):
        draw(state, step, step / 100, [[step % 10] * 3] * 2)
    assert len(state.drawings) == DRAWINGS and state.drawings[-1].step == 59


def test_plain_lines_show_each_that_comes_nearer_and_no_other() -> None:
    stream = io.StringIO()
    view = PlainView(ViewState(), "arcslim her", SafeStream(stream))
    with view:
        fed(view)
    text = stream.getvalue()
    assert len(re.findall("^nearer:", text, re.MULTILINE)) == 2
    assert "best 20%" in text and "1: 20%" in text and "2: 10%" not in text
    assert "  123" in text
