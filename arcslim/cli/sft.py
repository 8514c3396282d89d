"""``arcslim sft``: reasoning SFT, a row a sequence, the `<think>` prefill the same in training and inference."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from arcslim.cli.options import (
    Data,
    DryRun,
    Force,
    MaxSteps,
    Model,
    MoveAside,
    Preset,
    Resume,
    RunDir,
    Seed,
    Sets,
    TrainOptions,
)
from arcslim.cli.train import command
from arcslim.presets import Resolved

Packing = Annotated[
    bool | None,
    typer.Option(
        "--packing/--no-packing",
        help="several rows in one sequence; hurts reasoning traces, so not by default \\[sft.packing=bfd|none]",
        show_default=False,
    ),
]


def sft(
    preset: Preset = None,
    model: Model = None,
    data: Data = None,
    packing: Packing = None,
    max_steps: MaxSteps = None,
    run_dir: RunDir = None,
    resume: Resume = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    sets: Sets = None,
    force: Force = False,
    move_aside: MoveAside = False,
) -> None:
    """SFT on reasoning traces: JSONL, parquet, a hub data set, RE-ARC, or a GRPO run's right rollouts."""
    options = TrainOptions(
        preset=preset,
        model=model,
        data=data,
        max_steps=max_steps,
        run_dir=run_dir,
        seed=seed,
        sets=sets,
        resume=resume,
        dry_run=dry_run,
        force=force,
        move_aside=move_aside,
        flags={"sft.packing": None if packing is None else "bfd" if packing else "none"},
        max_steps_knob="sft.max_steps",
        recipe="sft",
    )
    command(options, _run, _dry_run)


def _run(*arguments: Any, **named: Any) -> Any:
    from arcslim.recipes.sft import run  # torch and the rest: only once the folder is open

    return run(*arguments, **named)


def _dry_run(resolved: Resolved) -> None:
    from arcslim.cli.sft_dry_run import dry_run

    dry_run(resolved)
