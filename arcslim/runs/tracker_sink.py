"""Figures and drawings of a run whose recipe has no trainer, for W&B, trackio and TensorBoard."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from arcslim.errors import InputError
from arcslim.runs.her_picture import as_png, pixels
from arcslim.runs.writing import as_number

PROJECT, IMAGE = "arcslim", "her/best_drawing"


def refuse_no_board(report_to: Sequence[str]) -> None:
    """Raises InputError where TensorBoard is asked for and tensorboardX alone is there, which trainers also take."""
    if "tensorboard" in report_to and importlib.util.find_spec("tensorboard") is None:
        raise InputError("run.report_to asks for tensorboard, which is not installed", "pip install tensorboard")


class Board:
    """TensorBoard's event file, by TensorBoard's own writer: torch's would bring torch with it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        load = importlib.import_module  # it has no types
        self._file = load("tensorboard.summary.writer.event_file_writer").EventFileWriter(str(folder))
        self._event = load("tensorboard.compat.proto.event_pb2").Event
        self._summary = load("tensorboard.compat.proto.summary_pb2").Summary

    def add(self, step: int, **value: Any) -> None:
        """``value``: the fields of a ``Summary.Value``."""
        summary = self._summary(value=[self._summary.Value(**value)])
        self._file.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        self._file.close()


class TrackerSink:
    """A ``Sink`` that hands figures, and each epoch's nearest drawing as an image, on to the trackers asked for.

    A context: the trackers are started at its beginning and finished at its end. ``load`` imports a module by name.
    """

    def __init__(self, report_to: Sequence[str], run_dir: Path, load: Any = importlib.import_module) -> None:
        self._names, self._dir, self._load = tuple(report_to), run_dir, load
        self._loggers: list[Any] = []
        self._writer: Board | None = None

    def __enter__(self) -> TrackerSink:
        for name in self._names:
            if name == "tensorboard":
                self._writer = Board(self._dir / "tensorboard")
                continue
            module = self._load(name)
            module.init(project=PROJECT, name=self._dir.name)
            self._loggers.append(module)
        return self

    def __exit__(self, *details: Any) -> None:
        for module in self._loggers:
            module.finish()
        if self._writer is not None:
            self._writer.close()

    def metrics(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        numbers = {name: number for name, value in values.items() if (number := as_number(value)) is not None}
        for module in self._loggers:
            module.log(numbers, step=step)
        if self._writer is not None:
            for name, number in numbers.items():
                self._writer.add(step, tag=name, simple_value=number)

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        best = max((row for row in rows if row["answer"]), key=lambda row: row["score"]["total"], default=None)
        if best is None:
            return
        picture, step = pixels(best["answer"]), int(best["step"])
        for module in self._loggers:
            module.log({IMAGE: module.Image(picture)}, step=step)
        if self._writer is not None:
            height, width, _ = picture.shape
            image = {"height": height, "width": width, "colorspace": 3, "encoded_image_string": as_png(picture)}
            self._writer.add(step, tag=IMAGE, image=image)

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Nothing: the target stands in the run folder."""

    def event(self, step: int, event: str, detail: str) -> None:
        """Nothing: events stand in the run folder."""

    def progress(self, step: int, total: int, **facts: Any) -> None:
        """Nothing."""
