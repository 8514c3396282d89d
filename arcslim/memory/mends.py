"""What to change: the cheapest knob that makes a failing plan fit. Found by planning again.

Cheapest first: what costs time only, then what costs accuracy, then what costs thinking or tasks, then the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from arcslim.memory.changes import LENGTH_STEP, changed, longest, with_completion, with_prompt
from arcslim.memory.decode import most_drawn
from arcslim.memory.knobs import (
    batch_settings,
    context_setting,
    four_bit_setting,
    longest_setting,
    put,
    rank_setting,
    rows_settings,
)
from arcslim.memory.packing import packing_of, plain_copy
from arcslim.memory.phases import fits
from arcslim.memory.setup import GRPO, HER, PRETRAIN, Request, Setup
from arcslim.memory.siblings import smaller_siblings

TIME, ACCURACY = "costs time only", "costs a little accuracy"
SHARE_STEP = 0.05  # of vLLM's share of the card


@dataclass(frozen=True)
class Mend:
    """A change that makes a plan fit: what, what it costs, and the settings to type. ``single``: one knob, or rows at
    once, which several knobs hold."""

    what: str
    cost: str
    settings: tuple[str, ...]
    single: bool = True


def mends(request: Request) -> tuple[Mend, ...]:
    """Every single knob that makes the plan fit, cheapest first, each as far as it must go and no further.

    Where none does but a smaller model, or none at all, the entries after it change several: one keeps the model, one
    keeps the lengths.
    """
    singles = [mend for search in _SEARCHES if (mend := search(request))]
    smaller = _smaller_model(request)
    found = [*singles, smaller] if singles else [smaller, _several(request), _smaller_model_fewer_rows(request)]
    return tuple(mend for mend in found if mend)


def _draws_by_a_knob(setup: Setup) -> bool:
    """Whether a setting says how many rows are drawn at once."""
    return setup.rolls_out and not setup.vllm and setup.recipe != PRETRAIN


def _rollout_rows(request: Request) -> Mend | None:
    setup = request.setup
    now = setup.drawn_at_once
    rows = _most_drawn(request, now - 1) if _draws_by_a_knob(setup) else None
    if rows is None:
        return None
    what = f"{rows} instead of {now} rows drawn at once"
    return Mend(what, f"{TIME}: the rollout is drawn in more parts", rows_settings(setup, rows))


def _rows_request(request: Request, rows: int) -> Request:
    setup = request.setup
    return changed(request, rollout_rows=min(rows, setup.rollout_rows), eval_rows=min(rows, setup.eval_rows))


def smaller_batches(setup: Setup) -> Iterator[int]:
    """Smaller micro-batches that leave rollout and update as large as they are: divisors, largest first."""
    yield from (rows for rows in range(setup.micro_batch - 1, 0, -1) if setup.micro_batch % rows == 0)


def _micro_batch(request: Request) -> Mend | None:
    setup = request.setup
    for rows in smaller_batches(setup):
        if fits(changed(request, micro_batch=rows)):
            what = f"micro-batch {rows} instead of {setup.micro_batch}"
            same = f"{TIME}: more, smaller steps of the same update"
            cost = "more updates, each of fewer programs" if setup.recipe == HER else same
            return Mend(what, cost, batch_settings(setup, rows))
    return None


def _rows_everywhere(request: Request) -> Mend | None:
    """Fewer rows at once in both phases: one idea, still nothing but time."""
    setup = request.setup
    if not _draws_by_a_knob(setup) or _rollout_rows(request) or _micro_batch(request):
        return None
    for batch in smaller_batches(setup):
        fewer = changed(request, micro_batch=batch)
        rows = _most_drawn(fewer, setup.drawn_at_once - 1)
        if rows is not None:
            what = f"fewer rows at once: micro-batch {batch}, {rows} drawn at once"
            return Mend(what, TIME, (*batch_settings(setup, batch), *rows_settings(setup, rows)))
    return None


def _checkpointing(request: Request) -> Mend | None:
    if request.setup.checkpointing == "unsloth" or not fits(changed(request, checkpointing="unsloth")):
        return None
    settings = ("--set model.use_gradient_checkpointing=unsloth",)
    return Mend("activations offloaded to host RAM", f"{TIME}, little", settings)


def _standby(request: Request) -> Mend | None:
    setup = request.setup
    if not setup.vllm or setup.standby or not fits(changed(request, standby=True)):
        return None
    return Mend("vLLM sleeping during updates", f"{TIME}, little", ("--set model.standby=true",))


def _no_vllm(request: Request) -> Mend | None:
    if not request.setup.vllm or not fits(changed(request, vllm=False)):
        return None
    return Mend(
        "rollouts without vLLM", f"{TIME}: rollouts several times slower", ("--set model.fast_inference=false",)
    )


def _vllm_share(request: Request) -> Mend | None:
    """Another share of the card for vLLM: the largest smaller one or, where it is too small to start, a larger one."""
    setup = request.setup
    if not setup.vllm or request.gpu.is_cpu:
        return None
    shares = [round(step * SHARE_STEP, 2) for step in range(19, 0, -1)]
    smaller = [share for share in shares if share < setup.vllm_share]
    larger = [share for share in reversed(shares) if share > setup.vllm_share]
    for share in (*smaller, *larger):
        if fits(changed(request, vllm_share=share)):
            what = f"{share:g} of the card for vLLM instead of {setup.vllm_share:g}"
            rows = "fewer" if share < setup.vllm_share else "more"
            return Mend(what, f"{TIME}: {rows} rows drawn at once", (put("model.gpu_memory_utilization", share),))
    return None


def _plain_copy(request: Request) -> Mend | None:
    """4-bit weights packed throughout, where Unsloth's own copy keeps some maps in 16 bits."""
    copy = request.packing.copy
    if not request.kept or copy is None:
        return None
    name = plain_copy(copy)
    plain = replace(request, packing=packing_of(request.card, name, on_gpu=not request.gpu.is_cpu))
    if not fits(plain):
        return None
    return Mend(f"the copy that is packed throughout, {name}", ACCURACY, (f"--model {name}",))


