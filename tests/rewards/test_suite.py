"""The suite: what is refused at the start, scores, NaN, and who drives the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.config import RewardSection
from arcslim.errors import NonFiniteError, RewardError
from arcslim.rewards.base import Rollout
from arcslim.rewards.statistics import completion_metrics, fill_from_group, repetition, repetitions
from arcslim.rewards.suite import RewardSuite, Scored
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

MakeRollout = Callable[..., Rollout]
RIGHT, SIZED, FORMED = "21/43", "21/44", "7"


class Given:
    """A reward that returns what it is told to: values by row, whatever the rollouts."""

    needs: Any = ()

    def __init__(self, values: Callable[[int], Sequence[float | None]], name: str = "given") -> None:
        self.values = values
        self.name = name

    def __call__(self, rollouts: Sequence[Rollout]) -> Sequence[float | None]:
        return self.values(len(rollouts))


def of(*values: float | None) -> Given:
    return Given(lambda count: list(values)[:count] + [0.0] * (count - len(values)))


def plain(mode: str = "none", **min_thinking: Any) -> RewardSuite:
    return RewardSuite.from_config(RewardSection.model_validate({"min_thinking": {"mode": mode, **min_thinking}}))


def score(suite: RewardSuite, rollouts: Sequence[Rollout], group_size: int) -> Scored:
    return suite.score(rollouts, group_size=group_size, training=True)


# At the start ---------------------------------------------------------------------------------------------------------


def test_the_built_in_rewards_pass_the_check(flip: Task) -> None:
    for mode in ("none", "bonus", "gate", "floor"):
        plain(mode).check([flip])
        plain(mode, min_tokens=50).check([flip])
    RewardSuite.from_config(RewardSection(extra=("arcslim.rewards.control:RandomReward=0.1",))).check([flip])


def test_a_task_without_its_truth_is_refused_by_name(flip: Task) -> None:
    """Case 11: a missing target would make the reward a constant 0: an error at the start."""
    hidden = Task("kaggle-7", "kaggle", "kaggle-7", flip.train, (Pair(flip.test[0].input, None),))
    with pytest.raises(RewardError, match="kaggle-7"):
        plain().check([flip, hidden])
    untested = Task("no-test", "made", "no-test", flip.train, ())
    with pytest.raises(RewardError, match="no-test"):
        plain().check([untested])


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        (("task.solution",), "solution"),
        (("parsd",), "did you mean 'parsed'"),
        ("taks", "did you mean 'task'"),
        (("completion.txt",), "did you mean 'text'"),
    ],
)
def test_a_reward_that_needs_what_no_rollout_has(flip: Task, needs: object, says: str) -> None:
    """Case 11: the misnamed column of an own reward."""
    reward = of(1.0)
    reward.needs = needs
    with pytest.raises(RewardError, match="given") as caught:
        RewardSuite([(reward, 1.0)]).check([flip])
    assert says in str(caught.value)


def test_needs_that_are_met_pass(flip: Task) -> None:
    reward = of(1.0)
    reward.needs = ("task.family", "completion.token_ids", "parsed", "prompt_text")
    RewardSuite([(reward, 1.0)]).check([flip])


@pytest.mark.parametrize(
    "count", [lambda n: 1, lambda n: n - 1, lambda n: n + 1, lambda n: 0], ids=["1", "n-1", "n+1", "0"]
)
def test_a_wrong_number_of_values(flip: Task, make_rollout: MakeRollout, count: Callable[[int], int]) -> None:
    """Case 10: 1, n-1 or n+1 values are an error, at the start and at run time."""
    suite = RewardSuite([(Given(lambda n: [0.5] * count(n)), 1.0)])
    with pytest.raises(RewardError, match=f"returned {count(3)} values for 3"):
        suite.check([flip])
    with pytest.raises(RewardError, match=f"returned {count(8)} values for 8"):
        score(suite, [make_rollout()] * 8, 8)


@pytest.mark.parametrize(
    "values", [lambda n: 0.5, lambda n: ["good"] * n, lambda n: [[1.0]] * n, lambda n: None, lambda n: 1 / 0]
)
def test_values_that_are_no_numbers(flip: Task, values: Callable[[int], Any]) -> None:
    with pytest.raises(RewardError, match="'given' failed"):
        RewardSuite([(Given(values), 1.0)]).check([flip])


def test_names_are_unique(flip: Task) -> None:
    with pytest.raises(RewardError, match="two rewards"):
        RewardSuite([(of(1.0), 1.0), (of(0.0), 1.0)])
    with pytest.raises(RewardError, match="taken"):
        RewardSuite([(Given(lambda n: [0.0] * n, "total"), 1.0)])


# Scores ---------------------------------------------------------------------------------------------------------------


def test_parts_and_weights_make_the_total(make_rollout: MakeRollout) -> None:
    section = RewardSection.model_validate(
        {"grid": {"weight": 2.0}, "min_thinking": {"min_tokens": 20, "weight": 0.5, "price": 0.2}}
    )
    scored = score(
        RewardSuite.from_config(section), [make_rollout(RIGHT, tokens=10), make_rollout(SIZED, tokens=30)], 2
    )
    first = scored.scores[0]
    assert first.parts == pytest.approx({"grid": 1.0, "min_thinking": -0.1})
    assert first.weights == {"grid": 2.0, "min_thinking": 0.5}
    assert first.total == pytest.approx(1.95)
    assert scored.rewards == pytest.approx([1.95, 0.2])
    assert scored.advantages == pytest.approx([0.875, -0.875])
    assert scored.metrics["reward/total"] == pytest.approx(1.075)
    assert scored.metrics["reward/grid"] == pytest.approx(0.55)
    assert scored.metrics["reward/min_thinking"] == pytest.approx(-0.05)
    assert scored.metrics["reward/solved_rate"] == 0.5


def test_numpy_values_and_weights_by_name(make_rollout: MakeRollout) -> None:
    suite = RewardSuite([(Given(lambda n: np.arange(n, dtype=np.float32)), -0.5)])
    assert score(suite, [make_rollout()] * 3, 3).rewards == [0.0, -0.5, -1.0]


def test_groups_must_fit(make_rollout: MakeRollout) -> None:
    suite = plain()
    with pytest.raises(RewardError, match="groups of 3"):
        score(suite, [make_rollout()] * 8, 3)
    with pytest.raises(RewardError):
        score(suite, [], 1)
    with pytest.raises(RewardError, match="mixes the prompts 'p' and 'q'"):
        score(suite, [make_rollout(), make_rollout(prompt_id="q")], 2)


def test_an_evaluation_has_no_groups(make_rollout: MakeRollout) -> None:
    scored = plain().score([make_rollout(RIGHT), make_rollout(SIZED, prompt_id="q")], group_size=1, training=False)
    assert scored.advantages == [0.0, 0.0]
    assert not [name for name in scored.metrics if name.startswith(("group/", "advantage/"))]
    assert scored.metrics["reward/solved_rate"] == 0.5


# NaN ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, None, math.inf, -math.inf])
@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_one_nan_among_eight_leaves_its_group(make_rollout: MakeRollout, bad: float | None, scale: Any) -> None:
    """Case 10: one NaN among eight: everything stays finite, and the other seven learn as if it were not there."""
    values: list[float | None] = [1.0, bad, 0.0, 0.1, 0.1, 1.0, 0.0, 0.1]
    others = [float(value) for value in values if value is not bad]
    scored = score(RewardSuite([(of(*values), 1.0)], scale_rewards=scale), [make_rollout()] * 8, 8)
    mean = sum(others) / 7
    assert scored.nan_rows == 1
    assert scored.metrics["reward/nan_rows"] == 1.0
    assert scored.metrics["reward/total"] == pytest.approx(mean)
    assert scored.rewards[1] == scored.scores[1].total == pytest.approx(mean)
    assert scored.advantages[1] == 0.0
    assert scored.scores[1].parts == {}
    assert all(map(math.isfinite, [*scored.rewards, *scored.advantages, *scored.metrics.values()]))
    if scale == "none":
        kept = [advantage for row, advantage in enumerate(scored.advantages) if row != 1]
        assert kept == pytest.approx([value - mean for value in others])


def test_a_nan_in_one_part_takes_the_row_out_of_all(make_rollout: MakeRollout) -> None:
    suite = RewardSuite([(of(1.0, 0.0, 0.5), 1.0), (Given(lambda n: [0.0, math.nan, 0.0][:n], "other"), 1.0)])
    scored = score(suite, [make_rollout()] * 3, 3)
    assert scored.rewards == pytest.approx([1.0, 0.75, 0.5])
    assert scored.scores[1].parts == {"given": 0.0}
    assert scored.metrics["advantage/share_given"] == 1.0
    assert scored.metrics["reward/given"] == pytest.approx(0.5)


def test_a_nan_of_weight_zero_harms_nobody(make_rollout: MakeRollout) -> None:
    suite = RewardSuite([(of(1.0, 0.0), 1.0), (Given(lambda n: [math.nan] * n, "looked_at"), 0.0)])
    scored = score(suite, [make_rollout()] * 2, 2)
    assert scored.nan_rows == 0
    assert scored.rewards == [1.0, 0.0]


def test_a_group_of_nothing_but_nan_is_zeros(make_rollout: MakeRollout) -> None:
    scored = score(RewardSuite([(of(math.nan, math.nan, 1.0, 0.0), 1.0)]), [make_rollout()] * 4, 2)
    assert scored.rewards == [0.0, 0.0, 1.0, 0.0]
    assert scored.advantages == [0.0, 0.0, 0.5, -0.5]


def test_a_whole_batch_of_nan_is_an_error(make_rollout: MakeRollout) -> None:
    """Case 10's other end."""
    with pytest.raises(NonFiniteError, match="given"):
        score(RewardSuite([(Given(lambda n: [math.nan] * n), 1.0)]), [make_rollout()] * 4, 2)


