"""Trackers get figures and pictures; the trackers' own services are the network, and are faked."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arcslim.errors import InputError
from arcslim.runs.tracker_sink import TrackerSink, refuse_no_board
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
    wandb = Recorded()
    with TrackerSink(["wandb"], tmp_path / "run", {"wandb": wandb}.__getitem__) as sink:
        sink.metrics(3, "train", {"her/solved": 0.0, "odd": float("nan")})
        sink.samples([drawing(3, 0.2, [[1]]), drawing(3, 0.9, [[1, 2], [3, 4]])])
        sink.samples([])
    names = [name for name, _ in wandb.calls]
    assert names == ["init", "log", "log", "finish"]
    assert wandb.calls[1][1] == (({"her/solved": 0.0},), {"step": 3})
    (logged,), named = wandb.calls[2][1]
    assert logged["her/best_drawing"].shape == (132, 132, 3) and named == {"step": 3}


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TrackerSink(["tensorboard"], tmp_path) as sink:
        sink.metrics(1, "train", {"her/solved": 1.0})
        sink.samples([drawing(1, 1.0, [[1, 2]]), drawing(1, 0.0, [])])
    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    (scalar,), (image,) = read.Scalars("her/solved"), read.Images("her/best_drawing")
    assert (scalar.step, scalar.value) == (1, 1.0) and (image.height, image.width) == (66, 132)
    with Image.open(io.BytesIO(image.encoded_image_string)) as picture:
        assert picture.size == (132, 66) and picture.getpixel((0, 0)) == (0x00, 0x74, 0xD9)


def test_tensorboard_comes_without_torch(tmp_path: Path) -> None:
    probe = (
        "import sys; from pathlib import Path; from arcslim.runs.tracker_sink import TrackerSink\n"
        f"with TrackerSink(['tensorboard'], Path({str(tmp_path)!r})) as sink: sink.metrics(1, 'train', {{'a': 1}})\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_tensorboard_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else real(name))
    refuse_no_board(["wandb"])
    with pytest.raises(InputError, match="pip install tensorboard"):
        refuse_no_board(["wandb", "tensorboard"])
