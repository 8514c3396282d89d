"""``Prompt``, ``Completion`` and ``Parsed``: what goes into a model, what comes out, and what was understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from arcslim.tasks.grid import Grid

Reason = Literal[
    "no_thinking_close",  # the thinking was never closed: nothing after it counts
    "no_answer",  # no complete <answer> block after the thinking
    "not_a_grid",  # the block holds no digits, or something else beside them
    "ragged",
    "empty",
    "too_large",
]


@dataclass(frozen=True)
class Prompt:
    """``text`` is what the tokenizer is given; ``prefill`` is its tail, which opens the thinking (``<think>\\n``)."""

    prompt_id: str
    task_id: str
    messages: tuple[dict[str, str], ...]
    text: str
    prefill: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Completion:
    """``text`` is decoded with the end token left out; ``cut_off`` means that no end token came."""

    text: str
    token_ids: tuple[int, ...]
    cut_off: bool


@dataclass(frozen=True)
class Parsed:
    """``thinking`` is the closed thinking, "" where there is none. Of ``answer`` and ``reason`` exactly one is None."""

    thinking: str
    answer: Grid | None
    reason: Reason | None