def test_filling_by_hand() -> None:
    filled = fill_from_group(np.array([1, math.nan, 0, 0.2, math.nan, math.nan, 3, 5.0]), 4)
    assert filled == pytest.approx([1, 0.4, 0, 0.2, 4, 4, 3, 5])


@given(st.lists(st.one_of(st.floats(-10, 10), st.just(math.nan)), min_size=8, max_size=8), st.sampled_from([2, 4, 8]))
def test_group_advantages_sum_to_nothing(values: list[float], group_size: int) -> None:
    filled = fill_from_group(np.array(values), group_size)
    advantages = (filled.reshape(-1, group_size) - filled.reshape(-1, group_size).mean(axis=1, keepdims=True)).reshape(
        -1
    )
    assert np.isfinite(filled).all()
    assert np.abs(advantages[~np.isfinite(np.array(values))]).max(initial=0.0) < 1e-9


# Who drives the gradient ----------------------------------------------------------------------------------------------


def test_scaling_is_trls(make_rollout: MakeRollout) -> None:
    """By hand, TRL's formula: (r - mean) / (std + 1e-4), with n - 1; of the group, or of the batch."""
    values = (1.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.2, 0.6)
    rollouts = [make_rollout()] * 8

    def advantages(scale: Any) -> list[float]:
        return score(RewardSuite([(of(*values), 1.0)], scale_rewards=scale), rollouts, 4).advantages

    raw = [0.7, -0.3, -0.2, -0.2, -0.1, -0.1, -0.1, 0.3]
    assert advantages("none") == pytest.approx(raw)
    stds = [math.sqrt((0.49 + 0.09 + 0.04 + 0.04) / 3)] * 4 + [math.sqrt((3 * 0.01 + 0.09) / 3)] * 4
    assert advantages("group") == pytest.approx([r / (std + 1e-4) for r, std in zip(raw, stds, strict=True)])
    whole = math.sqrt(sum((value - 0.3) ** 2 for value in values) / 7)
    assert advantages("batch") == pytest.approx([r / (whole + 1e-4) for r in raw])


