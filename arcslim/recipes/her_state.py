"""What a HER run knows besides weights: which images it was trained on, what it drew best, what it may replay."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arcslim.errors import RunFolderError
from arcslim.recipes.hindsight import LookedBack, Pair
from arcslim.recipes.state import STATE_FILE, write_state
from arcslim.tasks.drawing import DrawingRefused, Image
from arcslim.tasks.drawing_choice import image_key
from arcslim.tasks.drawing_parse import parse_program


@dataclass
class HerState:
    """``seen``: keys of the images that were trained on, or that were drawn where nothing is trained. ``best_program``:
    the source of the best drawing so far, whose pixel accuracy is ``best_accuracy``. ``dry``: epochs since anything new
    was drawn. ``errors``: of each program that may be replayed the loss when it was last trained on, by its source.
    """

    epoch: int = 0
    generations: int = 0
    seen: set[bytes] = field(default_factory=set)
    best_accuracy: float = 0.0
    best_program: str | None = None
    solved_at: int | None = None
    dry: int = 0
    seconds: float = 0.0
    errors: dict[str, float] = field(default_factory=dict)

    def take(self, looked: LookedBack, target: Image) -> float:
        """Count an epoch in; its best pixel accuracy."""
        self.epoch += 1
        self.generations += looked.drawn
        self.dry = 0 if looked.new else self.dry + 1
        accuracy, drawing = looked.best(target)
        if drawing is not None and (self.best_program is None or accuracy > self.best_accuracy):
            self.best_accuracy, self.best_program = accuracy, drawing.program.to_source()
        if accuracy == 1.0 and self.solved_at is None:
            self.solved_at = self.generations
        return accuracy

    def saw(self, looked: LookedBack) -> None:
        """Where nothing is trained an image is new once all the same: else ``patience`` would never end."""
        self.seen.update(image_key(drawing.output) for drawing in looked.new)

    def trained(self, pairs: Sequence[Pair], errors: Sequence[float], applied: Sequence[bool], *, keep: bool) -> None:
        """Pairs that were trained on just now, with their losses; ``keep`` them to be replayed. An update that was not
        ``applied`` taught nothing: its images may come again."""
        for pair, error, learned in zip(pairs, errors, applied, strict=True):
            if not learned or not math.isfinite(error):
                continue
            self.seen.add(image_key(pair.drawn))
            if keep:
                self.errors[pair.program.to_source()] = error

    def save(self, folder: Path) -> None:
        """Write into a checkpoint, last of all files: a checkpoint without it is not whole."""
        data: dict[str, Any] = {
            "epoch": self.epoch,
            "generations": self.generations,
            "seen": sorted(key.hex() for key in self.seen),
            "best_accuracy": self.best_accuracy,
            "best_program": self.best_program,
            "solved_at": self.solved_at,
            "dry": self.dry,
            "seconds": self.seconds,
            "errors": self.errors,
        }
        write_state(folder, data)

    @classmethod
    def load(cls, folder: Path) -> HerState:
        """Raises RunFolderError where the checkpoint was written by something else."""
        try:
            data = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
            state = cls(**(data | {"seen": {bytes.fromhex(key) for key in data["seen"]}}))
            for source in state.errors:
                parse_program(source)
        except (OSError, ValueError, KeyError, TypeError, DrawingRefused) as error:
            raise RunFolderError(
                f"{folder / STATE_FILE} cannot be read: {error}", "resume from another checkpoint"
            ) from error
        return state
