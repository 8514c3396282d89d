"""``RewardSuite``: all rewards of a run, weighed, checked, and turned into what GRPO needs."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from arcslim.config import RewardSection
from arcslim.errors import ArcslimError, NonFiniteError, RewardError
from arcslim.prompts.nouns import Completion, Parsed
from arcslim.rewards.base import ReduceMean, Reward, Rollout, Score, StatefulReward, local_mean
from arcslim.rewards.grid import GridReward
from arcslim.rewards.registry import load_reward, parse_reward_spec, reward_name
from arcslim.rewards.statistics import (
    Floats,
    Scale,
    completion_metrics,
    deviations,
    fill_from_group,
    scale_of,
    share_metrics,
    share_unsolved,
    spread_metrics,
    thinking_metrics,
)
from arcslim.rewards.thinking import MinThinkingReward
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

RESERVED = frozenset({"total", "solved_rate", "nan_rows", "unsolved"})


@dataclass(frozen=True)
class Scored:
    """A scored batch of n rollouts; the lists have n entries, in the order of the rollouts.

    ``rewards`` are finite: a row with a NaN part holds the mean of its group's others, so that its advantage is 0 also
    where TRL computes it. ``advantages`` are those of ``rewards``, scaled as the suite was told.
    """

    scores: list[Score]
    rewards: list[float]
    advantages: list[float]
    nan_rows: int
    metrics: dict[str, float]


class RewardSuite:
    """The rewards by name, each with its weight. Made by ``from_config``."""

    def __init__(
        self,
        rewards: Sequence[tuple[Reward, float]],
        *,
        scale_rewards: Scale = "none",
        reduce_mean: ReduceMean = local_mean,
    ) -> None:
        self.rewards = {reward_name(reward): reward for reward, _ in rewards}
        self.weights = {reward_name(reward): weight for reward, weight in rewards}
        self.scale_rewards = scale_rewards
        self.reduce_mean = reduce_mean
        names = [reward_name(reward) for reward, _ in rewards]
        for name in names:
            if names.count(name) > 1 or name in RESERVED:
                why = "is taken by a metric of the suite" if name in RESERVED else "belongs to two rewards"
                raise RewardError(f"the reward name {name!r} {why}", "give your reward another `name`")

    @classmethod
    def from_config(
        cls, reward: RewardSection, *, scale_rewards: Scale = "none", reduce_mean: ReduceMean = local_mean
    ) -> RewardSuite:
        """``grid``, ``min_thinking`` and the own ones of ``reward.extra``, imported.

        ``scale_rewards`` is ``grpo.scale_rewards``. ``reduce_mean(total, count)`` gives the mean over all processes.

        Raises:
            RewardError: if an own reward cannot be loaded, or a name is taken.
        """
        specs = [parse_reward_spec(text) for text in reward.extra]
        rewards: list[tuple[Reward, float]] = [
            (GridReward(reward.grid.variant), reward.grid.weight),
            (MinThinkingReward(reward.min_thinking), reward.min_thinking.weight),
            *((load_reward(spec), spec.weight) for spec in specs),
        ]
        return cls(rewards, scale_rewards=scale_rewards, reduce_mean=reduce_mean)

    @property
    def min_thinking(self) -> MinThinkingReward:
        return cast(MinThinkingReward, self.rewards[MinThinkingReward.name])

    def set_min_tokens(self, tokens: int) -> None:
        """Set the L of ``min_thinking``, once it is measured."""
        self.min_thinking.set_min_tokens(tokens)

    def check(self, tasks: Iterable[Task]) -> None:
        """Refuse before anything is trained what would give a constant or crooked reward.

        Each reward is called once on three made rollouts.

        Raises:
            RewardError: a task without a known test output, a reward that needs what a rollout does not have, returns
                another number of values than it was given rollouts, no numbers, or raises.
        """
        _check_truths(tasks)
        rollouts = _made_rollouts()
        for name, reward in self.rewards.items():
            needs = getattr(reward, "needs", ())
            for field in (needs,) if isinstance(needs, str) else needs:
                _check_need(name, field, rollouts[0])
            _call(name, reward, rollouts)

    def score(self, rollouts: Sequence[Rollout], *, group_size: int, training: bool) -> Scored:
        """Score a batch: each ``group_size`` consecutive rollouts share a prompt.

        With ``training``, rewards that move (the floor's price) are told of the batch, after it was scored. Metrics:
        ``reward/total``, ``reward/<name>`` (unweighted), ``reward/solved_rate``, ``reward/nan_rows``, those of
        ``completion_metrics`` and ``thinking_metrics``, ``thinking/shortfall_mean`` and ``thinking/price`` where they
        mean something, and with groups of two or more ``group/…`` and ``advantage/…`` (see ``statistics.py``).

        Raises:
            RewardError: groups that do not divide the batch or mix prompts; a reward of the wrong shape.
            NonFiniteError: no row of the batch has a finite reward.
        """
        _check_groups(rollouts, group_size)
        parts = {name: _call(name, reward, rollouts) for name, reward in self.rewards.items()}
        # a part of weight 0 is only looked at: its NaN harms nobody
        weighed = (self.weights[name] * values for name, values in parts.items() if self.weights[name])
        totals = sum(weighed, np.zeros(len(rollouts)))
        finite = np.isfinite(totals)
        if not finite.any():
            culprits = [name for name, values in parts.items() if not np.isfinite(values).any()]
            raise NonFiniteError(
                f"none of the {len(rollouts)} rollouts got a finite reward ({', '.join(culprits or parts)})",
                "look at what this reward divides by or takes the logarithm of",
            )
        totals = np.where(finite, totals, np.nan)
        rewards = fill_from_group(totals, group_size)
        scales = scale_of(rewards, group_size, self.scale_rewards)
        advantages = np.where(finite, deviations(rewards, group_size) / scales, 0.0)
        metrics = self._metrics(rollouts, parts, totals)
        if group_size > 1:
            solved = np.array([rollout.solved for rollout in rollouts])
            metrics |= spread_metrics(rewards, solved, group_size)
            kept = {name: np.where(finite, values, np.nan) for name, values in parts.items()}
            metrics |= share_metrics(kept, self.weights, scales, group_size)
            metrics["advantage/share_unsolved"] = share_unsolved(advantages, solved, group_size)
        if training:
            self._end_rollout(rollouts)
        scores = self._scores(parts, rewards)
        return Scored(scores, rewards.tolist(), advantages.tolist(), int((~finite).sum()), metrics)

    def state_dict(self) -> dict[str, Any]:
        """What the rewards that move have come to, by name; plain JSON for the built-in ones."""
        return {
            name: reward.state_dict() for name, reward in self.rewards.items() if isinstance(reward, StatefulReward)
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a ``state_dict``. Rewards new since then keep their start; those that are gone are passed over."""
        for name, reward in self.rewards.items():
            if name in state and isinstance(reward, StatefulReward):
                reward.load_state_dict(state[name])

    def _end_rollout(self, rollouts: Sequence[Rollout]) -> None:
        for reward in self.rewards.values():
            if isinstance(reward, StatefulReward):
                reward.end_rollout(rollouts, self.reduce_mean)

    def _scores(self, parts: dict[str, Floats], rewards: Floats) -> list[Score]:
        columns = {name: values.tolist() for name, values in parts.items()}
        return [
            Score(
                total,
                {name: column[row] for name, column in columns.items() if math.isfinite(column[row])},
                self.weights,
            )
            for row, total in enumerate(rewards.tolist())
        ]

    def _metrics(self, rollouts: Sequence[Rollout], parts: dict[str, Floats], totals: Floats) -> dict[str, float]:
        metrics = {"reward/total": float(np.nanmean(totals))}
        for name, values in parts.items():
            known = values[np.isfinite(values)]
            if known.size:
                metrics[f"reward/{name}"] = float(known.mean())
        metrics["reward/solved_rate"] = sum(rollout.solved for rollout in rollouts) / len(rollouts)
        metrics["reward/nan_rows"] = float(np.isnan(totals).sum())
        metrics |= completion_metrics(rollouts) | thinking_metrics(rollouts)
        thinking = self.rewards.get(MinThinkingReward.name)
        if isinstance(thinking, MinThinkingReward) and thinking.min_tokens:
            metrics["thinking/shortfall_mean"] = sum(map(thinking.shortfall, rollouts)) / len(rollouts)
            if thinking.section.mode == "floor":
                metrics["thinking/price"] = thinking.price
        return metrics


def _call(name: str, reward: Reward, rollouts: Sequence[Rollout]) -> Floats:
    """The reward's values, shape (n,), NaN for None and for what is not finite."""
    try:
        values = list(reward(rollouts))
        numbers = [math.nan if value is None else float(value) for value in values]
    except ArcslimError:
        raise
    except (Exception, SystemExit) as error:
        raise RewardError(
            f"the reward {name!r} failed: {type(error).__name__}: {error}",
            "it is called with a list of rollouts and returns one number (or None) for each",
        ) from error
    if len(numbers) != len(rollouts):
        raise RewardError(
            f"the reward {name!r} returned {len(numbers)} values for {len(rollouts)} rollouts",
            "return one number for each rollout, in their order; None for one that cannot be judged",
        )
    array = np.array(numbers, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _check_groups(rollouts: Sequence[Rollout], group_size: int) -> None:
    if not rollouts or group_size < 1 or len(rollouts) % group_size:
        raise RewardError(f"{len(rollouts)} rollouts cannot be scored in groups of {group_size}")
    for start in range(0, len(rollouts), group_size):
        prompt_id = rollouts[start].prompt_id
        for rollout in rollouts[start : start + group_size]:
            if rollout.prompt_id != prompt_id:
                raise RewardError(
                    f"the group from row {start} on mixes the prompts {prompt_id!r} and {rollout.prompt_id!r}",
                    f"the {group_size} completions of a prompt must stand one after the other",
                )


def _check_truths(tasks: Iterable[Task]) -> None:
    hidden = [task.task_id for task in tasks if not task.test or any(pair.output is None for pair in task.test)]
    if hidden:
        more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
        raise RewardError(
            f"task {hidden[0]!r}{more}: the test output is not known, so every answer would get the same reward",
            "train on tasks with solutions (for a Kaggle file: its solutions file beside it)",
        )


def _check_need(name: str, field: str, rollout: Rollout) -> None:
    found: object = rollout
    for step in field.split("."):
        if not hasattr(found, step):
            known = [known for known in dir(found) if not known.startswith("_")]
            near = difflib.get_close_matches(step, known, n=1)
            raise RewardError(
                f"the reward {name!r} needs {field!r}, and a {type(found).__name__} has no {step!r}",
                f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}",
            )
        found = getattr(found, step)


def _made_rollouts() -> list[Rollout]:
    """Three rollouts of one made task: right, wrong with no thinking, and cut off in the thinking."""
    given, truth = Grid([[1, 2], [3, 4]]), Grid([[2, 1], [4, 3]])
    task = Task("check", "check", "check", (Pair(given, truth),), (Pair(given, truth),))
    thought = "Rule: mirror left to right. Row 1: 12 -> 21. Row 2: 34 -> 43."
    made = [
        (f"{thought}</think><answer>21\n43</answer>", Parsed(thought, truth, None), 30, False),
        ("</think><answer>12\n34</answer>", Parsed("", given, None), 0, False),
        ("Rule: mirror", Parsed("", None, "no_thinking_close"), 0, True),
    ]
    return [
        Rollout("check", task, Completion(text, tuple(text.encode()), cut_off), parsed, tokens, "Find the rule.")
        for text, parsed, tokens, cut_off in made
    ]
