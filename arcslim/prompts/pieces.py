"""Token ids as the text that each of them stands for, and the part that each plays in training: what a preview shows.

The ids are the truth: what is shown is decoded from them, never taken from the text that they were made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arcslim.tasks.task import Task

Role = Literal["prompt", "prefill", "trained"]
_BROKEN = "\N{REPLACEMENT CHARACTER}"  # what half of a character decodes to
_LONGEST = 8  # tokens that may share one character; more of them are no character at all


@dataclass(frozen=True)
class Piece:
    """Some text and its token, or its tokens where a character lies across several.

    ``role``: ``prompt`` (read, no loss), ``prefill`` (its tail, which opens the thinking) or ``trained`` (gets loss).
    """

    text: str
    ids: tuple[int, ...]
    role: Role


@dataclass(frozen=True)
class Example:
    """A prompt or a row as training gets it. ``task``: where it is one's. ``facts``: further figures, in words.

    ``follows``: what training puts behind the last piece, in words; "" where nothing does.
    """

    name: str
    source: str
    pieces: tuple[Piece, ...]
    task: Task | None = None
    facts: tuple[str, ...] = ()
    follows: str = ""

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token for piece in self.pieces for token in piece.ids)

    def count(self, *roles: Role) -> int:
        """How many tokens have one of these roles."""
        return sum(len(piece.ids) for piece in self.pieces if piece.role in roles)


def as_pieces(tokenizer: Any, ids: Sequence[int], trained: Sequence[bool], prefill: str) -> tuple[Piece, ...]:
    """``ids`` with their text and role. ``trained``: whether each gets loss. ``prefill``: how the prompt's text ends.

    A token of which only a part lies in the prefill counts to it.
    """
    prompt_length = next((i for i, gets_loss in enumerate(trained) if gets_loss), len(ids))
    prompt = list(_decoded(tokenizer, ids[:prompt_length]))
    opened = len(prompt)
    covered = 0
    while opened and covered < len(prefill):
        opened -= 1
        covered += len(prompt[opened][0])
    pieces = [Piece(text, some, "prompt" if i < opened else "prefill") for i, (text, some) in enumerate(prompt)]
    at = prompt_length
    for text, some in _decoded(tokenizer, ids[prompt_length:]):
        pieces.append(Piece(text, some, "trained" if all(trained[at : at + len(some)]) else "prompt"))
        at += len(some)
    return tuple(pieces)


def _decoded(tokenizer: Any, ids: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each token's text: what it adds to the token before it, for some tokenizers drop a space at the start."""
    before: list[int] = []
    left = [int(token) for token in ids]
    while left:
        known = _text(tokenizer, before)
        size = next(
            (
                size
                for size in range(1, min(_LONGEST, len(left)) + 1)
                if not _text(tokenizer, before + left[:size]).endswith(_BROKEN)
            ),
            1,
        )
        now, left = left[:size], left[size:]
        yield _text(tokenizer, before + now)[len(known) :], tuple(now)
        before = now


def _text(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)) if ids else ""
