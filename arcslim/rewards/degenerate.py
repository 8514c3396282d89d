"""Thinking that is none: empty, invisible, a placeholder, one thing over and over, or the prompt pasted again.

Grids are repetitive and belong into honest thinking, so plain compressibility would punish the very thing that is
wanted. The check therefore has two stages. The first, a few microseconds, asks whether the whole text looks suspicious.
Only then the second takes out what is honest *working memory*: one copy of the test input, and one of the true output
(a draft of the answer), row by row, in any of the usual spellings. The rest must stand on its own.

What counts as degenerate, with examples (``tests/rewards/test_degenerate.py`` holds them):

==============  ========================================================================================================
``empty``       nothing but white space
``invisible``   more than 10% of the characters are invisible (zero-width, fillers, controls of direction, …)
``placeholder`` no letter or digit at all (``...``, ``-----``), or only words of ``PLACEHOLDERS``: ``thinking here``,
                ``Let me think step by step.``
``repeated``    of at least 8 words at most 25% of the 4-grams are distinct (``row`` 500 times: 1 of 497; a paragraph of
                40 words ten times: 10%; ``Row 1: 123 -> 321. Row 2: 456 -> 654.``: 100%); or it compresses to under 8%
                (``0`` 500 times: 3%; English prose: 40%); or half of it is one endless word (over 30 characters of at
                most 3 kinds); or letters and digits are under 20% of it
``pasted``      at least 80% of it are lines of the prompt (or parts of its sentences), and with them either 40% of the
                example grids' cells or a sentence of 40 characters came back: headings over the test grid are no paste
==============  ========================================================================================================

Short honest thinking is never ``repeated``: under 8 words, and under 128 characters without an endless word, nothing
is measured. ``Rule: flip left to right.`` counts as the handful of tokens that it is.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from arcslim.prompts.render import base_text, chat_text
from arcslim.prompts.text import GridFormat
from arcslim.tasks.grid import MAX_SIDE
from arcslim.tasks.task import Task

Degenerate = Literal["empty", "invisible", "placeholder", "repeated", "pasted"]

MAX_INVISIBLE = 0.10
NGRAM = 4
MIN_WORDS = 8
MIN_DISTINCT = 0.25
MIN_COMPRESSED = 0.08
MIN_BYTES = 128
MIN_VISIBLE = 0.20
MAX_ENDLESS = 0.5
ENDLESS_KINDS = 3
MAX_PASTED = 0.8
PASTED_CELLS = 0.4
SENTENCE = 40

_SAY_NOTHING = """
a an and answer begin by careful carefully do done empty first goes go here hmm i in is it its lets let me my n
na need no none nothing now ok okay of omitted on placeholder problem process reason reasoning s so solution
solve some start step steps tbd text the then think thinking this thought thoughts through to todo um well we
will
"""
PLACEHOLDERS = frozenset(_SAY_NOTHING.split())

# Soft hyphen, joiners, fillers, zero-width and direction marks, variation selectors, blank braille, private use,
# tags, lone surrogates. Ranges are written out: asking unicodedata about each code point would cost half a second.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_WORD = re.compile(r"[^\W_]+")
_BETWEEN_CELLS = re.compile(r"(?<=[0-9])(?:, | |,)(?=[0-9])")


def why_degenerate(thinking: str, task: Task, prompt_text: str = "") -> Degenerate | None:
    """Why ``thinking`` counts for nothing, or None where it counts. Linear in its length; never raises."""
    text = thinking
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
        if len(thinking) - len(text) > MAX_INVISIBLE * len(thinking):
            return "invisible"
    if not text or text.isspace():
        return "empty"
    if _is_placeholder(text):
        return "placeholder"
    words = text.split()
    if _looks_repeated(text, words) and _is_repeated(text, task):
        return "repeated"
    prompt_text = prompt_text or _rendered(task)
    if _looks_pasted(text, prompt_text) and _is_pasted(text, task, prompt_text):
        return "pasted"
    return None


def _is_placeholder(text: str) -> bool:
    """Whether no word says anything. The first word of honest thinking mostly settles it."""
    first = _WORD.search(text)
    if first is not None and first.group().lower() not in PLACEHOLDERS:
        return False
    return all(match.group().lower() in PLACEHOLDERS for match in _WORD.finditer(text))


# Repetition ----------------------------------------------------------------------------------------------------------


def distinct_share(items: Sequence[object], n: int = NGRAM) -> float:
    """The share of the n-grams that are distinct; 1 where there are fewer than n items."""
    total = len(items) - n + 1
    return 1.0 if total <= 0 else len(set(zip(*[items[k:] for k in range(n)], strict=False))) / total


def compressed_share(text: str) -> float:
    """Compressed by original size in bytes. A small window (4 KiB) and little memory: a tenth of zlib's usual cost."""
    data = text.encode("utf-8", "surrogatepass")
    if not data:
        return 1.0
    packer = zlib.compressobj(1, zlib.DEFLATED, -12, 4)
    return (len(packer.compress(data)) + len(packer.flush())) / len(data)


