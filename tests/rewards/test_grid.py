"""The grid reward."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from arcslim.prompts.text import grid_to_text
from arcslim.rewards.base import Rollout
from arcslim.rewards.control import RandomReward
from arcslim.rewards.grid import GridReward
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

MakeRollout = Callable[..., Rollout]


@pytest.mark.parametrize(
    ("answer", "graded", "of_format"),
    [
        ("21/43", 1.0, 1.0),
        ("21/44", 0.1, 0.1),
        ("213", 0.01, 0.1),
        ("7", 0.01, 0.1),
        ("2x", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_the_worked_example(
    make_rollout: MakeRollout, answer: str | None, graded: float, of_format: float
) -> None:  # fmt: skip
    rollout = make_rollout(answer)
    assert GridReward()([rollout]) == [graded]
    assert GridReward("format")([rollout]) == [of_format]


def test_closer_only_and_the_full_form_score_the_same(make_rollout: MakeRollout) -> None:
    """Case 1: the template wrote the opener; a completion that repeats it and one that does not pay the same."""
    rest = "flip it</think><answer>21\n43</answer>"
    assert GridReward()([make_rollout(text=rest), make_rollout(text="<think>\n" + rest)]) == [1.0, 1.0]


def test_two_blocks_a_draft_and_a_grid_only_in_the_thinking(make_rollout: MakeRollout) -> None:
    """Case 6: the corrected grid pays, a grid inside the thinking does not."""
    corrected = make_rollout(text="t</think><answer>21\n44</answer> no: <answer>21\n43</answer>")
    spoilt = make_rollout(text="t</think><answer>21\n43</answer> no: <answer>21\n44</answer>")
    inside = make_rollout(text="t <answer>21\n43</answer></think>")
    assert GridReward()([corrected, spoilt, inside]) == [1.0, 0.1, 0.0]


def test_a_right_answer_with_2000_characters_behind_it_pays_in_full(make_rollout: MakeRollout) -> None:
    """Case 8: a right 30 x 30 answer followed by 2,000 more characters pays 1.0, cut off or not."""
    grid = Grid([[(row * column) % 10 for column in range(30)] for row in range(30)])
    task = Task("large", "made", "large", (Pair(grid, grid),), (Pair(grid, grid),))
    text = f"t</think><answer>{grid_to_text(grid, 'compact')}</answer>" + "and so on " * 200
    for cut_off in (False, True):
        assert GridReward()([make_rollout(text=text, task=task, cut_off=cut_off)]) == [1.0]


@pytest.mark.parametrize("reward", [GridReward(), GridReward("format"), RandomReward(3)])
def test_pickles(make_rollout: MakeRollout, reward: GridReward | RandomReward) -> None:
    rollouts = [make_rollout("21/43"), make_rollout("7"), make_rollout(None)]
    again = pickle.loads(pickle.dumps(reward))  # noqa: S301
    assert again == reward
    assert again(rollouts) == reward(rollouts)


def test_the_random_reward_is_a_fair_coin_that_knows_nothing(make_rollout: MakeRollout) -> None:
    rollouts = [make_rollout("21/43" if number % 2 else None, prompt_id=f"p{number // 8}") for number in range(800)]
    coins = RandomReward()(rollouts)
    assert set(coins) == {0.0, 1.0}
    assert 340 < sum(coins) < 460
    assert abs(sum(coins[::2]) - sum(coins[1::2])) < 60
    assert RandomReward()(rollouts) == coins != RandomReward(1)(rollouts)
