"""``arcslim grpo``: GRPO on ARC tasks."""

from __future__ import annotations

from typing import Any

from arcslim.cli.options import (
    Data,
    DryRun,
    Force,
    MaxSteps,
    Model,
    MoveAside,
    Preset,
    Resume,
    Reward,
    RunDir,
    Seed,
    Sets,
    TrainOptions,
)
from arcslim.cli.train import command
from arcslim.presets import Resolved


def grpo(
    preset: Preset = None,
    model: Model = None,
    data: Data = None,
    reward: Reward = None,
    max_steps: MaxSteps = None,
    run_dir: RunDir = None,
    resume: Resume = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    sets: Sets = None,
    force: Force = False,
    move_aside: MoveAside = False,
) -> None:
    """GRPO on ARC tasks, with the grid reward and the minimum-thinking reward."""
    options = TrainOptions(
        preset=preset,
        model=model,
        data=data,
        reward=reward,
        max_steps=max_steps,
        run_dir=run_dir,
        seed=seed,
        sets=sets,
        resume=resume,
        dry_run=dry_run,
        force=force,
        move_aside=move_aside,
        recipe="grpo",
    )
    command(options, _run, _dry_run)


def _run(*arguments: Any, **named: Any) -> Any:
    from arcslim.recipes.grpo import run  # torch and the rest: only once the folder is open

    return run(*arguments, **named)


def _dry_run(resolved: Resolved) -> None:
    from arcslim.cli.dry_run import dry_run

    dry_run(resolved)
