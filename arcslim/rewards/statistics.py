"""What a batch of rewards says: advantages, spread within groups, and who drives the gradient.

A batch is ``n`` rollouts; each ``group_size`` consecutive ones share a prompt and form a group. Arrays below have shape
(n,) unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arcslim.rewards.base import Rollout
from arcslim.rewards.degenerate import NGRAM

Floats = NDArray[np.float64]
Scale = Literal["none", "group", "batch"]

SCALE_EPSILON = 1e-4  # TRL's, grpo_trainer.py: (r - mean) / (std + 1e-4)
_PADDING = np.uint64(2**64 - 1)
_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))  # for hashing: odd, bits well spread
SAME = 1e-8  # rewards closer than this are the same: the tolerance of torch.isclose, by which TRL counts


def fill_from_group(totals: Floats, group_size: int) -> Floats:
    """Totals without NaN: a NaN becomes the mean of its group's others, so that its advantage is 0 and the others'
    advantages are what they are without it. A group of nothing but NaN becomes zeros.

    Example, one group: (1, NaN, 0, 0.2) becomes (1, 0.4, 0, 0.2).
    """
    groups = totals.reshape(-1, group_size)
    known = np.isfinite(groups)
    counts = np.maximum(known.sum(axis=1, keepdims=True), 1)
    means = np.where(known, groups, 0.0).sum(axis=1, keepdims=True) / counts
    return np.where(known, groups, means).reshape(-1)


def scale_of(rewards: Floats, group_size: int, scale: Scale) -> Floats:
    """What a deviation from the group's mean is divided by: 1 for ``none``, the standard deviation (of the group, or of
    the whole batch; Bessel-corrected, as TRL's) + 1e-4 otherwise."""
    if scale == "none" or group_size < 2:
        return np.ones_like(rewards)
    if scale == "batch":
        return np.full_like(rewards, rewards.std(ddof=1) + SCALE_EPSILON)
    return np.repeat(rewards.reshape(-1, group_size).std(axis=1, ddof=1) + SCALE_EPSILON, group_size)


def deviations(values: Floats, group_size: int) -> Floats:
    """Each value minus its group's mean over the finite ones; 0 where the value is not finite."""
    groups = values.reshape(-1, group_size)
    filled = fill_from_group(values, group_size).reshape(-1, group_size)
    return np.where(np.isfinite(groups), filled - filled.mean(axis=1, keepdims=True), 0.0).reshape(-1)


def spread_metrics(rewards: Floats, solved: NDArray[np.bool_], group_size: int) -> dict[str, float]:
    """``group/no_spread_rate``, the share of groups whose rewards are all the same: they teach nothing (and with
    ``beta`` > 0 still pull towards the reference). ``group/correct_spread_rate``, the share whose *correctness* varies.

    Example, two groups of two: rewards (1, 0.1 | 0.1, 0.1), solved (yes, no | no, no): 0.5 and 0.5. Rewards
    (0.1, 0 | 0.1, 0.01) with nothing solved: 0 and 0, a batch that looks healthy and teaches format.
    """
    groups, right = rewards.reshape(-1, group_size), solved.reshape(-1, group_size)
    number_right = right.sum(axis=1)
    return {
        "group/no_spread_rate": float(np.mean(np.ptp(groups, axis=1) <= SAME)),
        "group/correct_spread_rate": float(np.mean((number_right > 0) & (number_right < group_size))),
    }


def share_metrics(
    parts: Mapping[str, Floats], weights: Mapping[str, float], scales: Floats, group_size: int
) -> dict[str, float]:
    """``advantage/share_<part>``: Σ|w · (part - group mean of part)| / scale, as a share of the same over all parts.

    0 for all where no part varies within a group. NaN counts as its group's mean.

    Example, one group of two, scale 1: grid (1, 0) and min_thinking (-0.1, 0) give sums 1 and 0.1, shares 0.909 and
    0.091.
    """
    sums = {
        name: float(np.sum(np.abs(weights[name] * deviations(values, group_size)) / scales))
        for name, values in parts.items()
    }
    whole = sum(sums.values())
    return {f"advantage/share_{name}": value / whole if whole > 0 else 0.0 for name, value in sums.items()}


