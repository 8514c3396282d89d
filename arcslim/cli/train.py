"""What every training command does around its recipe: resolve, dry-run, open the run folder, obey Ctrl-C, sum up."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from arcslim.cli.options import TrainOptions
from arcslim.config import Config
from arcslim.errors import ArcslimError, InputError, RunFolderError, Stopped
from arcslim.fields import FIELDS, value_of
from arcslim.presets import Resolved, load_config, to_toml
from arcslim.runs.console import Tee, open_view
from arcslim.runs.environment import environment
from arcslim.runs.folder import RunFolder
from arcslim.runs.places import fresh_run_dir
from arcslim.runs.signals import StopRequest
from arcslim.runs.trackers import prepare_report_to

RESOLVED = "resolved.toml"
NOT_THE_RUN = ("run.dir", "data.workers", "reward.min_thinking.min_tokens")  # may differ on a resume
# What a run that is resumed keeps: what it learns, from what, and in which order; its figures would mean two things.
KEPT_SECTIONS = ("model", "lora", "data", "prompt", "reward")
KEPT = ("run.seed", "sft.packing", "sft.max_length", "sft.over_length", "sft.samples_per_task", "sft.batch_size",
        "sft.group_by_length", "sft.lora_r", "sft.lora_alpha", "sft.prefill_template")  # fmt: skip
Recipe = Callable[..., Any]


def resolve(options: TrainOptions) -> tuple[TrainOptions, Resolved]:
    """Where a run is resumed, its folder is known, and its own ``resolved.toml`` stands in for a missing preset.

    Raises:
        ConfigError: everything that is wrong with the configuration.
        InputError: ``--resume`` without a run to resume.
    """
    if options.resume is not None and options.run_dir is None:
        checkpoint = Path(options.resume)
        if options.resume in ("auto", "newest") or not checkpoint.name.startswith("checkpoint-"):
            raise InputError("--resume does not know which run to go on with", "name its folder with --run-dir")
        options = replace(options, run_dir=str(checkpoint.parent))
    own = None if options.resume is None else Path(str(options.run_dir)) / RESOLVED
    if options.preset is None and own is not None and own.is_file():
        options = replace(options, preset=str(own))
    return options, options.resolve()


def tell_resolved(resolved: Resolved, console: Console | None = None) -> None:
    """The resolved configuration in short: what differs from the defaults, with where it comes from, and the doubts."""
    console = console or Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    defaults = Config()
    for name, value, origin in resolved.changed():
        if origin.startswith("--") or value != value_of(defaults, name):
            table.add_row(name, str(value), f"[dim]{origin}[/dim]")
    console.print(table)
    for warning in resolved.warnings:
        console.print("doubtful:", str(warning), style="yellow", markup=False)


def command(options: TrainOptions, run: Recipe, dry_run: Callable[[Resolved], None]) -> None:
    """What a training command does with what was typed: show the plan, or run the recipe."""
    options, resolved = resolve(options)
    if options.dry_run:
        dry_run(resolved)
        return
    tell_resolved(resolved)
    train(options, resolved, run)


def train(options: TrainOptions, resolved: Resolved, run: Recipe) -> None:
    """Run a recipe in its folder, with the console's view and the records on disk."""
    config, recipe = resolved.config, options.recipe
    assert recipe is not None  # every training command names its own
    check_early(config, rewards=recipe == "grpo")
    place = Path(config.run.dir) if config.run.dir is not None else fresh_run_dir(recipe, resolved.preset)
    with _open_folder(place, options) as folder:
        report_to, notes = prepare_report_to(config.run.report_to, folder.path)
        config = config.model_copy(update={"run": config.run.model_copy(update={"report_to": tuple(report_to)})})
        config = _with_measured_floor(config, folder, options)
        title = f"arcslim {recipe} · {resolved.preset or 'defaults'} · {folder.path}"
        view = open_view(title, price_per_hour=config.run.price_per_hour, max_hours=config.run.max_hours)
        with view, StopRequest(view.stopping) as stop:
            sink = Tee([folder, view])
            _refuse_another_run(folder, config, options, sink)
            _write_records(folder, resolved, config)
            for note in folder.notes:
                view.event(folder.start_step, "restart", note)  # the folder has written them down already
            for note in (*notes, *(f"doubtful: {warning}" for warning in resolved.warnings)):
                sink.event(folder.start_step, "warning", note)
            resume_from = None if folder.checkpoint is None else folder.checkpoint.path
            try:
                outcome = run(config, sink, folder, stop, cache_dir=folder.path / "cache", resume_from=resume_from)
            except Stopped as stopped:
                stopped.hint = resume_line(recipe, folder.path)
                raise
            except ArcslimError as error:
                sink.event(folder.start_step, "end", f"failed: {error.message}")
                raise
        with contextlib.suppress(BrokenPipeError):  # the reader has gone (`| head`); all is saved
            sum_up(recipe, folder.path, outcome)


