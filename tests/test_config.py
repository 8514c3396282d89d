"""The schema: defaults that hold together, and sections that refuse what they do not know."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from arcslim.checks import check
from arcslim.config import Config, GrpoSection, OptimSection
from arcslim.fields import FIELDS, SECTIONS, suggest


def test_the_defaults_hold_together_and_raise_no_doubt() -> None:
    problems, warnings = check(Config(), dict.fromkeys(FIELDS, "default"))
    assert problems == []
    assert warnings == []


def test_a_section_refuses_unknown_keys_and_changes() -> None:
    with pytest.raises(ValidationError, match="learnign_rate"):
        OptimSection.model_validate({"learnign_rate": 1e-5})
    with pytest.raises(ValidationError, match="frozen"):
        OptimSection().learning_rate = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_number_that_is_no_rate_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        OptimSection(learning_rate=value)


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(ValidationError):
        GrpoSection(num_generations=1)


def test_the_table_of_knobs_knows_nested_sections() -> None:
    assert "reward.min_thinking.mode" in FIELDS
    assert "reward.min_thinking" in SECTIONS
    assert not set(FIELDS) & set(SECTIONS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optim.learnign_rate", "optim.learning_rate"),
        ("grpo.learnign_rate", "optim.learning_rate"),
        ("grpo.learning_rate", "optim.learning_rate"),
        (
            "learning_rate",
            "sft.learning_rate` or `her.base.learning_rate` or `her.learning_rate` or `optim.learning_rate",
        ),
        ("optimizer.learning_rate", "optim.learning_rate"),
        ("reward.grid.wieght", "reward.grid.weight"),
        ("reward.min_thinking.wieght", "reward.min_thinking.weight"),
        ("generation.num_generations", "grpo.num_generations"),
        ("modle.name", "model.name"),
        ("sft.lr", "sft.learning_rate"),
        ("optim.lr", "optim.learning_rate"),
        ("sft.epochs", "sft.num_train_epochs"),
        ("zzz.qqqqq", None),
    ],
)
def test_a_slip_is_led_to_the_right_place(typed: str, meant: str | None) -> None:
    assert suggest(typed) == meant
