"""The loop's small parts."""

from __future__ import annotations

import pytest

from arcslim.config import Config
from arcslim.her_config import HerSection
from arcslim.recipes.her import replay, why_it_ends
from arcslim.recipes.her_learner import warmed_up
from arcslim.recipes.her_state import HerState


def test_the_rate_warms_up_over_a_tenth_of_an_epoch() -> None:
    assert [warmed_up(update, 20, 0.1) for update in (0, 1, 2, 19)] == [0.5, 1.0, 1.0, 1.0]
    assert warmed_up(0, 5, 0.1) == 1.0  # a tenth of five is no update
    assert warmed_up(0, 20, 0.0) == 1.0


@pytest.mark.parametrize(
    ("state", "her", "reason"),
    [
        (HerState(solved_at=7), {}, "solved"),
        (HerState(generations=30), {"max_generations": 100, "samplers": ("71@1",)}, "her.max_generations = 100"),
        (HerState(epoch=3), {"max_epochs": 3}, "her.max_epochs = 3"),
        (HerState(dry=2), {"patience": 2}, "her.patience = 2"),
    ],
)
def test_what_ends_a_run(state: HerState, her: dict[str, object], reason: str) -> None:
    ended = why_it_ends(state, Config(her=HerSection.model_validate(her)))
    assert ended is not None and ended.startswith(reason)


def test_a_budget_is_never_passed() -> None:
    her = HerSection(max_generations=100, samplers=("70@1",))
    assert why_it_ends(HerState(generations=30), Config(her=her)) is None
    assert why_it_ends(HerState(generations=31), Config(her=her)) is not None


def test_a_run_with_no_time_left_ends_before_its_limit() -> None:
    config = Config()
    config = config.model_copy(update={"run": config.run.model_copy(update={"max_hours": 1.0})})
    assert why_it_ends(HerState(epoch=10, seconds=3000.0), config) is None
    assert str(why_it_ends(HerState(epoch=10, seconds=3400.0), config)).startswith("run.max_hours")


def test_replay_gives_earlier_programs_with_their_own_images() -> None:
    import numpy as np

    from arcslim.tasks.targets import target

    source = "def task(img):\n    img = draw_pixel(img, point=(0, 0), color=3)\n    return img\n"
    state = HerState(errors={source: 50.0})
    for kind in ("uniform", "lap"):
        (pair,) = replay(state, target("4-squares").blank, HerSection(replay=kind), np.random.default_rng(0))
        assert pair.image.sum() == 3 and pair.image.shape == target("4-squares").shape
    assert replay(state, target("4-squares").blank, HerSection(), np.random.default_rng(0)) == []


def test_what_was_not_learned_from_may_come_again() -> None:
    """A loss that is not finite changed nothing, and would break the priorities of a replay."""
    import numpy as np

    from arcslim.recipes.hindsight import Pair
    from arcslim.tasks.drawing import Call, Program

    blank = np.zeros((2, 2), dtype=np.int8)
    pairs = tuple(Pair.of(Program((Call("draw_pixel", (0, column, 3)),)), blank) for column in (0, 1))
    state = HerState()
    state.trained(pairs, (float("nan"), 2.5), keep=True)
    assert len(state.seen) == 1 and list(state.errors.values()) == [2.5]
