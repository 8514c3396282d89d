"""What a preview shows of token ids is those ids, and nothing of their text is lost."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.prompts.pieces import Example, as_pieces
from arcslim.prompts.render import PREFILL
from tests.real_tokenizers import NAMES, real_tokenizer


@cache
def known(name: str) -> Any:
    return real_tokenizer(name)


def decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


@pytest.mark.parametrize("name", NAMES)
def test_roles_follow_the_labels_and_the_prefill_is_the_end_of_the_prompt(name: str) -> None:
    tokenizer = known(name)
    prompt = tokenizer(f"Solve: 707\n{PREFILL}", add_special_tokens=False)["input_ids"]
    answer = tokenizer("Rule: mirror.\n</think>", add_special_tokens=False)["input_ids"]
    pieces = as_pieces(tokenizer, [*prompt, *answer], [False] * len(prompt) + [True] * len(answer), PREFILL)
    text = {role: "".join(p.text for p in pieces if p.role == role) for role in ("prompt", "prefill", "trained")}
    assert text["trained"] == "Rule: mirror.\n</think>"
    assert text["prefill"].endswith(PREFILL) and len(text["prefill"]) <= len(PREFILL) + 1
    example = Example("row", "made", pieces)
    assert example.ids == (*prompt, *answer)
    assert example.count("trained") == len(answer)
    assert example.count("prompt", "prefill") == len(prompt)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_whose_completion_was_cut_away_whole_has_a_prefill_and_nothing_trained(name: str) -> None:
    tokenizer = known(name)
    prompt = tokenizer(f"7\n{PREFILL}", add_special_tokens=False)["input_ids"]
    pieces = as_pieces(tokenizer, prompt, [False] * len(prompt), PREFILL)
    assert {piece.role for piece in pieces} == {"prompt", "prefill"}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40), prompt=st.text(max_size=20))
def test_any_text_comes_back_whole_and_no_half_character_is_shown(name: str, text: str, prompt: str) -> None:
    tokenizer = known(name)
    before = tokenizer(prompt + PREFILL, add_special_tokens=False)["input_ids"]
    after = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = as_pieces(tokenizer, [*before, *after], [False] * len(before) + [True] * len(after), PREFILL)
    assert [token for piece in pieces for token in piece.ids] == [*before, *after]
    assert "".join(p.text for p in pieces if p.role == "trained") == decoded(tokenizer, after)
    assert "".join(p.text for p in pieces if p.role != "trained") == decoded(tokenizer, before)


def test_a_character_of_several_tokens_is_one_piece() -> None:
    tokenizer = known("tiny")
    ids = tokenizer("a🦜b", add_special_tokens=False)["input_ids"]
    pieces = as_pieces(tokenizer, ids, [True] * len(ids), PREFILL)
    assert "🦜" in [piece.text for piece in pieces]
    assert max(len(piece.ids) for piece in pieces) > 1
