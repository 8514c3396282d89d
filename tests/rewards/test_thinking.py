"""The four modes of min_thinking, and the price of the floor."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from arcslim.config import GridRewardSection, MinThinkingSection, RewardSection
from arcslim.errors import RewardError
from arcslim.prompts.nouns import Completion, Parsed
from arcslim.rewards.base import Rollout, local_mean
from arcslim.rewards.suite import RewardSuite
from arcslim.rewards.thinking import MinThinkingReward, measure_min_tokens
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

MakeRollout = Callable[..., Rollout]
SQUARE, WRONG = Grid([[1, 2], [3, 4]]), Grid([[1, 2], [3, 5]])
TASK = Task("t", "made", "t", (Pair(SQUARE, SQUARE),), (Pair(SQUARE, SQUARE),))
WORDS = "Rule: nothing changes, every cell stays where it is."


def rollout(answer: Grid | None, tokens: int, thinking: str = WORDS) -> Rollout:
    reason = None if answer is not None else "no_answer"
    return Rollout("p", TASK, Completion("", (1, 2), False), Parsed(thinking, answer, reason), tokens, "Find it.")


def suite(**min_thinking: Any) -> RewardSuite:
    return RewardSuite.from_config(RewardSection(min_thinking=MinThinkingSection(**min_thinking)))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", [1, 1, 1, 0.1, 0.1]),
        ("bonus", [1.1, 1.025, 1, 0.2, 0.1]),
        ("gate", [1, 0.625, 0.5, 0.1, 0.1]),
        ("floor", [1, 0.925, 0.9, 0.1, 0]),
    ],
)
def test_the_worked_example(mode: str, expected: list[float]) -> None:
    rollouts = [rollout(SQUARE, 150), rollout(SQUARE, 25), rollout(SQUARE, 0), rollout(WRONG, 150), rollout(WRONG, 0)]
    scored = suite(mode=mode, min_tokens=100).score(rollouts, group_size=5, training=False)
    assert scored.rewards == pytest.approx(expected)
    assert [score.total for score in scored.scores] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mode", "spread"), [("none", False), ("bonus", True), ("gate", False), ("floor", True)]
)  # fmt: skip
def test_a_group_in_which_nothing_is_solved(mode: str, spread: bool) -> None:
    """As the module's table says: bonus and floor set lengths apart, the others do not."""
    rollouts = [rollout(WRONG, 150), rollout(WRONG, 10), rollout(WRONG, 60), rollout(WRONG, 0)]
    metrics = suite(mode=mode, min_tokens=100).score(rollouts, group_size=4, training=False).metrics
    assert metrics["group/no_spread_rate"] == (0.0 if spread else 1.0)
    assert metrics["advantage/share_unsolved"] == (1.0 if spread else 0.0)


def test_once_the_floor_holds_only_the_answer_pays() -> None:
    rollouts = [rollout(WRONG, 150), rollout(SQUARE, 100), rollout(WRONG, 400), rollout(WRONG, 101)]
    metrics = suite(mode="floor", min_tokens=100).score(rollouts, group_size=4, training=False).metrics
    assert metrics["advantage/share_min_thinking"] == 0.0
    assert metrics["advantage/share_grid"] == 1.0


@pytest.mark.parametrize("mode", ["bonus", "gate", "floor"])
@pytest.mark.parametrize("thinking", ["", " \n ", "...", "row " * 500, "\u200b" * 500, "1 2\n3 4\n" * 90])
def test_degenerate_thinking_earns_as_none(mode: str, thinking: str) -> None:
    """Case 5: 500 tokens of nothing pay what no thinking pays."""
    reward = MinThinkingReward(MinThinkingSection(mode=mode, min_tokens=100))  # type: ignore[arg-type]
    pair = [rollout(SQUARE, 500, thinking), rollout(SQUARE, 0, "")]
    assert len(set(reward(pair))) == 1
    assert reward([rollout(SQUARE, 500)]) != reward(pair[:1])


def test_the_whole_prompt_pasted_again_earns_as_none(make_rollout: MakeRollout) -> None:
    """Case 5, and its other side: copying the test grid alone is paid."""
    reward = MinThinkingReward(MinThinkingSection(mode="floor", min_tokens=10))
    prompt = make_rollout().prompt_text
    assert reward([make_rollout(thinking=prompt, tokens=300)]) == [-0.1]  # its own tags cut it after a sentence
    grids = prompt[prompt.index("Example 1") :]
    assert reward([make_rollout(thinking=grids, tokens=300)]) == [-0.1]
    assert reward([make_rollout(thinking="12\n34", tokens=10)]) == [0.0]


