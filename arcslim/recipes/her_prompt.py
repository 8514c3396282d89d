"""How HER asks for a drawing, and what it trains on: token ids of a prompt and of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from arcslim.prompts.drawing import compact_text, drawing_messages
from arcslim.tasks.drawing import Image, Program


class DrawingPrompts:
    """Token ids for one tokenizer and one style. The program follows the prompt at once: there is no thinking."""

    def __init__(self, tokenizer: Any, style: Literal["compact", "chat"]) -> None:
        self._tokenizer, self._style = tokenizer, style

    def text(self, blank: Image, image: Image) -> str:
        """The question for the program that makes ``image`` of ``blank``."""
        if self._style == "compact":
            return compact_text(blank, image)
        messages = drawing_messages(blank, image)
        rendered = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return str(rendered)

    def ids(self, blank: Image, image: Image) -> list[int]:
        """Token ids of the question."""
        return self.many_ids([(blank, image)])[0]

    def program_ids(self, program: Program) -> list[int]:
        """The program as a model writes it, with the end token."""
        return self.many_program_ids([program])[0]

    def many_ids(self, pairs: Sequence[tuple[Image, Image]]) -> list[list[int]]:
        """Token ids of the questions for pairs of a blank image and an image."""
        return self._encode([self.text(blank, image) for blank, image in pairs])

    def many_program_ids(self, programs: Sequence[Program]) -> list[list[int]]:
        """Each program as a model writes it, with the end token."""
        end = int(self._tokenizer.eos_token_id)
        return [[*ids, end] for ids in self._encode([program.to_source() for program in programs])]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(ids) for ids in self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]
