"""The pictures of a HER run: how its best drawing changed from epoch to epoch, as a strip (PNG) and as a film (GIF)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from arcslim.runs.grid_view import PALETTE
from arcslim.runs.writing import atomic_file, read_rows

Cells = Sequence[Sequence[int]]
PANEL = 132  # pixels a side of a drawing
CAPTION, GAP, MOST = 16, 10, 12  # pixels, pixels, drawings a strip shows
FRAME_MS, LAST_MS = 400, 2000
BACK, INK = "#ffffff", "#333333"


@dataclass(frozen=True)
class Frame:
    """An epoch's nearest drawing; ``accuracy`` is its share of right cells."""

    epoch: int
    accuracy: float
    cells: Cells


def frames(samples: Path) -> list[Frame]:
    """The nearest drawing of each epoch, by a run's ``samples.jsonl``; epochs that drew nothing have none."""
    best: dict[int, Frame] = {}
    for row in read_rows(samples):
        step, accuracy, cells = row["step"], float(row["score"]["total"]), row["answer"]
        if cells is not None and (step not in best or accuracy > best[step].accuracy):
            best[step] = Frame(step, accuracy, cells)
    return [best[step] for step in sorted(best)]


def better_and_better(all_frames: Sequence[Frame]) -> list[Frame]:
    """Those that are nearer than any before."""
    kept: list[Frame] = []
    for frame in all_frames:
        if not kept or frame.accuracy > kept[-1].accuracy:
            kept.append(frame)
    return kept


def pixels(cells: Cells, side: int = PANEL) -> npt.NDArray[np.uint8]:
    """Cells in ARC's colours, as large as fits into ``side`` x ``side``; (height, width, 3)."""
    colours = np.array([[int(text[at : at + 2], 16) for at in (1, 3, 5)] for text in PALETTE], dtype=np.uint8)
    grid = np.asarray(cells, dtype=np.int64)
    size = max(side // max(grid.shape), 1)
    return np.kron(colours[grid], np.ones((size, size, 1), dtype=np.uint8))


def as_png(picture: npt.NDArray[np.uint8]) -> bytes:
    """A PNG of (height, width, 3) pixels."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    return file.getvalue()


def draw_strip(all_frames: Sequence[Frame], target: Cells, output: Path) -> Path:
    """Write a PNG: up to ``MOST`` steps of the way, evenly over it with its first and last, and the target."""
    way = better_and_better(all_frames)
    if len(way) > MOST:
        way = [way[round(index * (len(way) - 1) / (MOST - 1))] for index in range(MOST)]
    panels = [(f"{frame.epoch}: {frame.accuracy:.0%}", frame.cells) for frame in way]
    panels.append(("target", target))
    width = len(panels) * (PANEL + GAP) + GAP
    picture = Image.new("RGB", (width, PANEL + CAPTION + 2 * GAP), BACK)
    for number, (caption, cells) in enumerate(panels):
        _panel(picture, GAP + number * (PANEL + GAP), GAP, caption, cells)
    with atomic_file(output) as file:
        picture.save(file, format="PNG")
    return output


def draw_film(all_frames: Sequence[Frame], target: Cells, output: Path) -> Path:
    """Write a GIF: each epoch's nearest drawing beside the target, the last one held."""
    pictures = []
    for frame in all_frames:
        picture = Image.new("RGB", (2 * PANEL + 3 * GAP, PANEL + CAPTION + 2 * GAP), BACK)
        _panel(picture, GAP, GAP, f"epoch {frame.epoch}: {frame.accuracy:.0%}", frame.cells)
        _panel(picture, PANEL + 2 * GAP, GAP, "target", target)
        pictures.append(picture)
    durations = [FRAME_MS] * (len(pictures) - 1) + [LAST_MS]
    with atomic_file(output) as file:
        pictures[0].save(
            file, format="GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=True
        )
    return output


def _panel(picture: Image.Image, left: int, top: int, caption: str, cells: Cells) -> None:
    pen = ImageDraw.Draw(picture)
    pen.text((left, top), caption, fill=INK, font=ImageFont.load_default(11))
    picture.paste(Image.fromarray(pixels(cells)), (left, top + CAPTION))
