"""A completion's text becomes ``Parsed``: what was thought, the answer grid, and the reason when there is none.

The prompt already ends in ``<think>``, so a completion starts inside the thinking, whether or not it writes the opener
again. From there the four tags are read once, from left to right:

- ``</think>`` ends the thinking; ``<answer>`` blocks in it do not count. A further ``<think>`` opens another block of
  thinking, under the same rules.
- An orphan ``</think>`` (one that closes nothing) makes thinking of the text since the closer before it. That is how a
  template with an empty block, then the reasoning, then a closer of its own is read. It is passed over as a stray
  where that text holds a complete answer, unless nothing was thought before and there is more than answers in it:
  then it is reasoning with a draft.
- Of the complete ``<answer>…</answer>`` blocks outside all thinking the last one counts, be it a grid or not. A closer
  belongs to the nearest opener before it. Openers and closers left over are passed over.
- The thinking is every closed block before the answer that counts (all of them, where none does), joined by a newline.
  What was thought after the answer cannot have helped it. Thinking that is never closed is no thinking.

Whatever stands around the answer block costs nothing: a right 30 x 30 answer with 2,000 more characters behind it is a
right answer, and pays 1.0. Endless talk shows in ``completion/cut_off_rate``, which is watched.

Linear in the length of the text: ``str.find`` for the tags and one pass over the answer; no regular expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from arcslim.prompts.nouns import Parsed, Reason
from arcslim.tasks.grid import MAX_SIDE, Grid

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
_TAGS = (THINK_OPEN, THINK_CLOSE, ANSWER_OPEN, ANSWER_CLOSE)
_GRID_CHARACTERS = dict.fromkeys(map(ord, "0123456789 \t\r\n"))


def parse(text: str) -> Parsed:
    """What a completion says. Never raises, whatever the text.

    >>> parse("flip it\\n</think>\\n<answer>\\n12\\n34\\n</answer>")
    Parsed(thinking='flip it', answer=Grid(2x2), reason=None)
    >>> parse("it is <answer>7</answer> I think</think> so that is it")
    Parsed(thinking='it is <answer>7</answer> I think', answer=None, reason='no_answer')
    """
    scan = _Scan(text)
    for position, tag in _tags(text):
        scan.read(position, tag)
    if not scan.blocks:
        return Parsed("", None, "no_thinking_close")
    found = scan.answer or scan.settled
    if found is None:
        return Parsed(_joined(scan.blocks), None, "no_answer")
    thinking = _joined(scan.blocks[: found.blocks_before])
    grid = parse_grid(text[found.start : found.stop])
    return Parsed(thinking, grid, None) if isinstance(grid, Grid) else Parsed(thinking, None, grid)


def parse_grid(text: str) -> Grid | Reason:
    """The grid that a text holds and nothing else, or the reason why it is none.

    One line a row, its cells ASCII digits: ``777`` or ``7 7 7``, blanks around the lines allowed, empty lines between
    them not. ``77 7`` is neither form. Reasons: ``empty``, ``not_a_grid``, ``too_large`` (over 30), ``ragged``.
    """
    text = text.strip()
    if not text:
        return "empty"
    # str.isdigit would let '٣' and '³' through
    if not text.isascii() or text.translate(_GRID_CHARACTERS):
        return "not_a_grid"
    lines = text.split("\n")
    if len(lines) > MAX_SIDE:
        return "too_large"
    rows = []
    for line in lines:
        if line.isdigit():
            rows.append(line)
            continue
        cells = line.split()
        row = "".join(cells)
        if not row or (len(cells) > 1 and len(cells) != len(row)):
            return "not_a_grid"
        rows.append(row)
    widths = set(map(len, rows))
    if max(widths) > MAX_SIDE:
        return "too_large"
    if len(widths) > 1:
        return "ragged"
    digits = np.frombuffer("".join(rows).encode("ascii"), dtype=np.uint8)
    return Grid(digits.reshape(len(rows), -1) - ord("0"))


@dataclass(frozen=True, slots=True)
class _Answer:
    """``text[start:stop]`` is what stands in the block; ``blocks_before`` counts the closed thinking before it."""

    start: int
    stop: int
    blocks_before: int


@dataclass(slots=True)
class _Scan:
    """Where the reading of the tags stands. A stretch is what lies between two ends of thinking."""

    text: str
    blocks: list[str] = field(default_factory=list)  # closed thinking
    thought: bool = False  # a block that says something was closed
    inside: bool = True  # in thinking: the prompt opened it
    since: int = 0  # where this stretch begins
    opened: int | None = None  # where an answer block that may still be closed begins
    answer: _Answer | None = None  # the last complete one of this stretch
    settled: _Answer | None = None  # the last complete one of the stretches before
    looked: int = 0  # how far this stretch was searched for text beside its answers
    beside: bool = False  # there is such text

    def read(self, position: int, tag: str) -> None:
        end = position + len(tag)
        if tag == THINK_CLOSE:
            self._close_thinking(position, end)
        elif self.inside:
            return
        elif tag == THINK_OPEN:
            self.settled = self.answer or self.settled
            self._begin(inside=True, since=end)
        elif tag == ANSWER_OPEN:
            self.opened = position
        elif self.opened is not None:
            self._look_beside(self.opened, end)
            self.answer = _Answer(self.opened + len(ANSWER_OPEN), position, len(self.blocks))
            self.opened = None

    def _close_thinking(self, position: int, end: int) -> None:
        if not self.inside and self.answer is not None:
            self._look_beside(position, end)
            if self.thought or not self.beside:  # a stray
                self.opened = None
                return
        block = _without_opener(self.text, self.since, position)
        self.blocks.append(block)
        self.thought = self.thought or bool(block)
        self._begin(inside=False, since=end)

    def _begin(self, *, inside: bool, since: int) -> None:
        self.inside, self.since, self.looked = inside, since, since
        self.opened, self.answer, self.beside = None, None, False

    def _look_beside(self, stop: int, resume: int) -> None:
        self.beside = self.beside or bool(self.text[self.looked : stop].strip())
        self.looked = resume


def _tags(text: str) -> Iterator[tuple[int, str]]:
    """Every tag and its position, in order. Each tag is searched for once through the text."""
    beyond = len(text)
    found = [beyond if (at := text.find(tag)) < 0 else at for tag in _TAGS]
    while (position := min(found)) < beyond:
        which = found.index(position)
        tag = _TAGS[which]
        yield position, tag
        at = text.find(tag, position + len(tag))
        found[which] = beyond if at < 0 else at


def _without_opener(text: str, start: int, stop: int) -> str:
    """The thinking between two positions, with blanks around it and openers at its start taken off."""
    while True:
        while start < stop and text[start].isspace():
            start += 1
        if not text.startswith(THINK_OPEN, start, stop):
            return text[start:stop].rstrip()
        start += len(THINK_OPEN)


def _joined(blocks: list[str]) -> str:
    return "\n".join(block for block in blocks if block)
