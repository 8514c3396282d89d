"""The watch: each sign once, at its onset, in words."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from arcslim.config import WatchSection
from arcslim.recipes.watch import START_ROLLOUTS, Finding, Watch

HEALTHY = {
    "completion/cut_off_rate": 0.05,
    "thinking/tokens_mean": 100.0,
    "completion/repetition": 0.1,
    "group/no_spread_rate": 0.2,
    "group/correct_spread_rate": 0.6,
    "policy/entropy": 1.0,
}
SIGNS = [
    ("cut_off", "completion/cut_off_rate", 0.8, "max_completion_length"),
    ("thinking", "thinking/tokens_mean", 30.0, "min_thinking"),
    ("repetition", "completion/repetition", 0.7, "best checkpoint"),
    ("spread", "group/no_spread_rate", 0.95, "num_generations"),
    ("entropy", "policy/entropy", 0.3, "entropy_coef_max"),
]


def watch(**section: Any) -> Watch:
    return Watch(WatchSection(**{"patience": 3, **section}))


def run(one: Watch, rollouts: int, **changed: float) -> list[Finding]:
    names = {name.replace("/", "_"): name for name in HEALTHY}
    metrics = HEALTHY | {names[key]: value for key, value in changed.items()}
    return [finding for _ in range(rollouts) for finding in one.observe(metrics)]


def key(metric: str) -> str:
    return metric.replace("/", "_")


def test_a_healthy_run_is_left_in_peace() -> None:
    assert run(watch(), 50) == []


@pytest.mark.parametrize(("sign", "metric", "value", "remedy"), SIGNS)
def test_each_sign_is_told_once_after_patience(sign: str, metric: str, value: float, remedy: str) -> None:
    one = watch()
    assert run(one, START_ROLLOUTS) == []
    assert run(one, 2, **{key(metric): value}) == []
    (finding,) = run(one, 1, **{key(metric): value})
    assert (finding.sign, finding.action) == (sign, "warn")
    assert remedy in finding.words
    assert run(one, 20, **{key(metric): value}) == []


@pytest.mark.parametrize(("sign", "metric", "value", "remedy"), SIGNS)
def test_a_sign_that_comes_back_is_told_again(sign: str, metric: str, value: float, remedy: str) -> None:
    one = watch()
    run(one, START_ROLLOUTS)
    changed = {key(metric): value}
    assert len(run(one, 5, **changed)) == 1
    assert run(one, 1) == run(one, 2, **changed) == []
    assert [finding.sign for finding in run(one, 5, **changed)] == [sign]


@pytest.mark.parametrize(("sign", "metric", "value", "remedy"), SIGNS)
def test_stop_and_ignore(sign: str, metric: str, value: float, remedy: str) -> None:
    for reaction, expected in (("stop", ["stop"]), ("ignore", [])):
        one = watch(**{sign: reaction})
        run(one, START_ROLLOUTS)
        assert [finding.action for finding in run(one, 9, **{key(metric): value})] == expected


def test_one_good_rollout_ends_a_streak() -> None:
    one = watch()
    run(one, START_ROLLOUTS)
    for _ in range(10):
        assert run(one, 2, completion_cut_off_rate=0.9) == []
        assert run(one, 1) == []


def test_every_completion_cut_off_is_told_at_once() -> None:
    """Case 14: a warning that nothing was learned, in the first such rollout; stopping takes patience."""
    one = watch(cut_off="stop")
    (finding,) = run(one, 1, completion_cut_off_rate=1.0)
    assert (finding.sign, finding.action) == ("all_cut_off", "warn")
    assert "nothing was learned" in finding.words
    assert [later.action for later in run(one, 5, completion_cut_off_rate=1.0)] == ["stop"]
    assert run(watch(cut_off="ignore"), 9, completion_cut_off_rate=1.0) == []


def test_groups_of_one_reward_are_told_and_so_is_what_beta_then_does() -> None:
    """Case 19: a constant reward with beta > 0 still pushes."""
    for beta, pull in ((0.0, False), (0.04, True)):
        one = Watch(WatchSection(patience=2), beta=beta)
        (finding,) = run(one, 4, group_no_spread_rate=1.0)
        assert finding.sign == "spread"
        assert "100% of groups" in finding.words
        assert ("grpo.beta 0.04" in finding.words) == pull


def test_groups_that_do_not_differ_in_correctness_are_told_at_the_start_only() -> None:
    one = watch()
    findings = run(one, START_ROLLOUTS, group_correct_spread_rate=0.1)
    assert [finding.sign for finding in findings] == ["correct_spread"]
    assert "10%" in findings[0].words
    assert run(one, 30, group_correct_spread_rate=0.0) == []
    late = watch()
    assert run(late, START_ROLLOUTS) == run(late, 30, group_correct_spread_rate=0.0) == []
    assert run(watch(spread="ignore"), 9, group_correct_spread_rate=0.0) == []


def test_thinking_that_was_short_from_the_start_is_no_collapse() -> None:
    assert run(watch(), 50, thinking_tokens_mean=3.0) == []
    assert run(watch(), 50, thinking_tokens_mean=0.0) == []


def test_metrics_may_come_in_several_calls_or_not_at_all() -> None:
    one = watch()
    run(one, START_ROLLOUTS)
    found = []
    for _ in range(3):
        found += one.observe({"completion/cut_off_rate": 0.9})
        found += one.observe({"policy/entropy": 0.1, "loss": 3.0})
        found += one.observe({"completion/cut_off_rate": math.nan})
    assert [finding.sign for finding in found] == ["cut_off", "entropy"]


def test_a_resumed_watch_goes_on_where_it_was() -> None:
    whole = watch()
    run(whole, 3, policy_entropy=2.0)
    again = watch()
    again.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    both = [whole, again]
    for one in both:
        run(one, 2, policy_entropy=2.0)
        assert one.start_of("policy/entropy") == 2.0
        one.entropy_coef(0.001)
        run(one, 2, policy_entropy=0.5)
    after = watch()
    after.load_state_dict(json.loads(json.dumps(again.state_dict())))
    assert [finding.sign for finding in run(after, 1, policy_entropy=0.5)] == ["entropy"]
    assert run(after, 5, policy_entropy=0.5) == []
    assert after.entropy_coef(0.001) == pytest.approx(0.0014)


def test_the_entropy_coefficient_rises_and_comes_back() -> None:
    one = watch()
    assert one.entropy_coef(0.0) == 0.0
    run(one, START_ROLLOUTS)
    coefficient, seen = 0.0, []
    for _ in range(15):
        run(one, 1, policy_entropy=0.4)
        coefficient = one.entropy_coef(coefficient)
        seen.append(coefficient)
    assert seen[0] == pytest.approx(0.0005)
    assert seen == sorted(seen)
    assert seen[-1] == 0.005
    run(one, 1, policy_entropy=0.55)  # back, but not clearly
    assert one.entropy_coef(coefficient) == coefficient
    for _ in range(15):
        run(one, 1, policy_entropy=0.9)
        coefficient = one.entropy_coef(coefficient)
    assert coefficient == 0.0


def test_the_entropy_coefficient_stays_where_it_may_not_move() -> None:
    for section in ({"entropy_coef_max": 0.0}, {"entropy": "ignore"}, {"entropy_coef_max": 0.002}):
        one = watch(**section)
        run(one, START_ROLLOUTS)
        run(one, 5, policy_entropy=0.1)
        assert one.entropy_coef(0.002) == 0.002
