"""Rollouts as tests need them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.prompts.render import chat_text
from arcslim.rewards.base import Rollout
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

MakeRollout = Callable[..., Rollout]
HONEST = "Rule: flip left to right. Row 1: 12 -> 21. Row 2: 34 -> 43."


@pytest.fixture
def flip() -> Task:
    """Flip left to right; the test's truth is 21/43."""
    train = (Pair(Grid([[1, 5, 0], [0, 2, 2]]), Grid([[0, 5, 1], [2, 2, 0]])),
             Pair(Grid([[7, 0], [8, 1], [6, 6]]), Grid([[0, 7], [1, 8], [6, 6]])))  # fmt: skip
    return Task("flip-1", "made", "flip", train, (Pair(Grid([[1, 2], [3, 4]]), Grid([[2, 1], [4, 3]])),))


@pytest.fixture
def make_rollout(flip: Task) -> MakeRollout:
    """``make_rollout(answer="21/43", thinking=HONEST, tokens=None, prompt_id="p")``: parsed from text, as in a run."""

    def make(
        answer: str | None = "21/43",
        thinking: str = HONEST,
        tokens: int | None = None,
        prompt_id: str = "p",
        text: str | None = None,
        task: Task = flip,
        cut_off: bool = False,
    ) -> Rollout:
        if text is None:
            block = "" if answer is None else "<answer>\n" + answer.replace("/", "\n") + "\n</answer>"
            text = f"{thinking}\n</think>\n{block}"
        parsed = parse(text)
        count = len(parsed.thinking.split()) if tokens is None else tokens
        ids = tuple(text.encode("utf-8", "surrogatepass"))
        return Rollout(prompt_id, task, Completion(text, ids, cut_off), parsed, count, chat_text(task, "compact"))

    return make