def _looks_repeated(text: str, words: list[str]) -> bool:
    """Whether the text as a whole repeats itself. Counting distinct words clears most texts without the costly looks:
    each begins a 4-gram of its own, and takes about a byte at least when compressed."""
    kinds = set(words)
    if max(map(len, kinds)) > MAX_SIDE:
        return True
    distinct = len(kinds)
    if (
        len(words) >= MIN_WORDS
        and distinct - NGRAM < MIN_DISTINCT * len(words)
        and distinct_share(words) <= MIN_DISTINCT
    ):
        return True
    return len(text) >= MIN_BYTES and distinct < MIN_COMPRESSED * len(text) and compressed_share(text) < MIN_COMPRESSED


def _is_repeated(text: str, task: Task) -> bool:
    words = _WORD.findall(_BETWEEN_CELLS.sub("", text))
    if sum(map(len, words)) < MIN_VISIBLE * len(text):
        return True
    rest = _without(words, _working_memory(task))
    if not rest:
        return False
    length = sum(map(len, rest))
    if sum(len(word) for word in rest if _is_endless(word)) > MAX_ENDLESS * length:
        return True
    if len(rest) >= MIN_WORDS and distinct_share(rest) <= MIN_DISTINCT:
        return True
    return length >= MIN_BYTES and compressed_share(" ".join(rest)) < MIN_COMPRESSED


def _is_endless(word: str) -> bool:
    return len(word) > MAX_SIDE and len(set(word)) <= ENDLESS_KINDS


def _working_memory(task: Task) -> Counter[str]:
    """The rows of the test input and of the true output, compact, each as often as it occurs; and each whole grid as
    one word, as it is when written in a line."""
    grids = [_rows(grid.rows()) for grid in (task.test[0].input, task.test[0].output) if grid is not None]
    return Counter(word for rows in grids for word in (*rows, "".join(rows)))


def _rows(rows: Iterable[Iterable[int]]) -> list[str]:
    return ["".join(map(str, row)) for row in rows]


def _without(items: Iterable[str], budget: Counter[str]) -> list[str]:
    """The items that the budget does not cover. Uses the budget up."""
    rest = []
    for item in items:
        if budget.get(item, 0) > 0:
            budget[item] -= 1
        else:
            rest.append(item)
    return rest


# The prompt pasted again ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _lines_of(prompt_text: str) -> frozenset[str]:
    return frozenset(_lines(prompt_text))


def _lines(text: str) -> list[str]:
    return [stripped for line in text.split("\n") if (stripped := line.strip())]


def _rendered(task: Task) -> str:
    """What the prompt may have been where it is not handed in: every style of it."""
    if any(pair.output is None for pair in task.train):
        return "\n".join(_example_rows(task))
    styles: tuple[GridFormat, ...] = ("compact", "spaced")
    return "\n".join(text(task, style) for style in styles for text in (chat_text, base_text))


def _example_rows(task: Task) -> list[str]:
    grids = [grid for pair in task.train for grid in (pair.input, pair.output) if grid is not None]
    return [row for grid in grids for row in _rows(grid.rows())]


def _looks_pasted(text: str, prompt_text: str) -> bool:
    known = _lines_of(prompt_text)
    lines = _lines(text)
    pasted = sum(len(line) for line in lines if line in known or _is_part_of_a_sentence(line, prompt_text))
    return pasted >= MAX_PASTED / 2 * sum(map(len, lines))


def _is_part_of_a_sentence(line: str, prompt_text: str) -> bool:
    # its beginning is looked for first: a long needle is slow to look for
    return (
        len(line) >= SENTENCE
        and line[:SENTENCE] in prompt_text
        and line in prompt_text
        and not _compact(line).isdigit()
    )


def _is_pasted(text: str, task: Task, prompt_text: str) -> bool:
    rest = _without(map(_compact, _lines(text)), _working_memory(task))
    examples = _example_rows(task)
    rows = frozenset(examples)
    spoken = frozenset(map(_compact, _lines_of(prompt_text))) - rows
    cells = sum(len(line) for line in rest if line in rows)
    said = [line for line in rest if line in spoken or _is_part_of_a_sentence(line, prompt_text)]
    if cells + sum(map(len, said)) < MAX_PASTED * sum(map(len, rest)):
        return False
    return (cells > 0 and cells >= PASTED_CELLS * sum(map(len, examples))) or any(
        len(line) >= SENTENCE for line in said
    )


def _compact(line: str) -> str:
    return _BETWEEN_CELLS.sub("", line)
