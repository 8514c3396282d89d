"""How many tokens HER's questions and programs have at most, by their text: no tokenizer is loaded to plan."""

from __future__ import annotations

import math
import re

from arcslim.her_config import BaseSection, HerSection

TEMPLATE = 64  # tokens that a chat template puts around one turn, at most
LETTERS = 6  # of a word that are a token, on average at least; all else is a token a character
LARGEST = ("draw_rectangle", 5)  # the call with the most numbers, and how many


def most_tokens(text: str) -> int:
    """A bound for Qwen's tokenizer and the tiny models', held by a test on every target that has a name."""
    words = re.findall(r" ?[A-Za-z]+|[^A-Za-z]", text)
    return sum(math.ceil(len(word.strip()) / LETTERS) or 1 for word in words)


def question_tokens(her: HerSection) -> int:
    """Tokens of the question for ``her.target``, at most. Raises InputError where it cannot be read."""
    from arcslim.tasks.targets import target

    wanted = target(her.target)
    return _question(wanted.blank, wanted.image, her.prompt)


def drawing_tokens(base: BaseSection) -> tuple[int, int]:
    """Tokens of a question and of a program of ``her pretrain``, at most: the largest sides, the most calls."""
    import numpy as np

    from arcslim.tasks.drawing import Call, Program

    side = base.max_side
    image = np.zeros((side, side), dtype=np.int8)
    image[0, 0] = 1  # an image of one colour would be written shorter
    name, numbers = LARGEST
    program = Program((Call(name, (side - 1,) * numbers),) * base.max_draws)
    return _question(np.zeros_like(image), image, base.prompt), most_tokens(program.to_source()) + 1


def _question(blank: object, image: object, style: str) -> int:
    from arcslim.prompts.drawing import compact_text, drawing_messages

    if style == "compact":
        return most_tokens(compact_text(blank, image))  # type: ignore[arg-type]
    return most_tokens(drawing_messages(blank, image)[0]["content"]) + TEMPLATE  # type: ignore[arg-type]
