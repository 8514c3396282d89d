"""What a run knows besides weights: the best so far, and what its recipe's parts remember. In each checkpoint."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from arcslim.errors import RunFolderError

STATE_FILE = "arcslim_state.json"


def write_state(checkpoint: Path, data: Mapping[str, Any]) -> None:
    """Write what a run knows into a checkpoint, whole or not at all."""
    partial = checkpoint / f".{STATE_FILE}.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(checkpoint / STATE_FILE)


class Remembers(Protocol):
    """A part of a recipe that goes on where it was: GRPO's rewards (the floor's price) and watches."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Goal:
    """The figure of an evaluation that the best checkpoint is chosen by."""

    metric: str
    higher_is_better: bool = True
    form: str = "{:.1%}"

    @property
    def name(self) -> str:
        return self.metric.partition("/")[2]

    def beats(self, value: float, other: float | None) -> bool:
        """Whether ``value`` is better than ``other``; any number is better than None, NaN than nothing."""
        if not math.isfinite(value):
            return False
        return other is None or (value > other if self.higher_is_better else value < other)


PASS_AT_1 = Goal("eval/pass@1")
LOSS = Goal("eval/loss", higher_is_better=False, form="{:.4f}")


@dataclass
class RunState:
    """``goal`` is what "best" means, and ``parts`` are the memories of the recipe's parts by name.

    ``best`` is the best evaluation so far and ``best_step`` its checkpoint; ``stale`` counts evaluations since then,
    ``evaluated_step`` is the step of the last one.

    ``start`` holds the figures of the starting policy by name, ``test_values`` the final ones of the checkpoint
    ``tested_step``; ``seconds`` is what earlier parts of the run have taken.
    """

    goal: Goal = PASS_AT_1
    parts: Mapping[str, Remembers] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None
    best_loss: float | None = None
    stale: int = 0
    evaluated_step: int = 0
    seconds: float = 0.0
    start: dict[str, float] = field(default_factory=dict)
    best_values: dict[str, float] = field(default_factory=dict)
    entropy_coef: float = 0.0
    tested_step: int | None = None
    test_values: dict[str, float] = field(default_factory=dict)

    def improve(self, value: float, step: int, loss: float | None = None) -> bool:
        """Take an evaluation in: True where it is the best of a checkpoint so far (the earlier one on a tie).

        ``loss`` on held-out rows breaks ties, where a recipe has one: a policy that solves nothing yet may be learning.
        It counts as stale where it does not beat the starting policy either.
        """
        tied = value == self.best and loss is not None and LOSS.beats(loss, self.best_loss)
        start = self.start.get(self.goal.metric)
        ahead = self.goal.beats(value, self.best) and self.goal.beats(value, start)
        self.stale = 0 if ahead or tied else self.stale + 1
        if tied or self.goal.beats(value, self.best):
            self.best, self.best_step, self.best_loss = value, step, loss
            return True
        return False

    @property
    def beats_start(self) -> bool:
        """Whether the best checkpoint is better than the starting policy on what it was chosen by."""
        return self.best is None or self.goal.beats(self.best, self.start.get(self.goal.metric))

    def save(self, checkpoint: Path) -> None:
        """Write into a checkpoint, last of all files: a checkpoint without it is not whole."""
        data: dict[str, Any] = {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "best": self.best,
            "best_step": self.best_step,
            "best_loss": self.best_loss,
            "stale": self.stale,
            "evaluated_step": self.evaluated_step,
            "seconds": self.seconds,
            "start": self.start,
            "best_values": self.best_values,
            "entropy_coef": self.entropy_coef,
            "tested_step": self.tested_step,
            "test_values": self.test_values,
        }
        write_state(checkpoint, data)

    def load(self, checkpoint: Path) -> None:
        """Go on where the checkpoint left off.

        Raises:
            RunFolderError: the checkpoint was written by something else.
        """
        try:
            data = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
            for name, part in self.parts.items():
                part.load_state_dict(data["parts"][name])
            self.best, self.best_step, self.stale = data["best"], data["best_step"], data["stale"]
            self.best_loss = data["best_loss"]
            self.evaluated_step = data["evaluated_step"]
            self.seconds, self.start, self.best_values = data["seconds"], data["start"], data["best_values"]
            self.entropy_coef = data["entropy_coef"]
            self.tested_step, self.test_values = data["tested_step"], data["test_values"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{checkpoint / STATE_FILE} cannot be read: {error}", "resume from another checkpoint"
            ) from error