def check_early(config: Config, *, rewards: bool) -> None:
    """What can be refused before a folder is made or anything is loaded, beside the configuration.

    ``rewards``: whether the recipe pays any.

    Raises:
        InputError: it was started as one of several processes.
        RewardError: an own reward cannot be imported or called.
        ModelError: there is no such model folder, or the name cannot be a model's.
    """
    from arcslim.policy.sources import resolve as resolve_model
    from arcslim.rewards.suite import RewardSuite

    world_size = os.environ.get("WORLD_SIZE", "1")
    if world_size not in ("", "1"):
        raise InputError(
            f"this was started as one of several processes (WORLD_SIZE={world_size}), and arcslim trains with one",
            "start it without torchrun or accelerate launch",
        )
    if rewards:
        RewardSuite.from_config(config.reward).check(())
    resolve_model(config.model.name)


def _refuse_another_run(folder: RunFolder, config: Config, options: TrainOptions, sink: Tee) -> None:
    """A run that is resumed keeps its model, data, prompts and rewards, or its figures would mean two things.

    Raises:
        RunFolderError: one of them differs, and not ``--force``.
    """
    old = folder.path / RESOLVED
    if folder.checkpoint is None or not old.is_file():
        return
    before = load_config(str(old), recipe=options.recipe).config
    names = [name for name in FIELDS if name not in NOT_THE_RUN]
    changed = [
        f"{name} {value_of(before, name)} → {value_of(config, name)}"
        for name in names
        if value_of(before, name) != value_of(config, name)
    ]
    other = [words for words in changed if words.split()[0] in KEPT or words.split(".")[0] in KEPT_SECTIONS]
    if other and not options.force:
        raise RunFolderError(
            f"{folder.path} is the run of another configuration: {'; '.join(other)}",
            "leave --preset and those settings out, choose another --run-dir, or go on all the same with --force",
        )
    if changed:
        sink.event(folder.start_step, "warning", f"resumed with other settings: {'; '.join(changed)}")


def resume_line(recipe: str, path: Path) -> str:
    return f"go on with: arcslim {recipe} --run-dir {path} --resume auto"


def sum_up(recipe: str, path: Path, outcome: Any) -> None:
    """Start against end, figure by figure, and where everything lies."""
    console = Console(emoji=False)
    table = Table(box=None, pad_edge=False)
    for heading in ("held out", "start", "best"):
        table.add_column(heading, justify="left" if heading == "held out" else "right")
    for name, end in outcome.end.items():
        if name.split("/")[-1].startswith(("pass@", "thinking_tokens_mean")) or name == "eval/loss":
            start = outcome.start.get(name)
            form = "{:.1%}" if "pass@" in name else "{:.4f}" if "loss" in name else "{:.1f}"
            table.add_row(name, "" if start is None else form.format(start), form.format(end))
    if outcome.end:
        console.print(table)
    if outcome.best_step is not None:
        console.print(f"best checkpoint: step {outcome.best_step} of {outcome.steps}")
    if outcome.stopped:
        console.print(f"stopped: {outcome.stopped}; {resume_line(recipe, path)}", markup=False)
    console.print(f"run folder: {path} (the adapter is in {path / 'final'})", markup=False, soft_wrap=True)


@contextlib.contextmanager
def _open_folder(place: Path, options: TrainOptions) -> Iterator[RunFolder]:
    from arcslim.recipes.state import STATE_FILE

    if options.resume is None:
        folder = RunFolder.create(place, force=options.force)
    else:
        folder = RunFolder.resume(place, options.resume, required=(STATE_FILE,))
    with folder:
        yield folder


def _write_records(folder: RunFolder, resolved: Resolved, config: Config) -> None:
    """What is run, and on what. The folder's own place is left out: the file is a preset for another run."""
    elsewhere = config.model_copy(update={"run": config.run.model_copy(update={"dir": None})})
    folder.write_text(RESOLVED, to_toml(elsewhere, resolved.origins))
    folder.write_json("environment.json", environment(world_size=1))


def _with_measured_floor(config: Config, folder: RunFolder, options: TrainOptions) -> Config:
    """On a resume: the least thinking that the run measured at its start, where nothing else is asked for."""
    thinking, old = config.reward.min_thinking, folder.path / RESOLVED
    if folder.checkpoint is None or thinking.min_tokens or not old.is_file():
        return config
    measured = load_config(str(old), recipe=options.recipe).config.reward.min_thinking.min_tokens
    kept = config.reward.model_copy(update={"min_thinking": thinking.model_copy(update={"min_tokens": measured})})
    return config.model_copy(update={"reward": kept})
