"""The drawing reward."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from arcslim.config import GridRewardSection, MinThinkingSection, RewardSection
from arcslim.rewards.base import Rollout
from arcslim.rewards.drawing import DrawingReward
from arcslim.rewards.registry import load_reward, parse_reward_spec
from arcslim.rewards.suite import RewardSuite
from arcslim.tasks.drawing import DrawingLimits
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

MakeRollout = Callable[..., Rollout]
EXAMPLE = Pair(Grid([[0]]), Grid([[1]]))
ROW = Task("row", "draw", "row", (EXAMPLE,), (Pair(Grid([[0, 0], [0, 0]]), Grid([[1, 1], [0, 0]])),))


def program(*lines: str) -> str:
    return "\n".join(["def task(img):", *(f"    {line}" for line in lines), "    return img"])


@pytest.mark.parametrize(
    ("text", "paid"),
    [
        (program("img = draw_horizontal_line(img, y=0, color=1)"), 1.0),
        (program("img = draw_horizontal_line(img, y=1, color=1)"), 0.0),
        (program("img = draw_horizontal_line(img, y=0, color=2)"), 0.5),
        (program("img = draw_pixel(img, point=(0, 1), color=1)"), 0.75),
        (program(), 0.5),
        (program("img = create_img(shape=(3, 3), color=1)"), 0.0),
        (program("img = create_img(shape=(2, 2), color=1)"), 0.5),
        (program("import os"), 0.0),
        ("import os", 0.0),
        ("", 0.0),
        ("11\n00", 0.0),
    ],
)
def test_what_is_paid(make_rollout: MakeRollout, text: str, paid: float) -> None:
    wrapped = (text, f"so it is</think>\n\n{text}", f"```python\n{text}\n```")
    assert DrawingReward()([make_rollout(text=form, task=ROW) for form in wrapped]) == [paid] * 3


def test_a_program_of_the_thinking_pays_nothing(make_rollout: MakeRollout) -> None:
    right = program("img = draw_horizontal_line(img, y=0, color=1)")
    assert DrawingReward()([make_rollout(text=f"{right}</think>no", task=ROW)]) == [0.0]


def test_limits_and_hidden_truths(make_rollout: MakeRollout) -> None:
    right = program("img = draw_horizontal_line(img, y=0, color=1)")
    assert DrawingReward(DrawingLimits(max_bytes=20))([make_rollout(text=right, task=ROW)]) == [0.0]
    hidden = Task("row", "draw", "row", (EXAMPLE,), (Pair(Grid([[0]]), None),))
    assert DrawingReward()([make_rollout(text=right, task=hidden)]) == [0.0]


def test_it_is_named_like_any_own_reward(make_rollout: MakeRollout) -> None:
    reward = load_reward(parse_reward_spec("arcslim.rewards.drawing:DrawingReward"))
    assert reward == DrawingReward() == pickle.loads(pickle.dumps(reward))  # noqa: S301
    section = RewardSection(
        extra=("arcslim.rewards.drawing:DrawingReward",),
        grid=GridRewardSection(weight=0.0),
        min_thinking=MinThinkingSection(mode="none"),
    )
    suite = RewardSuite.from_config(section)
    suite.check([ROW])
    half, whole = program(), program("img = draw_horizontal_line(img, y=0, color=1)")
    scored = suite.score([make_rollout(text=text, task=ROW) for text in (half, whole)], group_size=2, training=True)
    assert scored.rewards == [0.5, 1.0]
    assert scored.metrics["reward/drawing"] == 0.75
