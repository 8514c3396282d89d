"""``min_thinking``: a reward for at least some closed thinking, in four modes to compare.

Symbols, the same throughout::

    T      tokens of closed thinking, 0 where it is degenerate (``degenerate.py``)
    L      ``min_tokens``
    c      min(1, T / L): how much of the minimum is there
    v      1 - c: the shortfall
    right  1 where the answer equals the truth, else 0

========  =====================  =======================================================================================
mode      the part               what it does to a group in which nothing is solved
========  =====================  =======================================================================================
none      0                      nothing
bonus     b · c                  pays thought for its length up to L, solved or not: the whole group is driven to L,
                                 and the advantage there comes from length alone, for ever
gate      -(1 - g) · v · right   nothing: what is not solved is neither paid nor priced, so thinking that was lost in
                                 hard groups does not come back by it
floor     -λ · v                 prices what is missing up to L, solved or not; once all members reach L the part is 0
                                 for all and only the answer pays. λ falls to 0 while the floor holds
========  =====================  =======================================================================================

Worked example, L = 100, grid reward 1 for right and 0.1 for wrong of the right size, weights 1:

==========================  =======  ==========  ============  ==============
completion                  none     bonus 0.1   gate g = 0.5  floor λ = 0.1
==========================  =======  ==========  ============  ==============
right, T = 150              1        1.1         1             1
right, T = 25               1        1.025       0.625         0.925
right, T = 0                1        1           0.5           0.9
wrong, T = 150              0.1      0.2         0.1           0.1
wrong, T = 0                0.1      0.1         0.1           0
==========================  =======  ==========  ============  ==============

A short right answer beats a long wrong one in every mode: right is worth 0.9 of the grid's weight more than wrong, and
``RewardSection`` refuses a ``min_thinking`` that could move more than 0.8 of it.

The price of the floor (a dual ascent on "the mean shortfall is at most the target"): after each training rollout

    λ ← min(price_max, max(0, λ + price_step · (mean v - target_shortfall)))

with the mean over all processes, once a rollout, never in an evaluation. With the defaults (0.1, step 0.05, target
0.05) a rollout with mean v = 0.45 makes λ = 0.12, and one with v = 0 makes it 0.0975.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from arcslim.config import MinThinkingSection
from arcslim.errors import RewardError
from arcslim.rewards.base import ReduceMean, Rollout


class MinThinkingReward:
    """See the module's docstring. ``min_tokens`` 0 means *not measured yet*: no part, and the price rests."""

    name = "min_thinking"
    needs = ("parsed", "thinking_tokens", "task.test")

    def __init__(self, section: MinThinkingSection) -> None:
        self.section = section
        self.min_tokens = section.min_tokens
        self.price = section.price

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        if self.section.mode == "none" or not self.min_tokens:
            return [0.0] * len(rollouts)
        return [self._one(rollout) for rollout in rollouts]

    def shortfall(self, rollout: Rollout) -> float:
        """v = max(0, 1 - T / L), from 0 to 1; 0 as long as L is not known."""
        return max(0.0, 1.0 - rollout.credited_tokens / self.min_tokens) if self.min_tokens else 0.0

    def _one(self, rollout: Rollout) -> float:
        section = self.section
        if section.mode == "gate" and not rollout.solved:
            return 0.0
        missing = self.shortfall(rollout)
        if section.mode == "bonus":
            return section.bonus * (1.0 - missing)
        if section.mode == "gate":
            return 0.0 - (1.0 - section.gate_min) * missing
        return 0.0 - self.price * missing  # no -0.0

    def set_min_tokens(self, tokens: int) -> None:
        """Set L once it is measured.

        Raises:
            RewardError: if it is under 1.
        """
        if tokens < 1:
            raise RewardError(f"min_tokens must be at least 1, not {tokens}")
        self.min_tokens = tokens

    def end_rollout(self, rollouts: Sequence[Rollout], reduce_mean: ReduceMean) -> None:
        """Move the price. Every process takes part in the mean, also one with no rollouts of its own."""
        if self.section.mode != "floor" or not self.min_tokens:
            return
        mean = reduce_mean(sum(map(self.shortfall, rollouts)), len(rollouts))
        moved = self.price + self.section.price_step * (mean - self.section.target_shortfall)
        self.price = min(self.section.price_max, max(0.0, moved))

    def state_dict(self) -> dict[str, Any]:
        return {"price": self.price, "min_tokens": self.min_tokens}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The price goes on where it was, under today's ceiling. A ``min_tokens`` of the configuration's stands."""
        self.price = min(self.section.price_max, float(state["price"]))
        if not self.section.min_tokens:
            self.min_tokens = int(state["min_tokens"])


@dataclass(frozen=True)
class Measured:
    """A measured L, and in words what it was measured on."""

    min_tokens: int
    words: str


def measure_min_tokens(rollouts: Sequence[Rollout]) -> Measured | None:
    """Half the median of T over the *solved* rollouts of the starting policy, at least 1.

    Where nothing is solved: over all rollouts with thinking that counts, and ``words`` says so. None where there is no
    such thinking either: there is nothing to measure, and ``min_tokens`` has to be given.

    Example: solved rollouts with T = 40, 60 and 200 give L = 30.
    """
    solved = [rollout.credited_tokens for rollout in rollouts if rollout.solved]
    if solved and median(solved) > 0:
        return _half(solved, f"{len(solved)} solved rollouts of the starting policy")
    thought = [rollout.credited_tokens for rollout in rollouts if rollout.credited_tokens > 0]
    if not thought:
        return None
    why = "nothing was solved" if not solved else "most solved rollouts do not think"
    return _half(thought, f"all {len(thought)} rollouts of the starting policy that think, since {why}")


def _half(tokens: list[int], what: str) -> Measured:
    middle = median(tokens)
    least = max(1, round(middle / 2))
    return Measured(least, f"min_tokens is {least}, half the median thinking ({middle:g} tokens) of {what}")
