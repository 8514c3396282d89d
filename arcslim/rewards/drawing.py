"""``drawing``: how much of the target a program draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from arcslim.prompts.drawing import program_text
from arcslim.rewards.base import Rollout
from arcslim.tasks.drawing import LIMITS, DrawingLimits, DrawingRefused
from arcslim.tasks.drawing_choice import pixel_accuracy
from arcslim.tasks.drawing_parse import parse_program


@dataclass(frozen=True)
class DrawingReward:
    """Pixel accuracy of what the completion's program draws on the test input, against the test output.

    0 where there is no program, it is refused, or its image has another shape; 1 where it draws the target. A program
    that changes nothing gets what the input already has right. Named as
    ``--reward arcslim.rewards.drawing:DrawingReward``; ``grid`` should then have the weight 0: the answer is no grid.

    Worked example, a blank 2 x 2 input and the target ``11/00``: ``draw_horizontal_line(img, y=0, color=1)`` pays 1.0,
    with ``y=1`` 0.0, with ``color=2`` 0.5, and ``import os`` 0.
    """

    limits: DrawingLimits = field(default=LIMITS)

    name = "drawing"
    needs = ("task.test", "completion.text")

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        return [self._one(rollout) for rollout in rollouts]

    def _one(self, rollout: Rollout) -> float:
        truth = rollout.truth
        if truth is None:
            return 0.0
        try:
            program = parse_program(program_text(rollout.completion.text), self.limits)
            image = program.run(rollout.task.test[0].input.cells)
        except DrawingRefused:
            return 0.0
        return pixel_accuracy(image, truth.cells)
