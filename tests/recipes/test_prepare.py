"""Config → tasks → prompts, before any weight is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from arcslim.errors import DataError, ModelError
from arcslim.prompts.nouns import Prompt
from arcslim.recipes.prepare import prepare, string_prompt
from tests.policy.made import byte_tokenizer
from tests.recipes.made import prepared_with_tiny, small_config, tiny_tokenizer


def test_sets_are_apart_and_each_row_can_be_read_back(stack: Path) -> None:
    prepared, _ = prepared_with_tiny()
    assert (len(prepared.train), len(prepared.held["select"])) == (12, 4) and set(prepared.held) == {"select"}
    train, held = ({one.task.test[0].input for one in side} for side in (prepared.train, prepared.held["select"]))
    assert not train & held
    for one in (*prepared.train, *prepared.held["select"]):
        row = one.row
        output = one.task.test[0].output
        assert output is not None and row["task"]["test"][0]["output"] == output.rows()
        assert row["prompt"].endswith("<think>\n") and row["prompt"] == one.prompt.text
    assert prepared.longest == max(len(one.prompt.token_ids) for one in prepared.train)


def test_case_17_prompts_that_are_too_long_are_left_out_and_counted() -> None:
    """Case 17: left out, counted in the source's row, and none of the rest is over the limit."""
    tokenizer = tiny_tokenizer()
    everything = prepare(small_config("data.max_side=6"), tokenizer)
    limit = sorted(len(one.prompt.token_ids) for one in everything.train)[len(everything.train) // 2]
    some = prepare(small_config("data.max_side=6", f"prompt.max_tokens={limit}"), tokenizer)
    assert everything.too_long == 0 < some.too_long
    assert some.longest <= limit and len(some.train) == 12
    (counts,) = some.split.counts.values()
    assert counts["read"] == sum(number for reason, number in counts.items() if reason != "read")
    with pytest.raises(DataError):
        prepare(small_config("prompt.max_tokens=60"), tokenizer)


def _prompt(text: str, ids: Sequence[int]) -> Prompt:
    return Prompt("p", "t", (), text, "<think>\n", tuple(ids))


def test_the_text_for_trl_gives_the_prompt_s_own_ids() -> None:
    """TRL tokenises the text itself, and adds what the tokenizer adds to any text: R1's opening token would double."""
    plain = byte_tokenizer(eos_token="<|im_end|>", pad_token="<|endoftext|>")
    text = "<|im_start|>user\n12\n34<|im_end|>\n<think>\n"
    prompt = _prompt(text, plain(text)["input_ids"])
    assert string_prompt(prompt, plain) == text

    from tokenizers import processors

    opening = byte_tokenizer(eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token="<|fim_pad|>")
    number = opening.bos_token_id
    opening.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|fim_pad|> $A", special_tokens=[("<|fim_pad|>", number)]
    )
    opened = "<|fim_pad|>" + text
    ids = tuple(opening(opened, add_special_tokens=False)["input_ids"])
    assert ids[0] == number and ids[1] != number
    assert string_prompt(_prompt(opened, ids), opening) == text

    with pytest.raises(ModelError, match="adds special tokens"):
        string_prompt(prompt, opening)
