"""How far each knob could go with the others as they are. Found by planning again."""

from __future__ import annotations

from dataclasses import dataclass

from arcslim.memory.changes import LENGTH_STEP, MOST_ROWS, changed, longest, with_completion
from arcslim.memory.decode import most_drawn, most_rows
from arcslim.memory.knobs import context_setting
from arcslim.memory.phases import fits, phases_of, shared_row
from arcslim.memory.setup import PRETRAIN, Request

QUEUED = "as long as allowed; it queues the others"


@dataclass(frozen=True)
class Limit:
    """How far one knob could go with the others as they are; ``value`` None: not even its least fits."""

    what: str
    value: int | None
    note: str = ""


def limits(request: Request) -> tuple[Limit, ...]:
    """How far context, rows drawn at once and micro-batch could go, each with the others as they are."""
    setup, card = request.setup, request.card
    batch = Limit(
        "largest micro-batch",
        most_rows(lambda rows: fits(changed(request, micro_batch=rows)), MOST_ROWS),
        f"rows of {setup.row:,} tokens",
    )
    positions = card.max_position_embeddings
    if setup.recipe == PRETRAIN:
        return (batch,)  # rows are as long as the largest drawing
    if not setup.learns_from_rollouts:
        row = longest(lambda row: changed(request, row=row), positions)
        more = "".join(f"with {more}" for more in context_setting(setup, row or 0))
        return (Limit("longest row", row, more + _of_the_model(row, positions)), batch)
    completion = longest(lambda tokens: with_completion(request, tokens), max(positions - setup.prompt, 0))
    context = None if completion is None else setup.prompt + completion
    note = f"prompt {setup.prompt:,} + completion {completion:,}" if completion else f"prompt {setup.prompt:,}"
    note += "".join(f", with {more}" for more in context_setting(setup, context or 0))
    longest_context = Limit("longest context", context, note + _of_the_model(context, positions))
    if setup.vllm and not request.gpu.is_cpu:  # it queues what its cache has no room for
        return (longest_context, Limit("generations in vLLM's cache at once", _in_cache(request), QUEUED), batch)
    rows = most_drawn(lambda one, rows: fits(changed(one, rollout_rows=rows, eval_rows=rows)), request, MOST_ROWS)
    note = "drawn at once; a group may be larger, it is then drawn in parts"
    return (longest_context, Limit("most generations", rows, note), batch)


def _in_cache(request: Request) -> int:
    cache = sum(item.bytes for phase in phases_of(request) for item in phase.gpu if phase.name == "rollout"
                and item.name == "vLLM's KV cache")  # fmt: skip
    return int(cache // shared_row(request))


def _of_the_model(length: int | None, positions: int) -> str:
    return " (the model's own limit)" if length is not None and length > positions - LENGTH_STEP else ""
