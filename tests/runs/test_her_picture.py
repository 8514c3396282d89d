"""Strip and film of a HER run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcslim.runs.her_picture import MOST, Frame, better_and_better, draw_film, draw_strip, frames, pixels
from tests.runs.made import sample_row

TARGET = [[1, 2], [3, 4]]


def way(length: int) -> list[Frame]:
    return [Frame(epoch, epoch / length, [[epoch % 10, 0], [0, 0]]) for epoch in range(1, length + 1)]


def test_of_each_epoch_the_nearest_drawing(tmp_path: Path) -> None:
    rows = [
        sample_row(step, answer=cells, score={"total": total, "parts": {}, "weights": {}})
        for step, total, cells in ((2, 0.1, [[5]]), (1, 0.5, [[1]]), (1, 0.7, [[2]]), (3, 0.0, None))
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = frames(tmp_path / "samples.jsonl")
    assert [(frame.epoch, frame.accuracy, frame.cells) for frame in found] == [(1, 0.7, [[2]]), (2, 0.1, [[5]])]
    assert better_and_better(found) == found[:1]


def test_cells_are_drawn_in_arcs_colours() -> None:
    picture = pixels([[0, 1]], 10)
    assert picture.shape == (5, 10, 3)
    assert tuple(picture[0, 0]) == (0x26, 0x26, 0x26) and tuple(picture[0, 9]) == (0x00, 0x74, 0xD9)


@pytest.mark.parametrize("length", [1, 3, 40])
def test_a_strip_holds_the_way_and_the_target(length: int, tmp_path: Path) -> None:
    with Image.open(draw_strip(way(length), TARGET, tmp_path / "a.png")) as picture:
        panels = min(length, MOST) + 1
        assert picture.width == panels * 142 + 10
        last = np.asarray(picture.convert("RGB"))[80, -20]
        assert tuple(last) != (255, 255, 255)


def test_a_film_has_a_frame_an_epoch_and_holds_the_last(tmp_path: Path) -> None:
    with Image.open(draw_film(way(5), TARGET, tmp_path / "a.gif")) as film:
        assert film.n_frames == 5  # type: ignore[attr-defined]
        film.seek(4)
        assert film.info["duration"] == 2000
