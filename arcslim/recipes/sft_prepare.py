"""Config → rows: everything that SFT knows of its data before any weight is loaded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arcslim.config import Config
from arcslim.errors import DataError, InputError
from arcslim.prompts.render import Renderer
from arcslim.recipes.prepare import Asked, prepare
from arcslim.recipes.sft_rows import Text, TrainingRow, Truncation, encode, within_limit
from arcslim.recipes.sft_sources import HONEST, Source, honest, question_key, read_source, refuse_other_files
from arcslim.tasks.arc import Refused
from arcslim.tasks.content import canonical_key
from arcslim.tasks.leaks import HeldOut
from arcslim.tasks.rows import ROW_KINDS
from arcslim.tasks.sources import open_kept_out
from arcslim.tasks.spec import Spec, or_hub, parse_spec
from arcslim.tasks.split import Split
from arcslim.tasks.task import Task

MOST_HELD = 0.1  # of the questions of row sources
_WAYS_OUT = {
    "too_long": "raise {limits}: the longest row has {longest} tokens",
    "nothing_trained": "raise {limits}: what is to be learned lies past it; the longest row has {longest} tokens",
    "no_reasoning": "give rows with reasoning, or name its column with --set data.columns.reasoning=NAME",
    "no_honest_thinking": "choose tasks that a rule of arcslim/tasks/rules.py explains, or rows of traces",
    "not_right": "give a run that solves something: a larger model, or easier tasks",
}


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


def limit_of(config: Config) -> int:
    """Tokens of a row at most."""
    return config.sft.max_length or config.model.max_seq_length


def prepare_sft(config: Config, tokenizer: Any, check: Callable[[], None] | None = None) -> SftData:
    """Read, render and tokenise every row; those that cannot be trained on are counted by reason.

    ``check`` is called now and then while tasks are drawn; it may raise, to stop.

    Raises:
        InputError: a source or column that is not there, a source of rows with a weight, or one given twice.
        DataError: nothing is left to train on, or a row is over the limit and ``sft.over_length`` is ``error``.
    """
    specs = [or_hub(parse_spec(text)) for text in config.data.sources]
    for spec in specs:
        refuse_other_files(spec)
    _check_row_specs([spec for spec in specs if spec.kind in ROW_KINDS])
    tasks = [text for text, spec in zip(config.data.sources, specs, strict=True) if spec.kind not in ROW_KINDS]
    renderer = Renderer(tokenizer, config.prompt)
    sources: list[Source] = []
    counts: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    asked: dict[str, tuple[Asked, ...]] = {}
    held: list[Text] = []
    split = None
    if tasks:
        arc = config.model_copy(update={"data": config.data.model_copy(update={"sources": tuple(tasks)})})
        prepared = prepare(arc, tokenizer, check)
        split, asked = prepared.split, prepared.held
        counts |= prepared.split.counts
        notes += prepared.split.notes
        sources.append(honest(prepared.train, config))
        held += honest(asked.get("select", ()), config).texts
    seen = {text.mark for source in sources for text in source.texts}
    for spec in specs:
        if spec.kind in ROW_KINDS:
            sources.append(read_source(spec, config, renderer, tokenizer, seen))
    if any(spec.kind in ROW_KINDS for spec in specs):
        notes += _not_held(config, bool(tasks))
        more = _hold_out(sources, config, bool(tasks), notes)
        held += more
        if not tasks:
            asked = _ask(more, renderer)
    _leave_out_held(sources, held, asked)
    notes += _leave_out_kept(sources, config, renderer, told=bool(tasks))
    return _encoded(config, tokenizer, sources, held, asked, counts, split, notes)


def _leave_out_kept(sources: Sequence[Source], config: Config, renderer: Renderer, *, told: bool) -> list[str]:
    """No row of a task of ``data.keep_out``: known in any disguise where a row has its task, else by its question."""
    held, questions = HeldOut(), set[bytes]()
    for kept_out in open_kept_out(config.data):
        if not isinstance(kept_out, Refused):
            held.hold(kept_out)
            questions |= {question_key(renderer.render(one, "")) for one in kept_out.for_each_test()}
    if not len(held):
        return []

    def reason_for(text: Text) -> str | None:
        leak = None if text.task is None else held.find(text.task)
        return leak.reason if leak else "held_out" if question_key(text.prompt) in questions else None

    for source in sources:
        reasons = [reason_for(text) for text in source.texts]
        source.dropped.update(reason for reason in reasons if reason is not None)
        source.texts = [text for text, reason in zip(source.texts, reasons, strict=True) if reason is None]
    return [] if told else [f"data.keep_out: {len(held)} tasks are never trained on"]


def _not_held(config: Config, has_tasks: bool) -> list[str]:
    """What is asked to be held out, and is not, since it says something about tasks and these are rows."""
    if has_tasks:
        return ["no question of the row sources is held out: the held-out ARC tasks measure the run"]
    asked = [
        f"data.{name}" for name in ("holdout_test", "holdout_families", "holdout_arc1") if getattr(config.data, name)
    ]
    return (
        [f"{', '.join(asked)}: of ARC specs alone; these sources hold out data.holdout_select questions"]
        if asked
        else []
    )


def _encoded(
    config: Config,
    tokenizer: Any,
    sources: Sequence[Source],
    held: Sequence[Text],
    asked: dict[str, tuple[Asked, ...]],
    counts: dict[str, dict[str, int]],
    split: Split | None,
    notes: list[str],
) -> SftData:
    limit, train, all_rows = limit_of(config), [], []
    for source in sources:
        rows = list(encode(source.texts, tokenizer))
        kept = within_limit(rows, config.sft.over_length, limit, source.dropped)
        counts[source.name] = source.as_dict(len(kept))
        train += kept
        all_rows += rows
        notes += source.sayings()
    truncation = Truncation.of(all_rows, limit, config.sft.over_length)
    if not train:
        raise _nothing_left(sources, counts, truncation, config)
    for source in sources:
        if counts[source.name]["kept"] == 0 and source.read:
            notes.append(f"{source.name}: not one of its {source.read} rows is trained on")
    too_long = Counter[str]()
    held_rows = within_limit(list(encode(held, tokenizer)), "drop", limit, too_long)
    if too_long:
        notes.append(f"{too_long.total()} of {len(held)} held-out rows are over {limit} tokens and are left out")
    return SftData(tuple(train), tuple(held_rows), asked, counts, split, truncation, tuple(notes))


def _nothing_left(
    sources: Sequence[Source], counts: Mapping[str, Mapping[str, int]], truncation: Truncation, config: Config
) -> DataError:
    """The error that there is nothing to train on: all the counts, an example and the way out of the first reason."""
    reasons = Counter[str]()
    for row in counts.values():
        reasons.update({reason: number for reason, number in row.items() if reason not in ("read", "kept")})
    most = max(reasons, key=lambda reason: reasons[reason], default="")
    why = "; ".join(
        f"{name}: {', '.join(f'{key} {number}' for key, number in row.items())}" for name, row in counts.items()
    )
    example = next((source.examples[most] for source in sources if most in source.examples), None)
    shown = f"; {most}: {example}" if example else ""
    context, own = config.model.max_seq_length, config.sft.max_length
    named = [name for name, value in (("sft.max_length", own), ("model.max_seq_length", context)) if value is not None]
    limits = " and ".join(name for name in named if name == named[0] or truncation.longest > context)
    hint = _WAYS_OUT.get(most, "choose other data")
    return DataError(
        f"no row is left to train on ({why}){shown}", hint.format(longest=truncation.longest, limits=limits)
    )


def _check_row_specs(specs: Sequence[Spec]) -> None:
    for number, spec in enumerate(specs):
        if spec.weight != 1.0:
            raise InputError(
                f"{spec.name}: a source of rows is taken whole, and its weight {spec.weight:g} would mean nothing",
                "leave the weight out; data.sources with tasks may have one",
            )
        if spec.name in [other.name for other in specs[:number]]:
            raise InputError(f"the data source {spec.name!r} is given twice", "name it once")


def _hold_out(sources: Sequence[Source], config: Config, has_tasks: bool, notes: list[str]) -> list[Text]:
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


def _leave_out_held(sources: Sequence[Source], held: Sequence[Text], asked: dict[str, tuple[Asked, ...]]) -> None:
    """No row of a question that is held out, wherever it came from."""
    keys = {key for text in held for key in (text.key, question_key(text.prompt))}
    for one in (one for some in asked.values() for one in some):
        keys |= {canonical_key(one.task), question_key(one.prompt)}  # as a task, and as the text of a row
    for source in sources:
        kept = [text for text in source.texts if keys.isdisjoint((text.key, question_key(text.prompt)))]
        if len(kept) < len(source.texts):
            source.dropped["held_out"] += len(source.texts) - len(kept)
            source.texts = kept
