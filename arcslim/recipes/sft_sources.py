"""One source of SFT data becomes texts, rendered, not yet tokenised; rows that are left out are counted by reason."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
from arcslim.tasks.spec import PATH, ROW_FILES, SAMPLES, Spec
from arcslim.tasks.task import Task
from arcslim.tasks.thinking import explain

HONEST = "honest thinking"
OWN_TAGS = {"<think>", "</think>", "<answer>", "</answer>"}  # some tokenizers call them special
# Reasons that need no example: they are what the sifting is for.
EXPECTED = ("not_right", "cut_off", "no_thinking", "enough_of_this_task", "duplicate", "no_honest_thinking")


def refuse_other_files(spec: Spec) -> None:
    """A path that holds rows in a form that is not read. Raises InputError, with the form to bring them into."""
    path = Path(spec.argument).expanduser()
    if spec.kind != PATH or not path.exists():
        return
    inside = sorted(item.name for item in path.iterdir() if item.name.endswith(ROW_FILES)) if path.is_dir() else []
    if inside and not any(path.glob("*.json")):
        raise InputError(
            f"{path} is a folder of row files: {', '.join(inside[:3])}{', …' if len(inside) > 3 else ''}",
            f"name each: --data {path / inside[0]} …",
        )
    is_table = path.suffix in (".csv", ".tsv", ".txt", ".arrow")
    is_list = path.suffix == ".json" and path.is_file() and _first_byte(path) == b"["
    if is_table or is_list:
        raise InputError(
            f"{path} {'is a list of rows' if is_list else f'is a {path.suffix} file'}, and rows are read from JSONL or "
            "parquet",
            "datasets.load_dataset('" + ("json" if is_list else path.suffix.strip(".")) + f"', data_files='{path}', "
            "split='train').to_json('rows.jsonl') writes such a file",
        )


def _first_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


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


def special_texts(tokenizer: Any) -> re.Pattern[str]:
    """Finds the texts of special tokens: in a row they would be read as the end of its turn, or as another's start."""
    tokens = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special} - OWN_TAGS
    return re.compile("|".join(map(re.escape, sorted({*tokens, tokenizer.eos_token}, key=len, reverse=True))))


def read_source(spec: Spec, config: Config, renderer: Renderer, tokenizer: Any, seen: set[Mark]) -> Source:
    """The rows of a source of a row kind.

    ``seen``: the rows of the sources before it, each of which stays where it came first; this one's are added.

    Raises:
        InputError: the source cannot be opened, or lacks a column.
    """
    source, end, special = Source(spec.name), tokenizer.eos_token, special_texts(tokenizer)
    texts = _samples(spec, config, renderer, source) if spec.kind == SAMPLES else _rows(spec, config, renderer, source)
    for text in texts:
        if text.mark in seen:
            source.drop("duplicate", text.row_id)
        elif found := special.search(without_end(text.completion, end)):
            source.drop("special_token_inside", f"{text.row_id}: the completion holds {found.group()}")
        elif found := special.search("\n".join(turn["content"] for turn in text.prompt.messages)):
            source.drop("special_token_inside", f"{text.row_id}: the conversation holds {found.group()}")
        else:
            seen.add(text.mark)
            source.texts.append(text)
    return source


def _rows(spec: Spec, config: Config, renderer: Renderer, source: Source) -> Iterator[Text]:
    from jinja2 import TemplateError

    reader, untrained, joined = _Reader(config.data.columns), 0, 0
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
        joined += conversation.joined
        completion = completion_text(conversation.thinking, conversation.answer)
        yield Text(row.place, spec.name, prompt, completion, question_key(prompt))
    if untrained:
        source.notes.append(
            f"{untrained} earlier answers of conversations are shown without their thinking and not trained on"
        )
    if joined:
        source.notes.append(
            f"{joined} rows have thinking in several places (blocks, or tags beside a reasoning column): joined into "
            "one block each, in their order"
        )


class _Reader:
    """Reads rows whose columns may change from row to row: the first one's must be right, a later one's cost a row."""

    def __init__(self, asked: ColumnsSection) -> None:
        self._asked = asked
        self._columns: dict[tuple[str, ...], Columns | None] = {}

    def read(self, row: Row) -> Conversation:
        columns = self._find(row.values)
        if columns is None:
            raise RowError(
                "missing_column", f"another form than the first row; present: {', '.join(row.values) or 'no columns'}"
            )
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