def test_thinking_that_was_never_closed_counts_for_nothing(make_rollout: MakeRollout) -> None:
    reward = MinThinkingReward(MinThinkingSection(mode="floor", min_tokens=10))
    assert reward([make_rollout(text="Rule: flip it left to right, row by row", tokens=50)]) == [-0.1]


@pytest.mark.parametrize("mode", ["none", "bonus", "gate", "floor"])
def test_closer_only_and_the_full_form_pay_the_same(make_rollout: MakeRollout, mode: str) -> None:
    """Case 1."""
    reward = MinThinkingReward(MinThinkingSection(mode=mode, min_tokens=40))  # type: ignore[arg-type]
    rest = "flip it left to right</think><answer>21\n43</answer>"
    values = reward([make_rollout(text=rest), make_rollout(text="<think>\n" + rest)])
    assert values[0] == values[1]


@settings(max_examples=300)
@given(data=st.data(), mode=st.sampled_from(["none", "bonus", "gate", "floor"]))
def test_a_short_right_answer_beats_a_long_wrong_one(data: st.DataObject, mode: str) -> None:
    """Over everything that the configuration lets through, weights included."""
    share = st.floats(0, 1)
    try:
        section = RewardSection(
            grid=GridRewardSection(
                weight=data.draw(st.floats(0.01, 100)), variant=data.draw(st.sampled_from(["graded", "format"]))
            ),
            min_thinking=MinThinkingSection(
                mode=mode,  # type: ignore[arg-type]
                weight=data.draw(st.one_of(st.floats(0, 3), st.floats(0, 200))),
                min_tokens=data.draw(st.integers(1, 4_000)),
                bonus=data.draw(st.floats(0, 0.5)),
                gate_min=data.draw(st.floats(0, 1)),
                price=data.draw(st.floats(0, 0.4)),
                price_max=data.draw(st.floats(0, 0.4)),
                price_step=data.draw(st.floats(0, 10)),
                target_shortfall=data.draw(share),
            ),
        )
    except ValidationError:
        assume(False)
    made = RewardSuite.from_config(section)
    short = [rollout(SQUARE, tokens) for tokens in (0, data.draw(st.integers(0, 5_000)))]
    long = [rollout(answer, data.draw(st.integers(0, 5_000))) for answer in (WRONG, Grid([[7]]), None)]
    for _ in range(3):  # the price moves in between
        totals = made.score([*short, *long], group_size=5, training=True).rewards
        assert min(totals[:2]) > max(totals[2:])
        made.score([rollout(None, 0)] * 4, group_size=4, training=True)


@pytest.mark.parametrize(
    "section",
    [
        {"min_thinking": {"mode": "floor", "weight": 2.5}},
        {"min_thinking": {"mode": "gate", "gate_min": 0.1}},
        {"min_thinking": {"mode": "gate", "gate_min": 0.2, "weight": 1.1}},
        {"min_thinking": {"mode": "bonus", "bonus": 0.5, "weight": 2}},
        {"grid": {"weight": 0}, "min_thinking": {"mode": "floor"}},
        {"min_thinking": {"mode": "floor", "price": 0.3, "price_max": 0.2}},
    ],
)
def test_what_could_break_that_is_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RewardSection.model_validate(section)


def test_random_rewards_can_be_run_with_the_mode_none() -> None:
    RewardSection.model_validate({"grid": {"weight": 0}, "min_thinking": {"mode": "none"}})


# The price ------------------------------------------------------------------------------------------------------------


def test_the_price_moves_as_in_the_worked_example() -> None:
    made = suite(mode="floor", min_tokens=100)
    made.score([rollout(SQUARE, 55)] * 4, group_size=4, training=True)
    assert made.min_thinking.price == pytest.approx(0.12)
    made = suite(mode="floor", min_tokens=100)
    made.score([rollout(SQUARE, 300)] * 4, group_size=4, training=True)
    assert made.min_thinking.price == pytest.approx(0.0975)


