"""Evaluation on held-out tasks: pass@1, pass@k, and whether the thinking is still there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from arcslim.config import GenerationSection
from arcslim.policy.generate import OnBatch, generate
from arcslim.policy.load import Policy
from arcslim.recipes.prepare import Asked
from arcslim.recipes.rollouts import Reader
from arcslim.rewards.base import Rollout
from arcslim.rewards.statistics import completion_metrics, thinking_metrics


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation: figures by name, and the rollouts behind them, ``samples`` consecutive a task."""

    values: dict[str, float]
    rollouts: tuple[Rollout, ...]


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The unbiased chance that at least one of k of the samples is right: 1 - C(n - c, k) / C(n, k).

    Source: Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"k must lie within 1 and {samples}, not {k}")
    return 1.0 - comb(samples - right, k) / comb(samples, k)


def evaluate(
    policy: Policy,
    asked: Sequence[Asked],
    generation: GenerationSection,
    *,
    samples: int,
    batch: int,
    seed: int,
    prefix: str = "eval",
    on_batch: OnBatch | None = None,
) -> Evaluation:
    """Roll each task out ``samples`` times with the sampling of training, and count.

    The same seed gives the same draws, so that two policies are compared on equal terms. Names: ``PREFIX/pass@1``,
    ``PREFIX/pass@k`` (k = samples), ``PREFIX/thinking_tokens_mean``, ``PREFIX/cut_off_rate``, ``PREFIX/n``, ….
    """
    prompts = [one.prompt.token_ids for one in asked]
    drawn = generate(policy, prompts, generation, samples=samples, batch=batch, seed=seed, on_batch=on_batch)
    questions = [one for one in asked for _ in range(samples)]
    rollouts = Reader(policy.tokenizer).read(questions, [completion for group in drawn for completion in group])
    right = np.array([rollout.solved for rollout in rollouts]).reshape(len(asked), samples)
    shape = completion_metrics(rollouts) | thinking_metrics(rollouts)
    thought_right = [rollout.thinking_tokens for rollout in rollouts if rollout.solved]
    values = {
        "pass@1": float(right.mean()),
        "thinking_tokens_mean": shape["thinking/tokens_mean"],
        "completion_tokens_mean": shape["completion/tokens_mean"],
        "cut_off_rate": shape["completion/cut_off_rate"],
        "degenerate_rate": shape["thinking/degenerate_rate"],
        "answered_rate": float(np.mean([rollout.parsed.answer is not None for rollout in rollouts])),
        "n": float(len(asked)),
    }
    if samples > 1:
        values[f"pass@{samples}"] = float(np.mean([pass_at_k(samples, int(row.sum()), samples) for row in right]))
    if thought_right:
        values["thinking_tokens_solved"] = float(np.mean(thought_right))
    return Evaluation({f"{prefix}/{name}": value for name, value in values.items()}, tuple(rollouts))
