"""Why docs/sft.md warns of full fine-tuning in bf16."""

from __future__ import annotations

from benchmarks.bf16_rounding import moved


def test_bf16_rounds_the_published_rate_away_and_the_more_the_smaller_it_is() -> None:
    at_1e_5, at_4e_5, at_1e_3 = (moved(rate, weights=4_000) for rate in (1e-5, 4e-5, 1e-3))
    assert at_1e_5 < 0.2
    assert 0.2 < at_4e_5 < 0.5
    assert at_1e_3 > 0.9
