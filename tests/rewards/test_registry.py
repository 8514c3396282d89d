"""Own rewards by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arcslim.errors import RewardError
from arcslim.rewards.control import RandomReward
from arcslim.rewards.registry import RewardSpec, load_reward, parse_reward_spec, reward_name

SOURCE = """
def lengths(rollouts):
    return [float(len(rollout.completion.text)) for rollout in rollouts]

class Short:
    name = "short"
    def __call__(self, rollouts):
        return [0.0 for _ in rollouts]

class Needy:
    name = "needy"
    def __init__(self, scale):
        self.scale = scale
    def __call__(self, rollouts):
        return [self.scale for _ in rollouts]

class Nameless:
    def __call__(self, rollouts):
        return [0.0 for _ in rollouts]

class Badly:
    name = "bad name/x"
    __call__ = Nameless.__call__

made = Needy(2.0)
number = 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the working directory that is not installed; yields its name."""
    (tmp_path / "own_rewards_of_a_test.py").write_text(SOURCE)
    (tmp_path / "broken_rewards_of_a_test.py").write_text("import module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sys.path", [path for path in __import__("sys").path if path not in ("", str(tmp_path))])
        yield "own_rewards_of_a_test"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("a:B", RewardSpec("a", "B", 1.0)),
        ("a.b.c:D=0.5", RewardSpec("a.b.c", "D", 0.5)),
        (" a:b.c = -2 ", RewardSpec("a", "b.c", -2.0)),
    ],
)
def test_specs(text: str, spec: RewardSpec) -> None:
    assert parse_reward_spec(text) == spec


@pytest.mark.parametrize(
    "text", ["", "grid", "a:", ":B", "a/b.py:C", "a:B=", "a:B=x", "a:B=nan", "a:B=inf", "a:B:C", "a..b:C"]
)
def test_specs_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(RewardError, match=r"package\.module:Name"):
        parse_reward_spec(text)


@pytest.mark.parametrize(
    ("attribute", "name"), [("lengths", "lengths"), ("Short", "short"), ("made", "needy")]
)  # fmt: skip
def test_functions_classes_and_objects_serve(own: str, attribute: str, name: str) -> None:
    reward = load_reward(RewardSpec(own, attribute, 1.0))
    assert reward_name(reward) == name
    assert len(reward([])) == 0


def test_one_of_ours() -> None:
    assert load_reward(parse_reward_spec("arcslim.rewards.control:RandomReward")) == RandomReward()


@pytest.mark.parametrize(
    ("module", "attribute", "says"),
    [
        ("no_such_module_at_all", "X", "No module named 'no_such_module_at_all'"),
        ("broken_rewards_of_a_test", "X", "No module named 'module_that_is_not_there'"),
        ("own_rewards_of_a_test", "Shrt", "Short"),
        ("own_rewards_of_a_test", "Needy", "without arguments"),
        ("own_rewards_of_a_test", "number", "cannot be called"),
        ("own_rewards_of_a_test", "Nameless", "name"),
        ("own_rewards_of_a_test", "Badly", "bad name/x"),
    ],
)
def test_what_cannot_be_used_is_said(own: str, module: str, attribute: str, says: str) -> None:
    with pytest.raises(RewardError) as caught:
        load_reward(RewardSpec(module, attribute, 1.0))
    assert says in str(caught.value)