def test_shares_by_hand(make_rollout: MakeRollout) -> None:
    """Two groups of two, floor at price 0.1 and L = 10. Group 1: right without thinking (1 - 0.1), sized with it (0.1).
    Group 2: sized with half the thinking (0.1 - 0.05), sized with all (0.1).

    Parts' deviations: grid 0.45 + 0.45 = 0.9, thinking 0.05 + 0.05 + 0.025 + 0.025 = 0.15. Advantages: +-0.4 and
    +-0.025."""
    rollouts = [
        make_rollout(RIGHT, tokens=0),
        make_rollout(SIZED, tokens=10),
        make_rollout(SIZED, tokens=5, prompt_id="q"),
        make_rollout(SIZED, tokens=99, prompt_id="q"),
    ]
    scored = score(plain("floor", min_tokens=10), rollouts, 2)
    assert scored.advantages == pytest.approx([0.4, -0.4, -0.025, 0.025])
    metrics = scored.metrics
    assert metrics["advantage/share_grid"] == pytest.approx(0.9 / 1.05)
    assert metrics["advantage/share_min_thinking"] == pytest.approx(0.15 / 1.05)
    assert metrics["advantage/share_unsolved"] == pytest.approx(0.05 / 0.85)
    assert metrics["group/correct_spread_rate"] == 0.5
    assert metrics["group/no_spread_rate"] == 0.0
    assert metrics["thinking/shortfall_mean"] == pytest.approx(1.5 / 4)


