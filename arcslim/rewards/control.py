"""A reward that knows nothing: what a run gains under it is not learnt from the tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from arcslim.rewards.base import Rollout


@dataclass(frozen=True)
class RandomReward:
    """0 or 1 by the toss of a coin, whatever the completion says. For control runs::

        --set reward.grid.weight=0 --set reward.min_thinking.mode=none --reward arcslim.rewards.control:RandomReward

    The coin is a hash of the seed, the prompt, the place in the batch and the completion's tokens: no state, so a
    resumed run tosses as the uninterrupted one does, and equal completions of a group differ in their luck.
    """

    seed: int = 0

    name = "random"
    needs = ("prompt_id", "completion.token_ids")

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        return [float(self._coin(place, rollout)) for place, rollout in enumerate(rollouts)]

    def _coin(self, place: int, rollout: Rollout) -> int:
        words = f"{self.seed}|{place}|{rollout.prompt_id}|{','.join(map(str, rollout.completion.token_ids))}"
        return hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()[0] & 1
