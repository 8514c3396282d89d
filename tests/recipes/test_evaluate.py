"""Evaluation: its figures from made completions, and pass@k against counting it out."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcslim.recipes.evaluate as module
from arcslim.config import GenerationSection
from arcslim.prompts.nouns import Completion
from arcslim.recipes.evaluate import evaluate, pass_at_k
from tests.recipes.made import prepared_with_tiny


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(case: tuple[int, int, int]) -> None:
    samples, right, k = case
    draws = list(combinations([True] * right + [False] * (samples - right), k))
    assert pass_at_k(samples, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@pytest.mark.parametrize("k", [0, 5])
def test_k_beyond_the_samples_is_refused(k: int) -> None:
    with pytest.raises(ValueError):
        pass_at_k(4, 1, k)


def test_figures_of_made_completions(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks, four samples each: of the first two are right, of the second none; one has no answer and is cut off,
    one never thinks."""
    prepared, policy = prepared_with_tiny()
    asked = prepared.held["select"][:2]

    def completion(grid: str, *, thinking: str = "change 6 to 2", cut_off: bool = False) -> Completion:
        text = thinking if cut_off else f"{thinking}\n</think>\n\n<answer>\n{grid}\n</answer>"
        return Completion(text, (7,) * (20 if cut_off else 10), cut_off)

    def truth(number: int) -> str:
        output = asked[number].task.test[0].output
        assert output is not None
        return "\n".join("".join(map(str, row)) for row in output.rows())

    right, wrong = completion(truth(0)), completion("0")
    drawn = [[right, wrong, right, wrong], [wrong, wrong, completion("0", thinking=""), completion("", cut_off=True)]]
    seen: dict[str, Any] = {}

    def generate(*arguments: Any, **named: Any) -> list[list[Completion]]:
        seen.update(named, prompts=arguments[1])
        return drawn

    monkeypatch.setattr(module, "generate", generate)
    evaluation = evaluate(policy, asked, GenerationSection(), samples=4, batch=8, seed=5, prefix="test")
    values = evaluation.values
    assert seen["prompts"] == [one.prompt.token_ids for one in asked]
    assert (seen["samples"], seen["batch"], seen["seed"]) == (4, 8, 5)
    assert values["test/pass@1"] == 2 / 8 and values["test/pass@4"] == 1 / 2
    assert values["test/n"] == 2 and values["test/cut_off_rate"] == 1 / 8 and values["test/answered_rate"] == 7 / 8
    assert values["test/completion_tokens_mean"] == pytest.approx((7 * 10 + 20) / 8)
    thinking = len(policy.tokenizer("change 6 to 2", add_special_tokens=False)["input_ids"])
    assert values["test/thinking_tokens_mean"] == pytest.approx(thinking * 6 / 8), "unclosed thinking is none"
    assert values["test/thinking_tokens_solved"] == thinking
    assert [rollout.task for rollout in evaluation.rollouts] == [asked[0].task] * 4 + [asked[1].task] * 4
