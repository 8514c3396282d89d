"""What a run knows besides weights: the floor's price, the watches' memory, the best so far. In each checkpoint."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arcslim.errors import RunFolderError
from arcslim.recipes.watch import Watch
from arcslim.rewards.suite import RewardSuite

STATE_FILE = "arcslim_state.json"


@dataclass
class RunState:
    """``best`` is the best evaluation so far and ``best_step`` its checkpoint; ``stale`` counts evaluations since then,
    ``evaluated_step`` is the step of the last one.

    ``start`` holds the figures of the starting policy by name, ``test_values`` the final ones of the checkpoint
    ``tested_step``; ``seconds`` is what earlier parts of the run have taken.
    """

    suite: RewardSuite
    watch: Watch
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    evaluated_step: int = 0
    seconds: float = 0.0
    start: dict[str, float] = field(default_factory=dict)
    best_values: dict[str, float] = field(default_factory=dict)
    entropy_coef: float = 0.0
    tested_step: int | None = None
    test_values: dict[str, float] = field(default_factory=dict)

    def improve(self, value: float, step: int) -> bool:
        """Take an evaluation in: True where it is the best of a checkpoint so far (the earlier one on a tie).

        It counts as stale where it does not beat the starting policy either.
        """
        to_beat = max(self.best or 0.0, self.start.get("eval/pass@1", -1.0))
        self.stale = 0 if value > to_beat else self.stale + 1
        if self.best is None or value > self.best:
            self.best, self.best_step = value, step
            return True
        return False

    @property
    def beats_start(self) -> bool:
        """Whether the best checkpoint solves more of the tasks it was chosen on than the starting policy."""
        return self.best is None or self.best > self.start.get("eval/pass@1", -1.0)

    def save(self, checkpoint: Path) -> None:
        """Write into a checkpoint, last of all files: a checkpoint without it is not whole."""
        data: dict[str, Any] = {
            "suite": self.suite.state_dict(),
            "watch": self.watch.state_dict(),
            "best": self.best,
            "best_step": self.best_step,
            "stale": self.stale,
            "evaluated_step": self.evaluated_step,
            "seconds": self.seconds,
            "start": self.start,
            "best_values": self.best_values,
            "entropy_coef": self.entropy_coef,
            "tested_step": self.tested_step,
            "test_values": self.test_values,
        }
        partial = checkpoint / f".{STATE_FILE}.partial"
        with partial.open("w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(checkpoint / STATE_FILE)

    def load(self, checkpoint: Path) -> None:
        """Go on where the checkpoint left off.

        Raises:
            RunFolderError: the checkpoint was written by something else.
        """
        try:
            data = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
            self.suite.load_state_dict(data["suite"])
            self.watch.load_state_dict(data["watch"])
            self.best, self.best_step, self.stale = data["best"], data["best_step"], data["stale"]
            self.evaluated_step = data["evaluated_step"]
            self.seconds, self.start, self.best_values = data["seconds"], data["start"], data["best_values"]
            self.entropy_coef = data["entropy_coef"]
            self.tested_step, self.test_values = data["tested_step"], data["test_values"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{checkpoint / STATE_FILE} cannot be read: {error}", "resume from another checkpoint"
            ) from error
