"""What every training command does around its recipe: resolve, dry-run, open the run folder, obey Ctrl-C, sum up."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from arcslim.cli.full_disk import disk_explained
from arcslim.cli.options import TrainOptions
from arcslim.cli.preflight import PLAN, PlanCheck, Preflight, look_before
from arcslim.cli.resume import ENVIRONMENT, RESOLVED, look_ahead, resolve
from arcslim.config import Config
from arcslim.errors import ArcslimError, InputError, Stopped
from arcslim.fields import value_of
from arcslim.her_checks import UNREAD
from arcslim.presets import Resolved, load_config, to_toml
from arcslim.runs.console import Tee, open_view
from arcslim.runs.doctor import record
from arcslim.runs.folder import RunFolder
from arcslim.runs.places import fresh_run_dir
from arcslim.runs.signals import StopRequest
from arcslim.runs.trackers import prepare_report_to

Recipe = Callable[..., Any]
Finish = Callable[[str, Path, Any, Config], None]
OF_OTHERS: dict[str | None, tuple[str, ...]] = {
    "grpo": ("sft", "her"),
    "sft": ("grpo", "her"),
    "her": ("sft", *UNREAD),
    "her-pretrain": UNREAD,
}
"""Sections that a recipe does not read."""


def tell_resolved(resolved: Resolved, recipe: str | None, console: Console | None = None) -> None:
    """The resolved configuration in short: what differs from the defaults, with where it comes from, and the doubts.

    What a preset sets for other recipes alone is not shown; what was typed is, whatever it is for.
    """
    console = console or Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    defaults = Config()
    for name, value, origin in resolved.changed():
        others = name.partition(".")[0] in OF_OTHERS.get(recipe, ())
        if origin.startswith("--") or (value != value_of(defaults, name) and not others):
            table.add_row(name, str(value), f"[dim]{origin}[/dim]")
    console.print(table)
    for warning in resolved.warnings:
        console.print("doubtful:", str(warning), style="yellow", markup=False)


def command(
    options: TrainOptions, run: Recipe, dry_run: Callable[[Resolved], None], finish: Finish | None = None
) -> None:
    """What a training command does with what was typed: show the plan, or run the recipe.

    ``finish``: what is said at the end, in place of ``sum_up``.
    """
    from arcslim.recipes.state import STATE_FILE

    options, resolved = resolve(options)
    changes = look_ahead(options, resolved.config, (STATE_FILE,))
    if options.dry_run:
        dry_run(resolved)
        for words in changes:
            Console(highlight=False, emoji=False).print("doubtful:", words, style="yellow", markup=False)
        look_before(resolved.config, str(options.recipe), force=options.force)
        return
    tell_resolved(resolved, options.recipe)
    train(options, resolved, run, changes, finish or sum_up)


def train(options: TrainOptions, resolved: Resolved, run: Recipe, changes: Sequence[str], finish: Finish) -> None:
    """Run a recipe in its folder, with the console's view and the records on disk.

    ``changes``: what differs from the run that is gone on with, in words.
    """
    config, recipe = resolved.config, options.recipe
    assert recipe is not None  # every training command names its own
    check_early(config, recipe)
    before = look_before(config, recipe, force=options.force)
    place = Path(config.run.dir) if config.run.dir is not None else fresh_run_dir(recipe, resolved.preset)
    with _open_folder(place, options) as folder:
        report_to, notes = prepare_report_to(config.run.report_to, folder.path)
        config = config.model_copy(update={"run": config.run.model_copy(update={"report_to": tuple(report_to)})})
        config = _with_measured_floor(config, folder, options)
        title = f"arcslim {recipe} · {resolved.preset or 'defaults'} · {folder.path}"
        view = open_view(title, price_per_hour=config.run.price_per_hour, max_hours=config.run.max_hours)
        with view, StopRequest(view.stopping) as stop:
            sink = Tee([folder, view])
            if before.plan is not None:
                sink = Tee([folder, view, PlanCheck(before.plan, sink.event)])
            folder.when_it_goes_on(lambda: _write_records(folder, resolved, config, recipe, before))
            for note in folder.notes:
                view.event(folder.start_step, "restart", note)  # the folder has written them down already
            for note in (*changes, *notes, *before.notes, *(f"doubtful: {warning}" for warning in resolved.warnings)):
                sink.event(folder.start_step, "warning", note)
            resume_from = None if folder.checkpoint is None else folder.checkpoint.path
            try:
                with disk_explained(folder.path, resume_line(recipe, folder.path)):
                    outcome = run(config, sink, folder, stop, cache_dir=folder.path / "cache", resume_from=resume_from)
            except Stopped as stopped:
                stopped.hint = resume_line(recipe, folder.path)
                raise
            except ArcslimError as error:
                with contextlib.suppress(ArcslimError, OSError):  # where the disk is full it cannot be written down
                    sink.event(folder.start_step, "end", f"failed: {error.message}")
                raise
        # The reader has gone (`| head`), which Rich makes an exit with 1 of; all is saved.
        with contextlib.suppress(BrokenPipeError, SystemExit):
            finish(recipe, folder.path, outcome, config)


def check_early(config: Config, recipe: str) -> None:
    """What can be refused before a folder is made or anything is loaded, beside the configuration.

    Raises:
        InputError: it was started as one of several processes, or reports to a tracker that is not installed.
        RewardError: an own reward cannot be imported or called.
        ModelError: there is no such model folder, the name cannot be a model's, or it cannot be trained as asked.
    """
    from arcslim.policy.sources import refuse_untrainable
    from arcslim.rewards.suite import RewardSuite
    from arcslim.runs.tracker_sink import refuse_no_board

    world_size = os.environ.get("WORLD_SIZE", "1")
    if world_size not in ("", "1"):
        raise InputError(
            f"this was started as one of several processes (WORLD_SIZE={world_size}), and arcslim trains with one",
            "start it without torchrun or accelerate launch",
        )
    prepare_report_to(config.run.report_to, variables=dict(os.environ))  # of a copy: here it only looks
    if recipe == "her":  # it writes TensorBoard's file itself
        refuse_no_board(config.run.report_to)
    if recipe == "grpo":
        RewardSuite.from_config(config.reward).check(())
    refuse_untrainable(config.model_for(recipe))


def resume_line(recipe: str, path: Path) -> str:
    return f"go on with: arcslim {recipe.replace('-', ' ')} --run-dir {shlex.quote(str(path))} --resume auto"


def sum_up(recipe: str, path: Path, outcome: Any, config: Config) -> None:
    """Start against end, figure by figure, and where everything lies."""
    learned = "model" if config.model.full_finetuning else "adapter"
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
    console.print(f"run folder: {path} (the {learned} is in {path / 'final'})", markup=False, soft_wrap=True)


@contextlib.contextmanager
def _open_folder(place: Path, options: TrainOptions) -> Iterator[RunFolder]:
    with disk_explained(place, resume_line(str(options.recipe), place)):
        folder = _opened(place, options)
    with folder:
        yield folder


def _opened(place: Path, options: TrainOptions) -> RunFolder:
    from arcslim.recipes.state import STATE_FILE

    if options.resume is None:
        return RunFolder.create(place, move_aside=options.clears)
    return RunFolder.resume(place, options.resume, required=(STATE_FILE,), rewind=False)


def _write_records(folder: RunFolder, resolved: Resolved, config: Config, recipe: str, before: Preflight) -> None:
    """What is run, and on what. The folder's own place is left out: the file is a preset for another run."""
    elsewhere = config.model_copy(update={"run": config.run.model_copy(update={"dir": None})})
    folder.write_text(RESOLVED, to_toml(elsewhere, resolved.origins))
    folder.write_json(ENVIRONMENT, record(folder.path, world_size=1, recipe=recipe))
    if before.plan is not None:
        folder.write_json(PLAN, before.plan.to_dict())


def _with_measured_floor(config: Config, folder: RunFolder, options: TrainOptions) -> Config:
    """On a resume: the least thinking that the run measured at its start, where nothing else is asked for."""
    thinking, old = config.reward.min_thinking, folder.path / RESOLVED
    if folder.checkpoint is None or thinking.min_tokens or not old.is_file():
        return config
    measured = load_config(str(old), recipe=options.recipe).config.reward.min_thinking.min_tokens
    kept = config.reward.model_copy(update={"min_thinking": thinking.model_copy(update={"min_tokens": measured})})
    return config.model_copy(update={"reward": kept})
