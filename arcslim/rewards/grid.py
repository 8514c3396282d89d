"""``grid``: what the answer pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from arcslim.rewards.base import Rollout

RIGHT = 1.0
RIGHT_SIZE = 0.1
WELL_FORMED = 0.01
FORMAT = 0.1


@dataclass(frozen=True)
class GridReward:
    """The answer grid against the truth.

    ``graded`` (the default)::

        1.0   the answer equals the truth
        0.1   it has the truth's height and width
        0.01  it is a well-formed grid
        0     there is no answer that counts (see ``prompts/parse.py``)

    ``format`` (the first experiments' first reward): 1.0 right, 0.1 for any well-formed grid. It is not the default,
    because a single digit earns the 0.1: ``<answer>7</answer>`` after no thought at all pays as much as an earnest
    wrong answer, and where nothing is solved a policy drifts there within a few hundred steps. It is here to compare.

    Only the grid counts, not what stands behind it: a right 30 x 30 answer followed by 2,000 more characters pays 1.0,
    cut off or not. How many cells are right does not count either: pixel accuracy misleads on ARC.

    Worked example, the truth being ``12/34``: ``12/34`` pays 1.0, ``12/35`` 0.1, ``123`` 0.01, ``1x`` 0; under
    ``format`` 1.0, 0.1, 0.1, 0.
    """

    variant: Literal["graded", "format"] = "graded"

    name = "grid"
    needs = ("task.test", "parsed")

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        return [self._one(rollout) for rollout in rollouts]

    def _one(self, rollout: Rollout) -> float:
        answer, truth = rollout.parsed.answer, rollout.truth
        if answer is None or truth is None:
            return 0.0
        if rollout.solved:
            return RIGHT
        if self.variant == "format":
            return FORMAT
        return RIGHT_SIZE if answer.shape == truth.shape else WELL_FORMED
