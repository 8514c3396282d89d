"""What rewards see and return: ``Rollout``, ``Score``, and the protocols of a reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from arcslim.prompts.nouns import Completion, Parsed
from arcslim.rewards.degenerate import Degenerate, why_degenerate
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Task

ReduceMean = Callable[[float, int], float]
"""From this process's total and count to the mean over all processes. Every process calls it once a rollout."""


def local_mean(total: float, count: int) -> float:
    """The mean where there is one process. The mean of nothing is 0."""
    return total / count if count else 0.0


@dataclass(frozen=True)
class Rollout:
    """One completion of one prompt, as the rewards see it.

    ``task`` has one test pair. ``thinking_tokens`` counts the tokens of ``parsed.thinking``. ``prompt_text`` is the
    rendered prompt, by which thinking that only repeats the prompt is told; the task's grids serve where it is "".
    """

    prompt_id: str
    task: Task
    completion: Completion
    parsed: Parsed
    thinking_tokens: int
    prompt_text: str = ""

    @property
    def truth(self) -> Grid | None:
        """The grid that a right answer equals; None where it is hidden (``RewardSuite.check`` refuses such tasks)."""
        return self.task.test[0].output

    @cached_property
    def solved(self) -> bool:
        return self.parsed.answer is not None and self.parsed.answer == self.truth

    @cached_property
    def degenerate(self) -> Degenerate | None:
        """Why the thinking counts for nothing, or None where it counts."""
        return why_degenerate(self.parsed.thinking, self.task, self.prompt_text)

    @cached_property
    def credited_tokens(self) -> int:
        """Tokens of closed thinking that count: 0 where it is degenerate or was never closed."""
        return 0 if self.thinking_tokens <= 0 or self.degenerate else self.thinking_tokens


@dataclass(frozen=True)
class Score:
    """``total`` = sum of weight x part. A part that was not finite is left out, and ``total`` is then the group's mean
    of the others."""

    total: float
    parts: dict[str, float]
    weights: dict[str, float]


class Reward(Protocol):
    """A reward: a picklable object with a name, called with all rollouts of a batch at once.

    It returns one number a rollout, in order. None or NaN takes the rollout out of its group. It may declare
    ``needs: tuple[str, ...]``, the fields of ``Rollout`` (dotted: ``task.family``) that it reads, which are then
    checked before anything is trained. A plain function serves as well, under its own name.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, rollouts: Sequence[Rollout]) -> Sequence[float | None]: ...


@runtime_checkable
class StatefulReward(Protocol):
    """A reward that moves with training: told once of each training rollout, after that rollout was scored."""

    def end_rollout(self, rollouts: Sequence[Rollout], reduce_mean: ReduceMean) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
