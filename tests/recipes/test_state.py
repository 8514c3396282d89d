"""What a run knows besides weights, through its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arcslim.config import MinThinkingSection, RewardSection, WatchSection
from arcslim.errors import RunFolderError
from arcslim.recipes.state import LOSS, STATE_FILE, RunState
from arcslim.recipes.watch import Watch
from arcslim.rewards.suite import RewardSuite


def fresh(price: float = 0.1) -> RunState:
    section = RewardSection(min_thinking=MinThinkingSection(min_tokens=0, price=price))
    return RunState(parts={"suite": RewardSuite.from_config(section), "watch": Watch(WatchSection())})


def suite_of(state: RunState) -> RewardSuite:
    suite = state.parts["suite"]
    assert isinstance(suite, RewardSuite)
    return suite


def watch_of(state: RunState) -> Watch:
    watch = state.parts["watch"]
    assert isinstance(watch, Watch)
    return watch


def test_everything_comes_back(tmp_path: Path) -> None:
    state = fresh(price=0.25)
    suite_of(state).set_min_tokens(33)
    state.improve(0.5, 4)
    state.improve(0.4, 6)
    state.seconds, state.entropy_coef, state.evaluated_step = 12.5, 1e-3, 6
    state.start = {"a": 1.0}
    for rate in (0.9, 0.95):
        watch_of(state).observe({"completion/cut_off_rate": rate, "thinking/tokens_mean": 40.0})
    state.save(tmp_path)
    other = fresh()
    other.load(tmp_path)
    for name in ("suite", "watch"):
        assert other.parts[name].state_dict() == state.parts[name].state_dict() != fresh().parts[name].state_dict()
    for name in ("best", "best_step", "stale", "seconds", "start", "entropy_coef", "evaluated_step"):
        assert getattr(other, name) == getattr(state, name) != getattr(fresh(), name), name
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


def test_the_earlier_of_two_equals_stays_the_best() -> None:
    state = fresh()
    assert [state.improve(value, step) for step, value in enumerate((0.1, 0.3, 0.3, 0.2, 0.4))] == [
        True, True, False, False, True,
    ]  # fmt: skip
    assert (state.best, state.best_step, state.stale) == (0.4, 4, 0)


def test_the_lowest_loss_is_the_best() -> None:
    state = RunState(LOSS)
    state.start = {"eval/loss": 0.35}
    assert [state.improve(value, step) for step, value in enumerate((0.5, 0.4, 0.45))] == [True, True, False]
    assert not state.beats_start and state.stale == 3
    assert state.improve(0.3, 3) and state.beats_start and (state.best_step, state.stale) == (3, 0)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", json.dumps({"parts": {"suite": {}, "watch": {}}})])
def test_a_file_that_is_not_ours_is_an_error_with_a_way_out(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / STATE_FILE).write_text(content)
    with pytest.raises(RunFolderError, match="cannot be read") as caught:
        fresh().load(tmp_path)
    assert caught.value.hint


def test_a_better_loss_breaks_a_tie() -> None:
    """A policy that solves nothing yet may be learning all the same: its last checkpoint is the best, and not stale."""
    state = RunState()
    state.start = {"eval/pass@1": 0.0}
    assert [state.improve(0.0, step, loss) for step, loss in ((1, 0.9), (2, 0.7), (3, 0.8))] == [True, True, False]
    assert (state.best_step, state.stale) == (2, 1)


def test_what_is_no_number_is_never_the_best() -> None:
    state = RunState(LOSS)
    assert [state.improve(value, step) for step, value in enumerate((float("nan"), 0.5, float("inf")))] == [
        False, True, False,
    ]  # fmt: skip
    assert state.best == 0.5
