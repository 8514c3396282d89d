"""What to change: the cheapest knob that makes a failing plan fit. Found by planning again.

Cheapest first: what costs time only, then what costs accuracy, then what costs thinking or tasks, then the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from arcslim.cards import ModelCard, model_cards
from arcslim.memory.changes import LENGTH_STEP, changed, longest, with_completion, with_prompt
from arcslim.memory.decode import most_rows
from arcslim.memory.phases import fits
from arcslim.memory.setup import GRPO, SFT, Request, Setup

TIME, ACCURACY = "costs time only", "costs a little accuracy"


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


def _rollout_rows(request: Request) -> Mend | None:
    setup = request.setup
    now = setup.drawn_at_once
    rows = _most_drawn(request, now - 1) if setup.rolls_out else None
    if rows is None or setup.vllm:
        return None
    what = f"{rows} instead of {now} rows drawn at once"
    return Mend(what, f"{TIME}: the rollout is drawn in more parts", _rows_settings(setup, rows))


def _rows_request(request: Request, rows: int) -> Request:
    setup = request.setup
    return changed(request, rollout_rows=min(rows, setup.rollout_rows), eval_rows=min(rows, setup.eval_rows))


def _rows_settings(setup: Setup, rows: int) -> tuple[str, ...]:
    settings = []
    if setup.recipe == GRPO and setup.rollout_rows > rows:
        settings.append(f"--set generation.rollout_batch={rows}")
    if setup.eval_rows > rows:
        settings.append(f"--set run.eval_batch={rows}")
    return tuple(settings)


def _smaller_batches(setup: Setup) -> Iterator[int]:
    """Smaller micro-batches that leave rollout and update as large as they are: divisors, largest first."""
    yield from (rows for rows in range(setup.micro_batch - 1, 0, -1) if setup.micro_batch % rows == 0)


def _batch_settings(setup: Setup, rows: int) -> tuple[str, ...]:
    if setup.recipe == SFT:
        return (f"--set sft.per_device_train_batch_size={rows}",)
    times = setup.micro_batch // rows
    return (
        f"--set optim.per_device_train_batch_size={rows}",
        f"--set grpo.steps_per_generation={setup.steps_per_generation * times}",
        f"--set optim.gradient_accumulation_steps={setup.accumulation * times}",
    )


def _micro_batch(request: Request) -> Mend | None:
    setup = request.setup
    for rows in _smaller_batches(setup):
        if fits(changed(request, micro_batch=rows)):
            what = f"micro-batch {rows} instead of {setup.micro_batch}"
            return Mend(what, f"{TIME}: more, smaller steps of the same update", _batch_settings(setup, rows))
    return None


def _rows_everywhere(request: Request) -> Mend | None:
    """Fewer rows at once in both phases: one idea, still nothing but time."""
    setup = request.setup
    if setup.vllm or not setup.rolls_out or _rollout_rows(request) or _micro_batch(request):
        return None
    for batch in _smaller_batches(setup):
        fewer = changed(request, micro_batch=batch)
        rows = _most_drawn(fewer, setup.drawn_at_once - 1)
        if rows is not None:
            what = f"fewer rows at once: micro-batch {batch}, {rows} drawn at once"
            return Mend(what, TIME, (*_batch_settings(setup, batch), *_rows_settings(setup, rows)))
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


def _four_bit(request: Request) -> Mend | None:
    setup = request.setup
    if setup.four_bit or setup.full_finetuning or not fits(changed(request, four_bit=True)):
        return None
    return Mend("weights in 4 bits", f"{ACCURACY}, and slower rollouts", ("--set model.load_in_4bit=true",))


def _adapter(request: Request) -> Mend | None:
    if not request.setup.full_finetuning or not fits(changed(request, full_finetuning=False)):
        return None
    return Mend("an adapter instead of all weights", "another kind of training", ("--set model.full_finetuning=false",))


def _rank(request: Request) -> Mend | None:
    setup = request.setup
    rank = setup.lora_r // 2
    while rank >= 4 and not setup.full_finetuning:
        if fits(changed(request, lora_r=rank)):
            knob = "sft.lora_r" if setup.recipe == SFT else "lora.r"
            return Mend(f"rank {rank} instead of {setup.lora_r}", "costs capacity", (f"--set {knob}={rank}",))
        rank //= 2
    return None


def _shorter(request: Request) -> Mend | None:
    setup = request.setup
    if setup.recipe == SFT:
        row = longest(lambda row: changed(request, row=row), setup.row - 1)
        cost = "costs the longer rows: they are left out"
        return Mend(f"rows of at most {row:,} tokens", cost, (f"--set sft.max_length={row}",)) if row else None
    tokens = longest(lambda tokens: with_completion(request, tokens), setup.completion - 1)
    settings = (f"--set generation.max_completion_length={tokens}",)
    return Mend(f"completions of at most {tokens:,} tokens", "costs thinking", settings) if tokens else None


def _shorter_prompt(request: Request) -> Mend | None:
    if request.setup.recipe == SFT:
        return None
    tokens = longest(lambda tokens: with_prompt(request, tokens), request.setup.prompt - 1)
    settings = (f"--set prompt.max_tokens={tokens}",)
    return Mend(f"prompts of at most {tokens:,} tokens", "costs the larger tasks", settings) if tokens else None


_SEARCHES: Sequence[Callable[[Request], Mend | None]] = (
    _rollout_rows,
    _micro_batch,
    _rows_everywhere,
    _checkpointing,
    _standby,
    _no_vllm,
    _four_bit,
    _shorter,
    _shorter_prompt,
    _rank,
    _adapter,
)


def _smaller_models(card: ModelCard) -> list[ModelCard]:
    """Of the same family, largest first."""
    family = [one for one in model_cards() if one.family == card.family and one.parameters < card.parameters]
    return sorted(family if card.family else [], key=lambda one: -one.parameters)


def _smaller_model(request: Request) -> Mend | None:
    """The largest smaller model of the family that fits, under an id of the same kind (Instruct, Base, …)."""
    card = request.card
    for one in _smaller_models(card):
        if fits(Request(one, request.gpu, request.setup)):
            name = _sibling_id(request.setup.model_name, card, one)
            return Mend(f"the model {one.name}", "costs what the larger model knows", (f"--model {name}",))
    return None


def _smaller_model_fewer_rows(request: Request) -> Mend | None:
    """The largest smaller model that fits with the lengths as they are and fewer rows at once."""
    setup = request.setup
    if setup.vllm or not setup.rolls_out:
        return None
    for card in _smaller_models(request.card):
        smaller = Request(card, request.gpu, setup)
        for batch in (setup.micro_batch, *_smaller_batches(setup)):
            fewer = changed(smaller, micro_batch=batch)
            rows = _most_drawn(fewer, setup.drawn_at_once)
            if rows is None:
                continue
            name = _sibling_id(setup.model_name, request.card, card)
            settings = [f"--model {name}", *_rows_settings(setup, rows)]
            settings += _batch_settings(setup, batch) if batch < setup.micro_batch else ()
            what = f"the model {card.name}, micro-batch {batch}, {rows} drawn at once, lengths as they are"
            return Mend(what, "costs what the larger model knows, and time", tuple(settings), single=False)
    return None


def _most_drawn(request: Request, ceiling: int) -> int | None:
    return most_rows(lambda rows: fits(_rows_request(request, rows)), max(ceiling, 0))


def _sibling_id(name: str, card: ModelCard, sibling: ModelCard) -> str:
    wanted = name.replace(card.name, sibling.name)
    coder = wanted.replace(card.name.replace("-", "-Coder-"), sibling.name.replace("-", "-Coder-"))
    return next((one for one in sibling.ids if one in (wanted, coder)), sibling.ids[0])


def _several(request: Request) -> Mend | None:
    """One row at a time in both phases and, if that is not enough, the longest rows that then fit."""
    setup = request.setup
    least = changed(request, micro_batch=1, rollout_rows=1, eval_rows=1, checkpointing="unsloth")
    if not setup.full_finetuning:
        least = changed(least, four_bit=True)
    settings = [*_batch_settings(setup, 1)] if setup.micro_batch > 1 else []
    settings += _rows_settings(setup, 1) if setup.rolls_out and not setup.vllm else ()
    if least.setup.four_bit and not setup.four_bit:
        settings.append("--set model.load_in_4bit=true")
    if setup.checkpointing != "unsloth":
        settings.append("--set model.use_gradient_checkpointing=unsloth")
    if fits(least):
        return Mend("one row at a time, activations offloaded", TIME, tuple(settings), single=False)
    if setup.recipe == SFT:
        row = longest(lambda row: changed(least, row=row), setup.row - 1)
        if row is None:
            return None
        settings.append(f"--set sft.max_length={row}")
        return Mend(
            f"one row of at most {row:,} tokens at a time", "costs the longer rows", tuple(settings), single=False
        )
    whole = setup.prompt + setup.completion

    def shrunk(length: int) -> Request:
        prompt = max(LENGTH_STEP, length * setup.prompt // whole)
        return with_completion(with_prompt(least, prompt), max(LENGTH_STEP, length - prompt))

    length = longest(shrunk, whole - 1)
    if length is None:
        return None
    small = shrunk(length).setup
    settings += [
        f"--set prompt.max_tokens={small.prompt}",
        f"--set generation.max_completion_length={small.completion}",
    ]
    what = f"one row at a time, prompt {small.prompt:,} + completion {small.completion:,} tokens"
    return Mend(what, "costs tasks and thinking", tuple(settings), single=False)
