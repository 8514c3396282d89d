"""What a run will train on, as it will train on it: the prompts and rows of the functions that the recipes call.

Nothing is rendered or tokenised here. GRPO's prompts are those of ``prepare``, SFT's rows those of ``prepare_sft``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from arcslim.config import Config
from arcslim.prompts.pieces import Example, as_pieces
from arcslim.prompts.render import PREFILL
from arcslim.recipes.prepare import Asked, prepare, string_prompt
from arcslim.recipes.sft_prepare import limit_of, prepare_sft
from arcslim.recipes.sft_rows import IGNORED, TrainingRow, truncation_lines
from arcslim.tasks.spec import parse_spec

PreviewRecipe = Literal["grpo", "sft"]
ENDLESS = "rearc"
Item = TypeVar("Item")


@dataclass(frozen=True)
class Preview:
    """``examples`` of the training set, the ``counts`` of each source, and what is to be said: ``notes``."""

    examples: tuple[Example, ...]
    counts: dict[str, dict[str, int]]
    notes: tuple[str, ...]


def preview(config: Config, tokenizer: Any, recipe: PreviewRecipe, number: int) -> Preview:
    """The first ``number`` prompts or rows of the training set, in turn from each of its sources.

    Raises:
        InputError: whatever would stop the run itself before its first step.
    """
    return _grpo(config, tokenizer, number) if recipe == "grpo" else _sft(config, tokenizer, number)


def _grpo(config: Config, tokenizer: Any, number: int) -> Preview:
    needed = _no_more_than_needed(config, number)
    prepared = prepare(needed, tokenizer)
    chosen = in_turn(prepared.train, number, lambda asked: asked.task.source)
    notes = prepared.split.notes
    if needed is not config:
        notes = (*notes, f"the first {number} of {config.data.tasks} training tasks were drawn, no more")
    examples = tuple(_prompt(asked, config, tokenizer) for asked in chosen)
    return Preview(examples, prepared.split.counts, notes)


def _no_more_than_needed(config: Config, number: int) -> Config:
    """Generators are asked one after the other, so that the first tasks are the same however many are drawn."""
    specs = [parse_spec(text) for text in config.data.sources]
    if len(specs) > 1 or specs[0].kind != ENDLESS or number >= config.data.tasks:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"tasks": number})})


def _prompt(asked: Asked, config: Config, tokenizer: Any) -> Example:
    prompt, most = asked.prompt, config.generation.max_completion_length
    string_prompt(prompt, tokenizer)  # what TRL is handed becomes these ids, or the run would not start
    return Example(
        prompt.prompt_id,
        asked.task.source,
        as_pieces(tokenizer, prompt.token_ids, [False] * len(prompt.token_ids), prompt.prefill),
        asked.task,
        (f"{len(prompt.token_ids)} prompt tokens of at most {config.prompt.max_tokens}",),
        f"the policy writes on from here, {config.grpo.num_generations} times, at most {most} tokens each: "
        "every token of it gets loss, weighted by its advantage",
    )


def _sft(config: Config, tokenizer: Any, number: int) -> Preview:
    from arcslim.recipes.sft import prefill

    notes = prefill(config, tokenizer)
    data = prepare_sft(config, tokenizer)
    examples = tuple(_row(row, config, tokenizer) for row in in_turn(data.train, number, lambda row: row.source))
    return Preview(examples, data.counts, (*data.notes, *notes, *truncation_lines(data.truncation)))


def _row(row: TrainingRow, config: Config, tokenizer: Any) -> Example:
    trained = [label != IGNORED for label in row.labels]
    return Example(
        row.row_id,
        row.source,
        as_pieces(tokenizer, row.input_ids, trained, PREFILL),
        row.task,
        (f"{len(row)} tokens of at most {limit_of(config)}, {sum(trained)} of them get loss",),
    )


def in_turn(items: Sequence[Item], number: int, source: Callable[[Item], str]) -> list[Item]:
    """``number`` of the items: the first of each source, then the second of each, and so on."""
    by_source: dict[str, list[Item]] = {}
    for item in items:
        by_source.setdefault(source(item), []).append(item)
    ranked = [(rank, order, item) for order, some in enumerate(by_source.values()) for rank, item in enumerate(some)]
    return [item for *_, item in sorted(ranked, key=lambda entry: entry[:2])[:number]]
