"""``arcslim plan``: will it fit, and what to change; no GPU, no network and no torch needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from arcslim.cards import GIB, GpuCard, ModelCard, card_from_config, find_gpu, find_model, find_model_card, gpu_named_in
from arcslim.cli.options import Preset, Sets
from arcslim.config import Config
from arcslim.errors import InputError, ModelError
from arcslim.presets import find_preset, load_config

DOES_NOT_FIT = 3
Positive = Annotated[int | None, typer.Option(min=1)]

Model = Annotated[
    str | None,
    typer.Option("--model", help="a model's name or hub id, its folder, or its config.json \\[model.name]"),
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
Recipe = Annotated[Literal["grpo", "sft"] | None, typer.Option("--recipe", help="grpo, or sft; else the preset's own")]
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
    from arcslim.memory.plan import make_plan
    from arcslim.memory.setup import Request, setup_of

    recipe = recipe or recipe_of(preset)
    flags = {
        "model.name": model,
        "model.load_in_4bit": None if quantisation is None else quantisation == "nf4",
        "model.fast_inference": vllm,
        "sft.lora_r" if recipe == "sft" else "lora.r": lora_r,
    }
    config = load_config(preset, sets or (), flags, recipe=recipe).config
    setup = setup_of(config, recipe)
    setup = _with_flags(setup, context=context, generations=generations, batch=batch)
    card = find_card(config.model.name, config.model.revision)
    made = make_plan(Request(card, gpu_of(gpu, preset, config), setup))
    if as_json:
        typer.echo(made.to_json())
    else:
        from arcslim.cli.plan_view import show_plan

        show_plan(made)
    if not made.fits:
        raise typer.Exit(DOES_NOT_FIT)


def recipe_of(preset: str | None) -> Literal["grpo", "sft"]:
    """The recipe whose command the preset's header gives; grpo where it gives none."""
    run = find_preset(preset).entry("Run") if preset is not None else ""
    return "sft" if "arcslim sft" in run else "grpo"


def _with_flags(setup: Any, *, context: int | None, generations: int | None, batch: int | None) -> Any:
    """The setup with what was typed. It need not be a run that would start: memory alone is asked about."""
    if batch is not None:
        setup = replace(setup, micro_batch=batch)
    if generations is not None:
        setup = replace(setup, generations=generations, rollout_rows=generations, eval_rows=generations)
    if context is None:
        return setup
    if setup.recipe == "sft":
        return replace(setup, row=context)
    prompt = min(setup.prompt, context // 2)  # the prompt's limit stays, the completion takes the rest
    return replace(setup, prompt=prompt, completion=context - prompt, row=context)


def gpu_of(named: str | None, preset: str | None, config: Config) -> GpuCard:
    """The GPU asked for, or the one that the preset was made for, or none at all for the tiny model.

    Raises InputError for an unknown GPU, or where none is named at all.
    """
    if named is not None:
        return find_gpu(named)
    found = gpu_named_in(find_preset(preset).entry("Made for")) if preset is not None else None
    if found is not None:
        return found
    if config.model.name == "tiny":
        return find_gpu("cpu")
    raise InputError("on which GPU? the preset names none", "say --gpu 4090, --gpu h100, --gpu 24 (GiB), …")


def find_card(name: str, revision: str | None = None) -> ModelCard:
    """The card of what ``model.name`` may be. A hub id without a card is looked up in the local cache and, where there
    is a network, on the hub: its config.json alone. Raises ModelError, with suggestions."""
    if Path(name).expanduser().exists() or find_model_card(name) is not None or "/" not in name:
        return find_model(name)
    config = _hub_config(name, revision)
    if config is None:
        return find_model(name)  # which says what is known, and what is near
    return card_from_config(json.loads(Path(config).read_text(encoding="utf-8")), name, f"{name}, config.json")


def _hub_config(name: str, revision: str | None) -> str | None:
    """The path of a hub model's config.json; None where the hub is out of reach. Raises ModelError where the hub says
    that there is no such model, or that it is gated."""
    from arcslim.policy.sources import hub_state

    if hub_state(name, revision) == "absent":
        return None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return str(hf_hub_download(name, "config.json", revision=revision))
    except EntryNotFoundError as error:
        raise ModelError(f"{name} has no config.json", "of an adapter, name the model that it belongs to") from error
    except OSError:
        return None  # the network went away between the two


def gib(amount: float) -> str:
    """Bytes as GiB with one digit, two under 1."""
    size = amount / GIB
    return f"{size:.2f}" if 0 < size < 0.95 else f"{size:.1f}"