def _four_bit(request: Request) -> Mend | None:
    setup = request.setup
    if setup.four_bit or setup.full_finetuning or not fits(changed(request, four_bit=True)):
        return None
    return Mend("weights in 4 bits", f"{ACCURACY}, and slower rollouts", (four_bit_setting(setup),))


def _adapter(request: Request) -> Mend | None:
    if not request.setup.full_finetuning or not fits(changed(request, full_finetuning=False)):
        return None
    return Mend("an adapter instead of all weights", "another kind of training", ("--set model.full_finetuning=false",))


def _rank(request: Request) -> Mend | None:
    setup = request.setup
    rank = setup.lora_r // 2
    while rank >= 4 and not setup.full_finetuning:
        if fits(changed(request, lora_r=rank)):
            return Mend(f"rank {rank} instead of {setup.lora_r}", "costs capacity", (rank_setting(setup, rank),))
        rank //= 2
    return None


def _shorter(request: Request) -> Mend | None:
    setup = request.setup
    if not setup.learns_from_rollouts:
        row = longest(lambda row: changed(request, row=row), setup.row - 1)
        cost = "costs the longer rows: they are left out"
        settings = (longest_setting(setup, row), *context_setting(setup, row)) if row else ()
        return Mend(f"rows of at most {row:,} tokens", cost, settings) if row else None
    tokens = longest(lambda tokens: with_completion(request, tokens), setup.completion - 1)
    if tokens is None:
        return None
    cost = "costs the longer programs" if setup.recipe == HER else "costs thinking"
    settings = (longest_setting(setup, tokens), *context_setting(setup, setup.prompt + tokens))
    return Mend(f"completions of at most {tokens:,} tokens", cost, settings)


def _shorter_prompt(request: Request) -> Mend | None:
    if request.setup.recipe != GRPO:
        return None
    tokens = longest(lambda tokens: with_prompt(request, tokens), request.setup.prompt - 1)
    settings = (put("prompt.max_tokens", tokens),)
    return Mend(f"prompts of at most {tokens:,} tokens", "costs the larger tasks", settings) if tokens else None


