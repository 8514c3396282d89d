"""One source of SFT data becomes texts, rendered, not yet tokenised; rows that are left out are counted by reason."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arcslim.config import Config
from arcslim.errors import InputError
from arcslim.prompts.conversation import Columns, Conversation, RowError, find_columns, read_conversation
from arcslim.prompts.nouns import Prompt
from arcslim.prompts.render import Renderer, answer_text, completion_text
from arcslim.recipes.prepare import Asked
from arcslim.recipes.sft_rows import Mark, Text, without_end
from arcslim.recipes.sft_samples import right_samples
from arcslim.sft_config import ColumnsSection
from arcslim.tasks.content import canonical_key
from arcslim.tasks.lines import Unreadable
from arcslim.tasks.rows import Row, read_rows
from arcslim.tasks.spec import SAMPLES, Spec
from arcslim.tasks.task import Task
from arcslim.tasks.thinking import explain

HONEST = "honest thinking"
# Reasons that need no example: they are what the sifting is for.
EXPECTED = ("not_right", "cut_off", "no_thinking", "enough_of_this_task", "duplicate", "no_honest_thinking")


@dataclass
class Source:
    """What a source came to: its texts, and why the others were left out."""

    name: str
    texts: list[Text] = field(default_factory=list)
    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def drop(self, reason: str, words: str) -> None:
        self.dropped[reason] += 1
        self.examples.setdefault(reason, words)

    def as_dict(self, kept: int) -> dict[str, int]:
        return {"read": self.read, "kept": kept, **dict(sorted(self.dropped.items()))}

    def sayings(self) -> list[str]:
        """What is to be said of it: its notes, and an example of each fault that can be mended."""
        faults = [
            f"{self.dropped[reason]} x {reason}, as {words}"
            for reason, words in self.examples.items()
            if reason not in EXPECTED
        ]
        return [f"{self.name}: {words}" for words in (*self.notes, *faults)]


def question_key(prompt: Prompt) -> bytes:
    """Equal for the same questions, whatever their blanks and system message: one alone must not be held out."""
    turns = [(turn["role"], " ".join(turn["content"].split())) for turn in prompt.messages if turn["role"] != "system"]
    return hashlib.sha256(json.dumps(turns).encode()).digest()


def honest(asked: Sequence[Asked], config: Config) -> Source:
    """Rows of tasks that a known rule explains, with the rule's thinking."""
    source = Source(HONEST)
    for one in asked:
        source.read += 1
        thinking, answer = explain(one.task), one.task.test[0].output
        if thinking is None or answer is None:
            source.drop("no_honest_thinking", f"{one.task.task_id}: no known rule explains it")
            continue
        completion = answer_text(thinking, answer, config.prompt.grid)
        key = canonical_key(one.task)
        source.texts.append(Text(one.prompt.prompt_id, one.task.source, one.prompt, completion, key, one.task))
    return source


def read_source(spec: Spec, config: Config, renderer: Renderer, end: str, seen: set[Mark]) -> Source:
    """The rows of a source of a row kind; ``end`` is the end token's text, which no completion may go on after.

    ``seen``: the rows of the sources before it, each of which stays where it came first; this one's are added.

    Raises:
        InputError: the source cannot be opened, or lacks a column.
    """
    source = Source(spec.name)
    texts = _samples(spec, config, renderer, source) if spec.kind == SAMPLES else _rows(spec, config, renderer, source)
    for text in texts:
        if text.mark in seen:
            source.drop("duplicate", text.row_id)
        elif end in without_end(text.completion, end):
            source.drop("end_token_inside", f"{text.row_id}: the completion goes on after {end}")
        else:
            seen.add(text.mark)
            source.texts.append(text)
    return source


def _rows(spec: Spec, config: Config, renderer: Renderer, source: Source) -> Iterator[Text]:
    from jinja2 import TemplateError

    reader, untrained = _Reader(config.data.columns), 0
    for row in read_rows(spec):
        source.read += 1
        if isinstance(row, Unreadable):
            source.drop(row.reason, f"{row.place}: {row.words}")
            continue
        try:
            conversation = reader.read(row)
            prompt = renderer.render_messages(conversation.messages, row.place)
        except RowError as error:
            source.drop(error.reason, f"{row.place}: {error}")
            continue
        except TemplateError as error:  # as templates do that know no system message, or want turns to alternate
            source.drop("template_refuses", f"{row.place}: the chat template refuses it: {error}")
            continue
        untrained += conversation.untrained_turns
        completion = completion_text(conversation.thinking, conversation.answer)
        yield Text(row.place, spec.name, prompt, completion, question_key(prompt))
    if untrained:
        source.notes.append(
            f"{untrained} earlier answers of conversations are shown without their thinking and not trained on"
        )


class _Reader:
    """Reads rows whose columns may change from row to row: the first one's must be right, a later one's cost a row."""

    def __init__(self, asked: ColumnsSection) -> None:
        self._asked = asked
        self._columns: dict[tuple[str, ...], Columns | None] = {}

    def read(self, row: Row) -> Conversation:
        columns = self._find(row.values)
        if columns is None:
            raise RowError("missing_column", f"another form than the first row; present: {', '.join(row.values)}")
        return read_conversation(row.values, columns)

    def _find(self, values: Mapping[str, Any]) -> Columns | None:
        present = tuple(values)
        if present not in self._columns:
            try:
                self._columns[present] = find_columns(present, self._asked)
            except InputError:
                if not self._columns:
                    raise
                self._columns[present] = None
        return self._columns[present]


def _samples(spec: Spec, config: Config, renderer: Renderer, source: Source) -> Iterator[Text]:
    prompts: dict[Task, Prompt] = {}
    for sample in right_samples(spec, config.sft.samples_per_task, config.data.holdout_families, source):
        task, truth = sample.task, sample.task.test[0].output
        assert truth is not None  # that of a right answer
        if task not in prompts:
            prompts[task] = renderer.render(task, sample.place)
        if len(prompts[task].token_ids) > config.prompt.max_tokens:
            source.drop("prompt_too_long", f"{sample.place}: {len(prompts[task].token_ids)} tokens")
            continue
        # In the grid format that the prompt asks for, whatever that of the run was.
        completion = answer_text(sample.thinking, truth, config.prompt.grid)
        yield Text(sample.place, spec.name, prompts[task], completion, canonical_key(task), task)
