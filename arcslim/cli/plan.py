"""``arcslim plan``: will it fit, and what to change; no GPU, no network and no torch needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from arcslim.cards import GIB, GpuCard, find_gpu, gpu_named_in
from arcslim.cli.options import Preset, Sets
from arcslim.cli.plan_model import packing_for, rank_of_adapter, shapes_of
from arcslim.config import MODEL_KNOBS, Config
from arcslim.errors import InputError
from arcslim.presets import find_preset, load_config

if TYPE_CHECKING:
    from arcslim.memory.plan import Plan
    from arcslim.memory.setup import Setup

DOES_NOT_FIT = 3
Positive = Annotated[int | None, typer.Option(min=1)]

Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="a model's name or hub id, its folder or config.json, a run, or `random:CARD` \\[model.name]"
    ),
]
Gpu = Annotated[
    str | None, typer.Option("--gpu", help="4090, a100-80, h100, …, GiB as a number, or cpu; else the preset's own")
]
Context = Annotated[
    int | None,
    typer.Option("--context", min=2, help="tokens of prompt and completion together (of SFT: of the longest row)"),
]
Generations = Annotated[int | None, typer.Option("--generations", min=2, help="completions a prompt, drawn at once")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="rows of a micro-batch of the update")]
Quantisation = Annotated[
    Literal["nf4", "bf16"] | None, typer.Option("--quantisation", help="of the weights \\[model.load_in_4bit]")
]
LoraR = Annotated[int | None, typer.Option("--lora-r", min=1, help="the adapter's rank \\[lora.r, of SFT sft.lora_r]")]
Vllm = Annotated[
    bool | None, typer.Option("--vllm/--no-vllm", help="rollouts with vLLM or without \\[model.fast_inference]")
]
RecipeName = Literal["grpo", "sft", "her", "her-pretrain"]
Recipe = Annotated[RecipeName | None, typer.Option("--recipe", help="else the preset's own")]
Json = Annotated[bool, typer.Option("--json", help="the whole plan as JSON")]


def plan(
    preset: Preset = None,
    model: Model = None,
    gpu: Gpu = None,
    context: Context = None,
    generations: Generations = None,
    batch: Batch = None,
    quantisation: Quantisation = None,
    lora_r: LoraR = None,
    vllm: Vllm = None,
    recipe: Recipe = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Will it fit? Each phase's memory, item by item, and what to change. Exit code 0 if it fits, 3 if not."""
    recipe = recipe or recipe_of(preset)
    own = recipe if recipe.startswith("her") else ""
    if own and vllm:
        raise InputError("HER draws without vLLM", "leave --vllm out")
    four_bit = "her.load_in_4bit" if own else "model.load_in_4bit"
    flags = {
        MODEL_KNOBS.get(recipe, "model.name"): model,
        four_bit: None if quantisation is None else quantisation == "nf4",
        "model.fast_inference": vllm,
        "her.lora_r" if own else "sft.lora_r" if recipe == "sft" else "lora.r": lora_r,
    }
    config = load_config(preset, sets or (), flags, recipe=recipe).config
    typed = {"context": context, "generations": generations, "batch": batch}
    made = plan_for(config, recipe, gpu_of(gpu, preset, config, recipe), keep_rank=lora_r is not None, **typed)
    if as_json:
        typer.echo(made.to_json())
    else:
        from arcslim.cli.plan_view import show_plan

        show_plan(made)
    if not made.fits:
        raise typer.Exit(DOES_NOT_FIT)


def plan_for(config: Config, recipe: str, gpu: GpuCard, *, keep_rank: bool = False, **typed: int | None) -> Plan:
    """The plan of a recipe on a card. ``typed``: context, generations and batch in the configuration's place.

    An adapter keeps its own rank unless ``keep_rank``. Raises ModelError where the model's shapes are not to be had.
    """
    from arcslim.memory.plan import make_plan
    from arcslim.memory.setup import Request, setup_of

    name = config.model_for(recipe).name
    revision = config.model.revision
    card, setup = shapes_of(name, revision), _with_typed(setup_of(config, recipe), **typed)
    rank = None if keep_rank else rank_of_adapter(name)
    if rank is not None:
        setup = replace(setup, lora_r=rank)
    return make_plan(Request(card, gpu, setup, packing_for(card, name, on_gpu=not gpu.is_cpu)))


def recipe_of(preset: str | None) -> Literal["grpo", "sft"]:
    """The recipe whose command the preset's header gives; grpo where it gives none."""
    run = find_preset(preset).entry("Run") if preset is not None else ""
    return "sft" if "arcslim sft" in run else "grpo"


def _with_typed(
    setup: Setup, context: int | None = None, generations: int | None = None, batch: int | None = None
) -> Setup:
    """The setup with what was typed. It need not be a run that would start: memory alone is asked about."""
    if batch is not None:
        setup = replace(setup, micro_batch=batch)
    if generations is not None:
        setup = replace(setup, generations=generations, rollout_rows=generations, eval_rows=generations)
    if context is None:
        return setup
    if not setup.learns_from_rollouts:
        return replace(setup, row=context)
    if setup.recipe == "grpo":
        prompt = min(setup.prompt, context // 2)  # the prompt's limit stays, the completion takes the rest
    elif setup.prompt < context:
        prompt = setup.prompt
    else:
        raise InputError(f"--context {context}: the question alone may have {setup.prompt} tokens", "give more")
    return replace(setup, prompt=prompt, completion=context - prompt, row=context)


def gpu_of(named: str | None, preset: str | None, config: Config, recipe: str = "grpo") -> GpuCard:
    """The GPU asked for, or the one that the preset was made for, or none at all for an embedded model.

    Raises InputError for an unknown GPU, or where none is named at all.
    """

    if named is not None:
        return find_gpu(named)
    found = gpu_named_in(find_preset(preset).entry("Made for")) if preset is not None else None
    if found is not None:
        return found
    if config.model_for(recipe).name in ("tiny", "tiny-draw"):
        return find_gpu("cpu")
    where = "the preset names none" if preset is not None else "none is named"
    raise InputError(f"on which GPU? {where}", "say --gpu 4090, --gpu h100, --gpu 24 (GiB), …")


def gib(amount: float) -> str:
    """Bytes as GiB with one digit, two under 1."""
    size = amount / GIB
    return f"{size:.2f}" if 0 < size < 0.95 else f"{size:.1f}"
