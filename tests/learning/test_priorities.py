"""Priorities of a replay buffer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from arcslim.learning.priorities import draw_by_priority, lap_priorities


def test_small_errors_count_alike_and_large_ones_by_their_power() -> None:
    assert lap_priorities([0.0, -0.5, 1.0, -32.0]) == pytest.approx([1.0, 1.0, 1.0, 32**0.4])


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        lap_priorities([1.0, float("nan")])


def test_draws_go_with_the_priorities_and_repeat_none() -> None:
    rng = np.random.default_rng(0)
    counts = Counter(draw_by_priority([3.0, 1.0], 1, rng)[0] for _ in range(4000))
    assert counts[0] / 4000 == pytest.approx(0.75, abs=0.03)
    assert sorted(draw_by_priority([1.0, 5.0, 2.0], 9, rng)) == [0, 1, 2]
    assert draw_by_priority([], 3, rng) == []
