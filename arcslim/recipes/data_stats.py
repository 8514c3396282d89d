"""How long the prompts of a data set are, in both grid formats, and how long its rows are where it holds rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from arcslim.config import Config, PromptSection
from arcslim.prompts.render import Renderer, answer_text
from arcslim.prompts.text import GridFormat
from arcslim.recipes.sft_prepare import prepare_sft
from arcslim.tasks.split import build_split
from arcslim.tasks.task import Task
from arcslim.tasks.trivial import trivial_rules

FORMATS: tuple[GridFormat, ...] = get_args(GridFormat)
LIMITS = (2048, 4096, 8192, 16384)
EDGES = (0, 256, 512, 1024, *LIMITS)
"""Lower edges of the histogram's bins, the last of which has no upper one."""
ENDLESS = 10**9  # tokens: a limit that nothing is over
Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Measured:
    """Token counts of one source in one form, one for each task or row."""

    source: str
    form: str
    lengths: Lengths

    def fitting(self, limit: int) -> int:
        """How many are of at most ``limit`` tokens."""
        return int((self.lengths <= limit).sum())

    def histogram(self) -> list[int]:
        """How many have more than ``EDGES[i]`` tokens, and at most the next edge's."""
        upper = np.array([*EDGES[1:], ENDLESS])
        return [int(number) for number in np.bincount(np.searchsorted(upper, self.lengths), minlength=len(EDGES))]


@dataclass(frozen=True)
class Stats:
    """``measured``: each source in each form, then all sources together where there are several.

    ``longest_answer``: tokens of the longest answer, for each format. ``trivial``: how many tasks meet each rule.
    """

    measured: tuple[Measured, ...]
    counts: dict[str, dict[str, int]]
    longest_answer: dict[str, int]
    trivial: dict[str, int]
    notes: tuple[str, ...]


def task_stats(config: Config, tokenizer: Any) -> Stats:
    """Prompts of the tasks of ``data.sources``, whatever their length. Raises InputError, DataError."""
    split = build_split(config.data, config.run.seed, lambda task: True)
    measured: list[Measured] = []
    answers: dict[str, int] = {}
    for form in FORMATS:
        section = config.prompt.model_copy(update={"grid": form})
        measured += _by_source(form, _prompts(split.train, tokenizer, section))
        answers[form] = max(_answer(task, tokenizer, form) for task in split.train)
    trivial = Counter(rule for task in split.train for rule in trivial_rules(task))
    return Stats(tuple(measured), split.counts, answers, dict(trivial), split.notes)


def row_stats(config: Config, tokenizer: Any) -> Stats:
    """Rows as SFT trains on them, prompt and completion together, whatever their length. Raises as ``prepare_sft``."""
    sft = config.sft.model_copy(update={"max_length": ENDLESS})
    prompt = config.prompt.model_copy(update={"max_tokens": ENDLESS})
    data = prepare_sft(config.model_copy(update={"sft": sft, "prompt": prompt}), tokenizer)
    measured = _by_source("rows", [(row.source, len(row)) for row in data.train])
    measured += _by_source("trained", [(row.source, row.trained) for row in data.train])
    return Stats(tuple(measured), data.counts, {}, {}, data.notes)


def _prompts(tasks: Sequence[Task], tokenizer: Any, section: PromptSection) -> list[tuple[str, int]]:
    renderer = Renderer(tokenizer, section)
    return [(task.source, len(renderer.render(task, "").token_ids)) for task in tasks]


def _answer(task: Task, tokenizer: Any, form: GridFormat) -> int:
    """Tokens of the completion that answers without a thought, the end token included."""
    output = task.test[0].output
    assert output is not None  # tasks without a truth are not in a split
    return len(tokenizer(answer_text("", output, form), add_special_tokens=False, verbose=False)["input_ids"]) + 1


def _by_source(form: str, counted: Sequence[tuple[str, int]]) -> list[Measured]:
    by_source: dict[str, list[int]] = {}
    for source, length in counted:
        by_source.setdefault(source, []).append(length)
    if len(by_source) > 1:
        by_source["all"] = [length for _, length in counted]
    return [Measured(source, form, np.array(lengths, dtype=np.int64)) for source, lengths in by_source.items()]
