"""SFT rows as token ids and labels: what exactly is trained on, and how long it is.

The prompt's ids are those of inference (``prompts/render.py``), the completion is tokenised apart and ends in the end
token. So the first trained token is the first one that the model will have to write, whatever the tokenizer would have
merged across the border.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from arcslim.errors import DataError
from arcslim.prompts.nouns import Prompt
from arcslim.tasks.task import Task

IGNORED = -100  # transformers' label of a token without loss
MULTIPLES = (1.0, 1.5, 2.0)
TOGETHER = 256  # texts that the tokenizer is given at once: it uses all cores then

Mark = tuple[bytes, str]


@dataclass(frozen=True)
class Text:
    """A row before it is tokenised. ``key``: equal for rows of one question, which stay on one side of a holdout."""

    row_id: str
    source: str
    prompt: Prompt
    completion: str
    key: bytes
    task: Task | None = None

    @property
    def mark(self) -> Mark:
        """Equal for rows that would teach the same twice."""
        return self.key, self.completion


@dataclass(frozen=True)
class TrainingRow:
    """``ids`` (int32): the prompt's, of which there are ``prompt_length``, then the completion's with the end token."""

    row_id: str
    source: str
    ids: npt.NDArray[np.int32]
    prompt_length: int
    key: bytes
    task: Task | None = None

    @property
    def input_ids(self) -> list[int]:
        return [int(token) for token in self.ids]

    @property
    def labels(self) -> list[int]:
        """``input_ids`` with the prompt, its prefill included, ignored."""
        return [IGNORED] * self.prompt_length + [int(token) for token in self.ids[self.prompt_length :]]

    @property
    def completion_ids(self) -> list[int]:
        """The trained tokens."""
        return [int(token) for token in self.ids[self.prompt_length :]]

    @property
    def trained(self) -> int:
        """How many tokens are trained."""
        return max(len(self.ids) - self.prompt_length, 0)

    def __len__(self) -> int:
        return len(self.ids)


def encode(texts: Iterable[Text], tokenizer: Any) -> Iterator[TrainingRow]:
    """Token ids of each row; one end token after the completion, whether or not the text ended in it."""
    end = int(tokenizer.eos_token_id)
    left = iter(texts)
    while some := list(islice(left, TOGETHER)):
        completions = [without_end(text.completion, tokenizer.eos_token) for text in some]
        # verbose: else it warns of rows over the model's length, which are counted and dealt with here
        encoded = tokenizer(completions, add_special_tokens=False, verbose=False)["input_ids"]
        for text, completion in zip(some, encoded, strict=True):
            ids = np.array([*text.prompt.token_ids, *completion, end], dtype=np.int32)
            yield TrainingRow(text.row_id, text.source, ids, len(text.prompt.token_ids), text.key, text.task)


def without_end(completion: str, end: str) -> str:
    """A completion without the end tokens that it ends in."""
    while completion.rstrip().endswith(end):
        completion = completion.rstrip().removesuffix(end)
    return completion


@dataclass(frozen=True)
class Over:
    """Rows over ``limit`` tokens, and the tokens of theirs that lie past it."""

    limit: int
    rows: int
    tokens: int


@dataclass(frozen=True)
class Truncation:
    """How many of ``rows`` (with ``tokens`` in all) are over the limit, and over 1.5 and 2 times of it.

    ``policy`` says what became of those over the limit itself: ``drop``, ``truncate`` or ``error``. ``longest``: tokens
    of the longest row.
    """

    policy: str
    rows: int
    tokens: int
    over: tuple[Over, ...]
    longest: int = 0

    @classmethod
    def of(cls, rows: Sequence[TrainingRow], limit: int, policy: str) -> Truncation:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        over = []
        for multiple in MULTIPLES:
            past = lengths - int(limit * multiple)
            over.append(Over(int(limit * multiple), int((past > 0).sum()), int(past[past > 0].sum())))
        return cls(policy, len(rows), int(lengths.sum()), tuple(over), int(lengths.max(initial=0)))


def truncation_lines(truncation: Truncation) -> list[str]:
    """The report, a line a limit."""
    what = {"drop": "left out", "truncate": "cut off at the end, answers and all", "error": "refused"}
    if not truncation.over[0].rows:
        limit = truncation.over[0].limit
        return [f"none of {truncation.rows} rows is over {limit} tokens; the longest has {truncation.longest}"]
    lines = []
    for number, over in enumerate(truncation.over):
        share = over.rows / truncation.rows if truncation.rows else 0.0
        cut = over.tokens / truncation.tokens if truncation.tokens else 0.0
        done = f": {what[truncation.policy]}" if number == 0 and over.rows else ""
        lines.append(
            f"{over.rows} of {truncation.rows} rows ({share:.1%}) are over {over.limit} tokens, "
            f"by {over.tokens} tokens ({cut:.1%} of all){done}"
        )
    return lines


def within_limit(rows: Sequence[TrainingRow], policy: str, limit: int, dropped: Counter[str]) -> list[TrainingRow]:
    """Apply ``sft.over_length``, the ``policy``; rows that are left out are counted in ``dropped``.

    Raises:
        DataError: policy ``error`` and a row is over the limit.
    """
    first = next((row for row in rows if len(row) > limit), None)
    if policy == "error" and first is not None:
        raise DataError(
            f"{truncation_lines(Truncation.of(rows, limit, policy))[0]}; the first is {first.row_id} with {len(first)}",
            "raise model.max_seq_length (and sft.max_length where it is set), or set sft.over_length to drop or "
            "truncate",
        )
    kept = []
    for row in rows:
        if len(row) > limit and policy == "drop":
            dropped["too_long"] += 1
            continue
        cut = row if len(row) <= limit else _cut(row, limit)
        if cut.trained == 0:
            dropped["nothing_trained"] += 1
        else:
            kept.append(cut)
    return kept


def _cut(row: TrainingRow, limit: int) -> TrainingRow:
    prompt_length = min(row.prompt_length, limit)
    return TrainingRow(row.row_id, row.source, row.ids[:limit], prompt_length, row.key, row.task)


def to_dataset(rows: Sequence[TrainingRow]) -> Any:
    """A ``datasets.Dataset`` of ``input_ids`` and ``labels`` (int32), made anew each time: nothing is cached.

    Built from whole arrays, with 64-bit offsets: through Python's numbers 50,000 rows of 15,000 tokens would take
    100 GB on their way, and 32-bit offsets end at 2 billion tokens.
    """
    import pyarrow as pa
    from datasets import Dataset

    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    ids = np.concatenate([row.ids for row in rows]).astype(np.int32, copy=False)
    labels = ids.copy()
    for row, start in zip(rows, offsets[:-1], strict=True):
        labels[start : start + row.prompt_length] = IGNORED
    columns = {
        name: pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
        for name, values in (("input_ids", ids), ("labels", labels))
    }
    return Dataset(pa.table(columns))
