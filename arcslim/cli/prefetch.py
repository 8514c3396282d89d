"""``arcslim prefetch``: what a run needs of the hub, into its cache, before paid minutes run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from arcslim.cards import gpu_named_in
from arcslim.cli.options import Data, Model, Preset, Sets
from arcslim.cli.plan import RecipeName, recipe_of
from arcslim.config import MODEL_KNOBS
from arcslim.errors import InputError
from arcslim.presets import find_preset, load_config
from arcslim.runs.check import gib

Only = Annotated[bool, typer.Option("--dry-run", help="sizes and free disk alone, nothing is fetched")]
Recipe = Annotated[RecipeName | None, typer.Option("--recipe", help="whose run; else the preset's own")]


def prefetch(
    preset: Preset = None,
    model: Model = None,
    data: Data = None,
    recipe: Recipe = None,
    sets: Sets = None,
    only: Only = False,
) -> None:
    """Fetch a preset's weights, and data sets of the hub, into the cache; what is there is not fetched again."""
    if not (preset or model or data or sets):
        raise InputError("what is to be fetched?", "give --preset, --model or --data hub:OWNER/NAME")
    from arcslim.cli.preflight import gpu_here
    from arcslim.policy.sources import resolve
    from arcslim.runs.prefetch import adapter_base, fetch, listed, model_files, refuse_full, wanted_of

    found = find_preset(preset) if preset is not None else None
    recipe = recipe or recipe_of(preset)
    flags = {MODEL_KNOBS.get(recipe, "model.name"): model, "data.sources": list(data) if data else None}
    config = load_config(preset, sets or (), flags, recipe=recipe).config
    # Weights differ by where they will be loaded: where the preset says, else here.
    on_gpu = bool(gpu_named_in(found.entry("Made for"))) if found is not None else False
    on_gpu = on_gpu or gpu_here().card is not None
    wanted, notes = wanted_of(config, recipe, on_gpu=on_gpu)
    console = Console(highlight=False, emoji=False)
    if found is None and not on_gpu and config.model_for(recipe).load_in_4bit and wanted:
        notes.append(
            "for a machine without a GPU, as this one: with one, Unsloth would load weights that are packed already. "
            "Name a preset that is for a card, or fetch on the machine that has it"
        )
    for note in notes:
        console.print(note, markup=False)
    lists = [listed(one) for one in wanted]
    for one in list(lists):
        base = adapter_base(one) if one.wanted.kind == "model" else None
        if base is not None and resolve(base).kind == "hub":  # `tiny` and `random:CARD` are made here
            four_bit = config.model_for(recipe).load_in_4bit
            lists += [listed(more) for more in model_files(base, None, four_bit=four_bit, on_gpu=on_gpu)]
    if not lists:
        return
    table = Table(box=None, pad_edge=False)
    for heading, justify in (
        ("of the hub", "left"),
        ("files", "right"),
        ("size", "right"),
        ("missing", "right"),
        ("", "left"),
    ):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for one in lists:
        table.add_row(one.wanted.name, str(len(one.files)), gib(one.total), gib(one.missing), one.wanted.why)
    console.print(table)
    console.print(refuse_full(lists), markup=False, soft_wrap=True)
    if only:
        return
    for one in lists:
        if one.missing or one.wanted.kind == "dataset":
            fetch(one)
    console.print("all of it is in the cache", style="bold green")
