"""Priorities of a replay buffer: which of the past to see again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ALPHA, LEAST_ERROR = 0.4, 1.0


def lap_priorities(
    errors: npt.ArrayLike, *, alpha: float = ALPHA, least: float = LEAST_ERROR
) -> npt.NDArray[np.float64]:
    """``max(|error|, least) ** alpha``, of any shape: LAP, loss-adjusted prioritized experience replay.

    Errors under ``least`` count alike: there the loss is quadratic, and its gradient shrinks by itself. Source:
    Fujimoto, Meger, Precup, "An Equivalence between Loss Functions and Non-Uniform Sampling in Experience
    Replay" (2020).

    Raises:
        ValueError: an error is not finite.
    """
    values = np.abs(np.asarray(errors, dtype=np.float64))
    if not np.isfinite(values).all():
        raise ValueError("an error is not finite")
    return np.maximum(values, least) ** alpha


def draw_by_priority(priorities: npt.ArrayLike, number: int, rng: np.random.Generator) -> list[int]:
    """``number`` different indices (all, where there are no more), each with a chance that goes with its priority."""
    weights = np.asarray(priorities, dtype=np.float64)
    number = min(number, len(weights))
    if number == 0:
        return []
    return [int(index) for index in rng.choice(len(weights), size=number, replace=False, p=weights / weights.sum())]
