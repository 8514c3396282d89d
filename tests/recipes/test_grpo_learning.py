"""Learning, and not just coming to an end: the preset `canary`, and the same with rewards of chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.made import CHANCE, Folder, arcslim


def run_canary(path: Path, *sets: str) -> tuple[float, float]:
    """How much the mean reward rose from the first five steps to the last five, and pass@1 from start to end."""
    words = [word for one in sets for word in ("--set", one)]
    assert arcslim("grpo", "--preset", "canary", "--run-dir", path, *words) == 0
    run = Folder(path)
    rewards = [run.values("train", step)["reward/total"] for step in range(1, 21)]
    solved = [run.values("eval", step)["eval/pass@1"] for step in (0, 20)]
    return (sum(rewards[-5:]) - sum(rewards[:5])) / 5, solved[1] - solved[0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_canary_learns(stack: Path, tmp_path: Path) -> None:
    """Five steps are 160 completions of 40 tasks: the difference of two such means has a standard error of about 0.06
    in reward; on the 24 held-out tasks, the same with the same draws, of about 0.06 as well."""
    reward, solved = run_canary(tmp_path / "run")
    assert reward > 0.1
    assert solved > 0.2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_rewards_of_chance_teach_nothing(stack: Path, tmp_path: Path) -> None:
    """The control: what rises here rises without a reason."""
    reward, solved = run_canary(tmp_path / "run", *CHANCE)
    assert abs(reward) < 0.2, "half of the coins, whatever the policy does"
    assert solved < 0.15
