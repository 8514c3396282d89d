"""``arcslim doctor``: is this machine ready? One screen, each line ok, doubtful or broken, with the mend."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from arcslim.cli.options import Preset
from arcslim.cli.plan import recipe_of
from arcslim.runs.check import BROKEN, DOUBTFUL, OK, Check
from arcslim.runs.doctor_machine import Room

STYLES = {OK: "green", DOUBTFUL: "yellow", BROKEN: "bold red"}


def doctor(
    preset: Preset = None,
    run_dir: Annotated[Path, typer.Option("--run-dir", help="where runs are to be written")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="the same as JSON, with all versions")] = False,
) -> None:
    """Is this machine ready? Each line ok, doubtful or broken, with the mend. Exit code 1 when something is broken."""
    from arcslim.runs.doctor import all_checks, record

    room = room_of(preset) if preset is not None else Room()
    console = Console(stderr=True)
    with console.status("trying torch, bitsandbytes, xformers, Triton …"):
        checks = list(all_checks(run_dir, room))
    if as_json:
        told = record(run_dir, world_size=1, recipe=None) | {"checks": [check.to_dict() for check in checks]}
        typer.echo(json.dumps({"state": worst(checks)} | told, indent=1))
    else:
        show(checks)
    if worst(checks) == BROKEN:
        raise typer.Exit(1)


def worst(checks: Sequence[Check]) -> str:
    return max((check.state for check in checks), key=(OK, DOUBTFUL, BROKEN).index)


def show(checks: Sequence[Check], console: Console | None = None) -> None:
    console = console or Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row(f"[{STYLES[check.state]}]{check.state}[/]", check.name, _plain(check.found))
        if check.mend is not None and check.state != OK:
            table.add_row("", "", f"[dim]→ {_plain(check.mend)}[/]")
    console.print(table)
    counts = {state: sum(check.state == state for check in checks) for state in (BROKEN, DOUBTFUL)}
    if counts[BROKEN]:
        console.print(f"{counts[BROKEN]} broken, {counts[DOUBTFUL]} doubtful", style="bold red")
    else:
        console.print(f"ready; {counts[DOUBTFUL]} doubtful" if counts[DOUBTFUL] else "ready", style="bold green")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def room_of(preset: str) -> Room:
    """The disk that a preset wants: its weights, less what of them is in the cache or lies in a folder, and the
    checkpoints that it keeps."""
    from arcslim.cards import cpu_card, find_model, gpu_named_in
    from arcslim.cli.plan_model import packing_for
    from arcslim.errors import ModelError
    from arcslim.memory.formulas import held_weights
    from arcslim.memory.phases import trained_parameters
    from arcslim.memory.setup import Request, setup_of
    from arcslim.policy.sources import resolve
    from arcslim.policy.weights import weights_repository
    from arcslim.presets import find_preset, load_config
    from arcslim.runs.doctor_machine import cached_bytes

    recipe = recipe_of(preset)
    config = load_config(preset, recipe=recipe).config
    try:
        card = find_model(config.model.name)
    except ModelError:
        return Room()
    setup = setup_of(config, recipe)
    weights = 0.0
    if resolve(config.model.name).kind == "hub":
        on_gpu = gpu_named_in(find_preset(preset).entry("Made for")) is not None
        repository = weights_repository(config.model.name, four_bit=setup.four_bit, on_gpu=on_gpu)
        kept = packing_for(card, config.model.name, on_gpu=on_gpu).kept
        size = sum(held_weights(card, four_bit=setup.four_bit, value_bytes=2, kept=kept))
        weights = max(0.0, float(size - cached_bytes(repository)))
    saved = trained_parameters(Request(card, cpu_card(), setup)) * (4 if setup.full_finetuning else 6)
    return Room(weights, max(saved * (config.run.save_total_limit + 2), 1024**3), sure=True)