def test_a_batch_is_scored_at_the_price_before_it_moves_it() -> None:
    made = suite(mode="floor", min_tokens=100, price_step=1.0)
    scored = made.score([rollout(SQUARE, 0)] * 2, group_size=2, training=True)
    assert scored.rewards == pytest.approx([0.9, 0.9])
    assert scored.metrics["thinking/price"] == 0.1
    assert made.min_thinking.price == 0.4


def test_the_price_rests_in_evaluations_and_before_the_minimum_is_known() -> None:
    made = suite(mode="floor", min_tokens=100)
    made.score([rollout(SQUARE, 0)] * 2, group_size=1, training=False)
    assert made.min_thinking.price == 0.1
    unmeasured = suite(mode="floor")
    scored = unmeasured.score([rollout(SQUARE, 0), rollout(SQUARE, 90)], group_size=2, training=True)
    assert scored.rewards == [1.0, 1.0]
    assert unmeasured.min_thinking.price == 0.1
    assert "thinking/price" not in scored.metrics
    unmeasured.set_min_tokens(90)
    assert unmeasured.score([rollout(SQUARE, 0)] * 2, group_size=2, training=True).rewards == [0.9, 0.9]
    with pytest.raises(RewardError):
        unmeasured.set_min_tokens(0)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.floats(0, 5), st.floats(0, 1))
def test_the_price_stays_within_its_bounds(lengths: list[int], step: float, target: float) -> None:
    made = suite(mode="floor", min_tokens=100, price_step=step, target_shortfall=target, price_max=0.3)
    for tokens in lengths:
        made.score([rollout(SQUARE, tokens)], group_size=1, training=True)
        assert 0.0 <= made.min_thinking.price <= 0.3


def test_the_mean_is_over_all_processes_and_taken_once_a_rollout() -> None:
    calls: list[tuple[float, int]] = []

    def two_processes(total: float, count: int) -> float:
        calls.append((total, count))
        return local_mean(total + 3.0, count + 4)  # the other one: four rollouts, shortfall 0.75 each

    section = RewardSection(min_thinking=MinThinkingSection(mode="floor", min_tokens=100, price_step=0.1))
    made = RewardSuite.from_config(section, reduce_mean=two_processes)
    made.score([rollout(SQUARE, 75)] * 4, group_size=2, training=True)
    assert calls == [(1.0, 4)]
    assert made.min_thinking.price == pytest.approx(0.1 + 0.1 * (0.5 - 0.05))
    made.score([rollout(SQUARE, 75)] * 4, group_size=2, training=False)
    assert len(calls) == 1


def test_the_price_survives_a_checkpoint() -> None:
    made = suite(mode="floor")
    made.set_min_tokens(80)
    made.score([rollout(SQUARE, 0)] * 2, group_size=2, training=True)
    again = suite(mode="floor")
    again.load_state_dict(made.state_dict())
    assert (again.min_thinking.price, again.min_thinking.min_tokens) == (made.min_thinking.price, 80)
    given_now = suite(mode="floor", min_tokens=50)
    given_now.load_state_dict(made.state_dict())
    assert given_now.min_thinking.min_tokens == 50


@pytest.mark.parametrize("mode", ["none", "bonus", "gate", "floor"])
def test_pickles(mode: str) -> None:
    reward = MinThinkingReward(MinThinkingSection(mode=mode, min_tokens=70))  # type: ignore[arg-type]
    reward.price = 0.23
    again = pickle.loads(pickle.dumps(reward))  # noqa: S301
    rollouts = [rollout(SQUARE, 10), rollout(WRONG, 50), rollout(None, 90)]
    assert again(rollouts) == reward(rollouts)
    assert again.state_dict() == reward.state_dict()


# Measuring the minimum ------------------------------------------------------------------------------------------------


def test_the_minimum_is_half_the_median_of_the_solved() -> None:
    measured = measure_min_tokens([rollout(SQUARE, 40), rollout(SQUARE, 60), rollout(SQUARE, 200), rollout(WRONG, 999)])
    assert measured is not None
    assert measured.min_tokens == 30
    assert "3 solved rollouts" in measured.words


def test_where_nothing_is_solved_it_says_on_what_it_measured() -> None:
    measured = measure_min_tokens([rollout(WRONG, 40), rollout(None, 80), rollout(WRONG, 50, "...")])
    assert measured is not None
    assert measured.min_tokens == 30
    assert "nothing was solved" in measured.words
    assert measure_min_tokens([rollout(WRONG, 50, "...")]) is None
