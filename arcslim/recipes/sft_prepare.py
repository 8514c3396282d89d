"""Config → rows: everything that SFT knows of its data before any weight is loaded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from arcslim.config import Config
from arcslim.errors import DataError
from arcslim.prompts.conversation import RowError, find_columns, read_conversation
from arcslim.prompts.render import Renderer, answer_text, completion_text
from arcslim.recipes.prepare import Asked, prepare
from arcslim.recipes.sft_rows import Text, TrainingRow, Truncation, encode, within_limit
from arcslim.recipes.sft_samples import right_samples
from arcslim.tasks.content import canonical_key
from arcslim.tasks.rows import ROW_KINDS, Unreadable, read_rows
from arcslim.tasks.spec import SAMPLES, Spec, or_hub, parse_spec
from arcslim.tasks.split import Split
from arcslim.tasks.task import Task
from arcslim.tasks.thinking import explain

HONEST = "honest thinking"
MOST_HELD = 0.1  # of the questions of row sources
# Reasons that need no example: they are what the sifting is for.
EXPECTED = ("not_right", "cut_off", "no_thinking", "enough_of_this_task", "duplicate", "no_honest_thinking")


@dataclass(frozen=True)
class SftData:
    """``train`` and ``held`` rows, and the held-out *tasks* by name (``select``, ``test``, ``families``, ``arc1``).

    ``counts``: for each source ``read`` = ``kept`` + what was dropped, by reason. ``split`` is that of the ARC specs,
    None without any.
    """

    train: tuple[TrainingRow, ...]
    held: tuple[TrainingRow, ...]
    asked: dict[str, tuple[Asked, ...]]
    counts: dict[str, dict[str, int]]
    split: Split | None
    truncation: Truncation
    notes: tuple[str, ...]


@dataclass
class _Source:
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


def limit_of(config: Config) -> int:
    """Tokens of a row at most."""
    return config.sft.max_length or config.model.max_seq_length


def prepare_sft(config: Config, tokenizer: Any) -> SftData:
    """Read, render and tokenise every row; those that cannot be trained on are counted by reason.

    Raises:
        InputError: a source or column that is not there.
        DataError: nothing is left to train on, or a row is over the limit and ``sft.over_length`` is ``error``.
    """
    specs = [or_hub(parse_spec(text)) for text in config.data.sources]
    tasks = [text for text, spec in zip(config.data.sources, specs, strict=True) if spec.kind not in ROW_KINDS]
    renderer = Renderer(tokenizer, config.prompt)
    sources: list[_Source] = []
    counts: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    asked: dict[str, tuple[Asked, ...]] = {}
    held: list[Text] = []
    split = None
    if tasks:
        arc = config.model_copy(update={"data": config.data.model_copy(update={"sources": tuple(tasks)})})
        prepared = prepare(arc, tokenizer)
        split, asked = prepared.split, prepared.held
        counts |= prepared.split.counts
        notes += prepared.split.notes
        sources.append(_honest(prepared.train, config))
        held += _honest(asked.get("select", ()), config).texts
    for spec in specs:
        if spec.kind in ROW_KINDS:
            sources.append(_read(spec, config, renderer))
    if any(spec.kind in ROW_KINDS for spec in specs):
        more = _hold_out(sources, config, bool(tasks), notes)
        held += more
        if not tasks:
            asked = _ask(more, renderer)
    _leave_out_held(sources, held, asked)
    return _encoded(config, tokenizer, sources, held, asked, counts, split, notes)


def _encoded(
    config: Config,
    tokenizer: Any,
    sources: Sequence[_Source],
    held: Sequence[Text],
    asked: dict[str, tuple[Asked, ...]],
    counts: dict[str, dict[str, int]],
    split: Split | None,
    notes: list[str],
) -> SftData:
    limit, train, all_rows = limit_of(config), [], []
    for source in sources:
        rows = list(encode(source.texts, tokenizer))
        kept, _ = within_limit(rows, config.sft, limit, source.dropped)
        counts[source.name] = source.as_dict(len(kept))
        train += kept
        all_rows += rows
        notes += [f"{source.name}: {note}" for note in source.notes]
        notes += [
            f"{source.name}: {source.dropped[reason]} x {reason}, as {words}"
            for reason, words in source.examples.items()
            if reason not in EXPECTED
        ]
    _, truncation = within_limit(all_rows, config.sft, limit, Counter())
    if not train:
        why = "; ".join(
            f"{name}: {', '.join(f'{key} {number}' for key, number in row.items())}" for name, row in counts.items()
        )
        raise DataError(f"no row is left to train on ({why})", "raise sft.max_length, or choose other data")
    held_rows, _ = within_limit(list(encode(held, tokenizer)), _dropping(config), limit, Counter())
    return SftData(tuple(train), tuple(held_rows), asked, counts, split, truncation, tuple(notes))


def _dropping(config: Config) -> Any:
    return config.sft.model_copy(update={"over_length": "drop"})


def _honest(asked: Sequence[Asked], config: Config) -> _Source:
    """Rows of tasks that a known rule explains, with the rule's thinking."""
    source = _Source(HONEST)
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