def test_scaling_by_the_group_blows_format_up(make_rollout: MakeRollout) -> None:
    """Why scale_rewards is none by default: unscaled, the unsolved group has 9% of the say; scaled, half of it."""
    rollouts = [
        make_rollout(RIGHT),
        make_rollout(SIZED),
        make_rollout(SIZED, prompt_id="q"),
        make_rollout(FORMED, prompt_id="q"),
    ]
    section = RewardSection.model_validate({"min_thinking": {"mode": "none"}})
    unscaled = score(RewardSuite.from_config(section), rollouts, 2).metrics["advantage/share_unsolved"]
    scaled = score(RewardSuite.from_config(section, scale_rewards="group"), rollouts, 2).metrics[
        "advantage/share_unsolved"
    ]
    assert unscaled == pytest.approx(0.09 / 0.99)
    assert scaled == pytest.approx(0.5, abs=0.001)


def test_a_group_that_differs_in_format_only_has_no_correct_spread(make_rollout: MakeRollout) -> None:
    metrics = score(plain(), [make_rollout(SIZED), make_rollout(FORMED), make_rollout(None)], 3).metrics
    assert metrics["group/no_spread_rate"] == 0.0
    assert metrics["group/correct_spread_rate"] == 0.0
    assert metrics["advantage/share_unsolved"] == 1.0


def test_constant_rewards_are_counted(make_rollout: MakeRollout) -> None:
    """Case 19: groups of one reward teach nothing (and with beta > 0 still push): counted in group/no_spread_rate."""
    rollouts = [make_rollout(RIGHT)] * 2 + [make_rollout(SIZED, prompt_id="q")] * 2
    rollouts += [make_rollout(RIGHT, prompt_id="r"), make_rollout(SIZED, prompt_id="r")]
    scored = score(plain(), rollouts, 2)
    assert scored.metrics["group/no_spread_rate"] == pytest.approx(2 / 3)
    assert scored.advantages[:4] == [0.0] * 4
    constant = score(plain(), rollouts[:4], 2).metrics
    assert constant["group/no_spread_rate"] == 1.0
    assert constant["advantage/share_grid"] == constant["advantage/share_unsolved"] == 0.0


def test_the_state_holds_the_price_alone_of_the_built_in_ones() -> None:
    suite = plain("floor", min_tokens=40)
    assert suite.state_dict() == {"min_thinking": {"price": 0.1, "min_tokens": 40}}
    suite.load_state_dict({"min_thinking": {"price": 0.3, "min_tokens": 40}, "gone": {}})
    assert suite.min_thinking.price == 0.3


# Metrics of completions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "share"),
    [
        ((), 0.0),
        ((1, 2, 3), 0.0),
        ((1, 2, 3, 4, 5), 0.0),
        ((7,) * 8, 0.8),
        ((1, 2, 3, 4) * 2, 0.2),
        ((5,) * 500, 496 / 497),
    ],
)
def test_repetition(ids: tuple[int, ...], share: float) -> None:
    assert repetition(ids) == pytest.approx(share)


@given(st.lists(st.lists(st.one_of(st.integers(0, 2), st.integers(0, 200_000)), max_size=40), max_size=6))
def test_repetition_counts_distinct_4_grams_of_each_row(rows: list[list[int]]) -> None:
    def counted(ids: list[int]) -> float:
        grams = [tuple(ids[start : start + 4]) for start in range(len(ids) - 3)]
        return 1 - len(set(grams)) / len(grams) if grams else 0.0

    assert repetitions(rows) == pytest.approx([counted(ids) for ids in rows])
    assert [repetition(ids) for ids in rows] == pytest.approx(repetitions(rows))


def test_completion_and_thinking_metrics(make_rollout: MakeRollout) -> None:
    rollouts = [
        make_rollout(RIGHT, tokens=40),
        make_rollout(SIZED, thinking="...", tokens=2),
        make_rollout(text="never closed", tokens=0, cut_off=True),
        make_rollout(SIZED, thinking="row " * 100, tokens=100),
    ]
    rollouts = [replace(one, completion=replace(one.completion, token_ids=(1, 2, 3, 4) * 2)) for one in rollouts]
    assert completion_metrics(rollouts) == pytest.approx(
        {"completion/tokens_mean": 8.0, "completion/cut_off_rate": 0.25, "completion/repetition": 0.2}
    )
    metrics = score(plain("floor", min_tokens=80), rollouts, 4).metrics
    assert metrics["thinking/tokens_mean"] == pytest.approx(142 / 4)
    assert metrics["thinking/credited_mean"] == pytest.approx(10.0)
    assert metrics["thinking/degenerate_rate"] == 0.5
    assert metrics["thinking/closed_rate"] == 0.75
    assert metrics["thinking/shortfall_mean"] == pytest.approx((0.5 + 3) / 4)
    assert completion_metrics([]) == {}


def test_the_rollout_knows_its_truth(make_rollout: MakeRollout) -> None:
    assert make_rollout(RIGHT).solved
    assert not make_rollout(SIZED).solved
    assert make_rollout().truth == Grid([[2, 1], [4, 3]])