_SEARCHES: Sequence[Callable[[Request], Mend | None]] = (
    _rollout_rows,
    _micro_batch,
    _rows_everywhere,
    _checkpointing,
    _standby,
    _vllm_share,
    _no_vllm,
    _plain_copy,
    _four_bit,
    _shorter,
    _shorter_prompt,
    _rank,
    _adapter,
)


def _smaller_model(request: Request) -> Mend | None:
    """The largest smaller model of the family that fits."""
    for smaller, name in smaller_siblings(request):
        if fits(smaller):
            return Mend(f"the model {smaller.card.name}", "costs what the larger model knows", (f"--model {name}",))
    return None


def _smaller_model_fewer_rows(request: Request) -> Mend | None:
    """The largest smaller model that fits with the lengths as they are and fewer rows at once."""
    setup = request.setup
    if not _draws_by_a_knob(setup):
        return None
    for smaller, name in smaller_siblings(request):
        for batch in (setup.micro_batch, *smaller_batches(setup)):
            fewer = changed(smaller, micro_batch=batch)
            rows = _most_drawn(fewer, setup.drawn_at_once)
            if rows is None:
                continue
            settings = [f"--model {name}", *rows_settings(setup, rows)]
            settings += batch_settings(setup, batch) if batch < setup.micro_batch else ()
            what = f"the model {smaller.card.name}, micro-batch {batch}, {rows} drawn at once, lengths as they are"
            return Mend(what, "costs what the larger model knows, and time", tuple(settings), single=False)
    return None


def _most_drawn(request: Request, ceiling: int) -> int | None:
    return most_drawn(lambda one, rows: fits(_rows_request(one, rows)), request, max(ceiling, 0))


def _several(request: Request) -> Mend | None:
    """One row at a time in both phases and, if that is not enough, the longest rows that then fit."""
    setup = request.setup
    least, settings = _one_at_a_time(request)
    if fits(least):
        return Mend("one row at a time, activations offloaded", TIME, settings, single=False)
    if not setup.learns_from_rollouts:
        row = longest(lambda row: changed(least, row=row), setup.row - 1)
        if row is None:
            return None
        what, cost = f"one row of at most {row:,} tokens at a time", "costs the longer rows"
        return Mend(what, cost, (*settings, longest_setting(setup, row)), single=False)
    if setup.recipe == HER:  # the question is what it is
        tokens = longest(lambda tokens: with_completion(least, tokens), setup.completion - 1)
        if tokens is None:
            return None
        what = f"one program of at most {tokens:,} tokens at a time"
        return Mend(what, "costs the longer programs", (*settings, longest_setting(setup, tokens)), single=False)
    whole = setup.prompt + setup.completion

    def shrunk(length: int) -> Request:
        prompt = max(LENGTH_STEP, length * setup.prompt // whole)
        return with_completion(with_prompt(least, prompt), max(LENGTH_STEP, length - prompt))

    length = longest(shrunk, whole - 1)
    if length is None:
        return None
    small = shrunk(length).setup
    lengths = (put("prompt.max_tokens", small.prompt), longest_setting(setup, small.completion))
    what = f"one row at a time, prompt {small.prompt:,} + completion {small.completion:,} tokens"
    return Mend(what, "costs tasks and thinking", (*settings, *lengths), single=False)


def _one_at_a_time(request: Request) -> tuple[Request, tuple[str, ...]]:
    """Least memory with model and lengths as they are, and what to type for it."""
    setup = request.setup
    least = changed(request, micro_batch=1, checkpointing="unsloth")
    settings = [*batch_settings(setup, 1)] if setup.micro_batch > 1 else []
    if _draws_by_a_knob(setup):
        least = changed(least, rollout_rows=1, eval_rows=1)
        settings += rows_settings(setup, 1)
    if not setup.four_bit and not setup.full_finetuning:
        least = changed(least, four_bit=True)
        settings.append(four_bit_setting(setup))
    if setup.checkpointing != "unsloth":
        settings.append(put("model.use_gradient_checkpointing", "unsloth"))
    return least, tuple(settings)