def _read(spec: Spec, config: Config, renderer: Renderer) -> _Source:
    source = _Source(spec.name)
    texts = _samples(spec, config, renderer, source) if spec.kind == SAMPLES else _rows(spec, config, renderer, source)
    seen: set[tuple[bytes, str]] = set()
    for text in texts:
        if (text.key, text.completion) in seen:
            source.drop("duplicate", text.row_id)
        else:
            seen.add((text.key, text.completion))
            source.texts.append(text)
    return source


def _rows(spec: Spec, config: Config, renderer: Renderer, source: _Source) -> Iterator[Text]:
    columns, untrained = None, 0
    for row in read_rows(spec):
        source.read += 1
        if isinstance(row, Unreadable):
            source.drop(row.reason, f"{row.place}: {row.words}")
            continue
        columns = columns or find_columns(list(row.values), config.data.columns)
        try:
            conversation = read_conversation(row.values, columns)
            prompt = renderer.render_messages(conversation.messages, row.place)
        except RowError as error:
            source.drop(error.reason, f"{row.place}: {error}")
            continue
        if len(prompt.token_ids) > config.prompt.max_tokens:
            source.drop("prompt_too_long", f"{row.place}: {len(prompt.token_ids)} tokens")
            continue
        untrained += conversation.untrained_turns
        completion = completion_text(conversation.thinking, conversation.answer)
        yield Text(row.place, spec.name, prompt, completion, hashlib.sha256(prompt.text.encode()).digest())
    if untrained:
        source.notes.append(
            f"{untrained} earlier answers of conversations are shown without their thinking and not trained on"
        )


def _samples(spec: Spec, config: Config, renderer: Renderer, source: _Source) -> Iterator[Text]:
    asked: dict[bytes, Any] = {}
    for sample in right_samples(spec, config.sft.samples_per_task, source):
        key = canonical_key(sample.task)
        prompt = asked.setdefault(key, renderer.render(sample.task, sample.place))
        if len(prompt.token_ids) > config.prompt.max_tokens:
            source.drop("prompt_too_long", f"{sample.place}: {len(prompt.token_ids)} tokens")
            continue
        yield Text(sample.place, spec.name, prompt, sample.completion, key, sample.task)


def _hold_out(sources: Sequence[_Source], config: Config, has_tasks: bool, notes: list[str]) -> list[Text]:
    """Whole questions of the row sources, by content and seed; taken out of their sources."""
    rows = [source for source in sources if source.name != HONEST]
    keys = {text.key for source in rows for text in source.texts}
    wanted = 0 if has_tasks else config.data.holdout_select
    number = min(wanted, int(len(keys) * MOST_HELD))
    if number < wanted:
        notes.append(f"data.holdout_select asks for {wanted} questions; {number} are held out, a tenth of {len(keys)}")
    salt = f"{config.run.seed}/".encode()
    chosen = set(sorted(keys, key=lambda key: hashlib.sha256(salt + key).digest())[:number])
    held = [text for source in rows for text in source.texts if text.key in chosen]
    for source in rows:
        source.dropped["held_out"] += sum(text.key in chosen for text in source.texts)
        source.texts = [text for text in source.texts if text.key not in chosen]
        source.dropped = +source.dropped
    return held


def _ask(held: Sequence[Text], renderer: Renderer) -> dict[str, tuple[Asked, ...]]:
    """The held-out rows that are of ARC tasks, as tasks to be solved."""
    tasks: dict[bytes, Task] = {text.key: text.task for text in held if text.task is not None}
    select = tuple(Asked(renderer.render(task, f"select-{i}"), task) for i, task in enumerate(tasks.values()))
    return {"select": select} if select else {}


def _leave_out_held(sources: Sequence[_Source], held: Sequence[Text], asked: dict[str, tuple[Asked, ...]]) -> None:
    """No row of a question that is held out, wherever it came from."""
    keys = {text.key for text in held} | {canonical_key(one.task) for some in asked.values() for one in some}
    for source in sources:
        kept = [text for text in source.texts if text.key not in keys]
        if len(kept) < len(source.texts):
            source.dropped["held_out"] += len(source.texts) - len(kept)
            source.texts = kept