def share_unsolved(advantages: Floats, solved: NDArray[np.bool_], group_size: int) -> float:
    """The share of Σ|advantage| that comes from groups in which nothing is solved; 0 where there is no advantage.

    Example, two groups of two: advantages (0.45, -0.45 | 0.05, -0.05), the first rollout solved: 0.1.
    """
    sizes = np.abs(advantages).reshape(-1, group_size).sum(axis=1)
    unsolved = ~solved.reshape(-1, group_size).any(axis=1)
    whole = float(sizes.sum())
    return float(sizes[unsolved].sum()) / whole if whole > 0 else 0.0


def repetition(token_ids: Sequence[int]) -> float:
    """The share of a completion's 4-grams that occurred before in it, from 0 to 1: 1 - distinct / all.

    Example: (1, 2, 3, 4, 5) gives 0; a token eight times gives 0.8, as one of five 4-grams is new.
    """
    return repetitions([token_ids])[0]


def repetitions(rows: Sequence[Sequence[int]]) -> list[float]:
    """``repetition`` of each row, in one go: cheaper than a set of tuples for each.

    4-grams are told apart by a hash of 64 bits, sorted row by row; in a row of 4,000 two of them share one with a
    probability of about 1e-12.
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    grams = np.maximum(lengths - NGRAM + 1, 0)
    if not grams.any():
        return [0.0] * len(rows)
    ids = np.fromiter(chain.from_iterable(rows), dtype=np.uint64, count=int(lengths.sum()))
    hashes = np.zeros(len(ids) - NGRAM + 1, dtype=np.uint64)
    for offset in range(NGRAM):  # the multiplication wraps around
        hashes = (hashes ^ (ids[offset : offset + len(hashes)] + _ODD[0])) * _ODD[1]
        hashes ^= hashes >> np.uint64(29)
    # a 4-gram belongs to a row if it begins and ends in it
    row_of = np.repeat(np.arange(len(rows)), lengths)
    kept = row_of[: len(hashes)] == row_of[NGRAM - 1 :]
    places = np.arange(int(grams.max())) < grams[:, None]
    table = np.full(places.shape, _PADDING)
    table[places] = hashes[kept]
    table.sort(axis=1)
    distinct = 1 + np.count_nonzero(table[:, 1:] != table[:, :-1], axis=1) - (grams < places.shape[1])
    return np.where(grams > 0, 1.0 - distinct / np.maximum(grams, 1), 0.0).tolist()


def completion_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """``completion/tokens_mean``, ``completion/cut_off_rate`` and ``completion/repetition`` (mean) of a batch."""
    return _means(
        {
            "completion/tokens_mean": [len(rollout.completion.token_ids) for rollout in rollouts],
            "completion/cut_off_rate": [rollout.completion.cut_off for rollout in rollouts],
            "completion/repetition": repetitions([rollout.completion.token_ids for rollout in rollouts]),
        }
    )


def thinking_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """``thinking/tokens_mean`` of closed thinking as it stands (0 where there is none), ``thinking/credited_mean`` with
    degenerate thinking as none, ``thinking/degenerate_rate`` and ``thinking/closed_rate`` as shares of a batch."""
    closed = [rollout.parsed.reason != "no_thinking_close" for rollout in rollouts]
    return _means(
        {
            "thinking/tokens_mean": [rollout.thinking_tokens for rollout in rollouts],
            "thinking/credited_mean": [rollout.credited_tokens for rollout in rollouts],
            "thinking/degenerate_rate": [
                is_closed and rollout.degenerate is not None
                for is_closed, rollout in zip(closed, rollouts, strict=True)
            ],
            "thinking/closed_rate": closed,
        }
    )


def _means(columns: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
