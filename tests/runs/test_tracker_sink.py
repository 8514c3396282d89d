"""Trackers get figures and pictures; the trackers' own services are the network, and are faked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from arcslim.runs.tracker_sink import TrackerSink
from tests.runs.made import sample_row


class Recorded:
    """What a tracker's module was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **named: self.calls.append((name, (words, named)))

    @staticmethod
    def Image(picture: Any) -> Any:
        return SimpleNamespace(shape=np.asarray(picture).shape)


def drawing(step: int, accuracy: float, cells: list[list[int]]) -> dict[str, Any]:
    return sample_row(step, answer=cells, score={"total": accuracy, "parts": {}, "weights": {}})


def test_figures_and_the_nearest_drawing_go_to_every_tracker(tmp_path: Path) -> None:
    wandb, board = Recorded(), Recorded()
    modules = {"wandb": wandb, "torch.utils.tensorboard": SimpleNamespace(SummaryWriter=lambda _: board)}
    with TrackerSink(["wandb", "tensorboard"], tmp_path / "run", modules.__getitem__) as sink:
        sink.metrics(3, "train", {"her/solved": 0.0, "odd": float("nan")})
        sink.samples([drawing(3, 0.2, [[1]]), drawing(3, 0.9, [[1, 2], [3, 4]])])
        sink.samples([])
    names = [name for name, _ in wandb.calls]
    assert names == ["init", "log", "log", "finish"]
    assert wandb.calls[1][1] == (({"her/solved": 0.0},), {"step": 3})
    (logged,), named = wandb.calls[2][1]
    assert logged["her/best_drawing"].shape == (132, 132, 3) and named == {"step": 3}
    assert [name for name, _ in board.calls] == ["add_scalar", "add_image", "close"]


def test_tensorboard_really_writes(tmp_path: Path) -> None:
    with TrackerSink(["tensorboard"], tmp_path) as sink:
        sink.metrics(1, "train", {"her/solved": 1.0})
        sink.samples([drawing(1, 1.0, [[1, 2]])])
    (written,) = (tmp_path / "tensorboard").iterdir()
    assert b"her/best_drawing" in written.read_bytes()
