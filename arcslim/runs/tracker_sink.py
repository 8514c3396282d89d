"""Figures and drawings of a run whose recipe has no trainer, for W&B, trackio and TensorBoard."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from arcslim.runs.her_picture import pixels
from arcslim.runs.writing import as_number

PROJECT, IMAGE = "arcslim", "her/best_drawing"


class TrackerSink:
    """A ``Sink`` that hands figures, and each epoch's nearest drawing as an image, on to the trackers asked for.

    A context: the trackers are started at its beginning and finished at its end. ``load`` imports a module by name.
    """

    def __init__(self, report_to: Sequence[str], run_dir: Path, load: Any = importlib.import_module) -> None:
        self._names, self._dir, self._load = tuple(report_to), run_dir, load
        self._loggers: list[Any] = []
        self._writer: Any = None

    def __enter__(self) -> TrackerSink:
        for name in self._names:
            if name == "tensorboard":
                self._writer = self._load("torch.utils.tensorboard").SummaryWriter(str(self._dir / "tensorboard"))
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
                self._writer.add_scalar(name, number, step)

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        best = max((row for row in rows if row["answer"]), key=lambda row: row["score"]["total"], default=None)
        if best is None:
            return
        picture, step = pixels(best["answer"]), int(best["step"])
        for module in self._loggers:
            module.log({IMAGE: module.Image(picture)}, step=step)
        if self._writer is not None:
            self._writer.add_image(IMAGE, picture, step, dataformats="HWC")

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Nothing: the target stands in the run folder."""

    def event(self, step: int, event: str, detail: str) -> None:
        """Nothing: events stand in the run folder."""

    def progress(self, step: int, total: int, **facts: Any) -> None:
        """Nothing."""
