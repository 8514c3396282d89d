"""``arcslim her``: learn at test time to draw one target that the model cannot draw yet."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from arcslim.cli.options import DryRun, Force, MoveAside, Preset, Resume, RunDir, Seed, Sets, TrainOptions
from arcslim.cli.preflight import plan_lines
from arcslim.cli.train import check_early, command, resume_line, tell_resolved
from arcslim.config import Config
from arcslim.errors import InputError, RunFolderError
from arcslim.presets import Resolved
from arcslim.runs.console import Tee
from arcslim.tasks.redraw import ANOTHER

TARGET_FILE, PROGRAM_FILE = "target.json", "program.txt"
REDRAW_SECONDS = 60
LOOKED_AT = 2000  # drawings of which a dry run counts the tokens: they are all of one kind

app = typer.Typer(
    help="Hindsight experience replay: learn at test time to draw a target that the model cannot draw.",
    invoke_without_command=True,
)
Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="a run of `her pretrain`, a model or adapter folder, a hub id, or `tiny-draw` \\[her.model]"
    ),
]
BaseModel = Annotated[
    str | None,
    typer.Option("--model", help="what learns to draw: a hub id, a folder, or `tiny-draw` \\[her.base.model]"),
]
BaseSteps = Annotated[int | None, typer.Option("--max-steps", help="optimizer steps \\[her.base.max_steps]")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", help="a name (`12-squares`, `chick`), a PNG or grid file, TASK.json#test0, arc1:ID \\[her.target]"
    ),
]
MaxEpochs = Annotated[int | None, typer.Option("--max-epochs", help="epochs at most \\[her.max_epochs]")]


@app.callback()
def her(
    context: typer.Context,
    target: Target = None,
    preset: Preset = None,
    model: Model = None,
    max_epochs: MaxEpochs = None,
    run_dir: RunDir = None,
    resume: Resume = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    sets: Sets = None,
    force: Force = False,
    move_aside: MoveAside = False,
) -> None:
    """Sample programs, take what each drew for what was asked, learn from it, again, until one draws the target."""
    if context.invoked_subcommand is not None:
        given = [name for name, value in context.params.items() if value]
        if given:
            raise InputError(
                f"--{given[0].replace('_', '-')} stands before `{context.invoked_subcommand}`, which would not see it",
                f"write arcslim her {context.invoked_subcommand} --…",
            )
        return
    options = TrainOptions(
        preset=preset,
        max_steps=max_epochs,
        run_dir=run_dir,
        seed=seed,
        sets=sets,
        resume=resume,
        dry_run=dry_run,
        force=force,
        move_aside=move_aside,
        flags={"her.target": target, "her.model": model},
        max_steps_knob="her.max_epochs",
        recipe="her",
    )
    command(options, _run, _dry_run, _finish)


def _run(config: Config, sink: Any, folder: Any, *arguments: Any, **named: Any) -> Any:
    from arcslim.recipes.her import run, target_of  # torch and the rest: only once the folder is open
    from arcslim.runs.tracker_sink import TrackerSink

    wanted = target_of(config)
    given = {"blank": wanted.blank.tolist(), "image": wanted.image.tolist()}
    _refuse_another_image(folder, given)
    folder.when_it_goes_on(lambda: folder.write_json(TARGET_FILE, given))
    try:
        with TrackerSink(config.run.report_to, folder.path) as trackers:
            return run(config, Tee([sink, trackers]), folder, *arguments, **named)
    finally:
        with contextlib.suppress(OSError):  # a disk that is full must not hide how the run ended
            _draw_pictures(folder.path, wanted.image.tolist())


def _refuse_another_image(folder: Any, given: dict[str, Any]) -> None:
    """A run that is gone on with draws what it drew: the file behind the target may have changed since."""
    before = folder.path / TARGET_FILE
    if folder.checkpoint is not None and before.is_file() and json.loads(before.read_text()) != given:
        raise RunFolderError(
            f"the target is another image than the one in {before}",
            "give the image that the run began with, or start a new run",
        )


def _draw_pictures(folder: Path, target: list[list[int]]) -> None:
    from arcslim.runs.her_picture import draw_film, draw_strip, frames

    drawn = frames(folder / "samples.jsonl")
    if drawn:
        draw_strip(drawn, target, folder / "drawings.png")
        draw_film(drawn, target, folder / "drawings.gif")


def _dry_run(resolved: Resolved) -> None:
    from arcslim.cli.dry_run import section, tokenizer_or_stand_in
    from arcslim.recipes.her import epochs_of, question_of, target_of
    from arcslim.recipes.her_base import notes_on_base, notes_on_room, refuse_other_question
    from arcslim.recipes.her_prompt import DrawingPrompts

    config, console = resolved.config, Console(highlight=False, emoji=False)
    check_early(config, "her")
    tell_resolved(resolved, "her", console)
    refuse_other_question(config.her.model, config.her.prompt, "her.prompt")
    tokenizer, notes = tokenizer_or_stand_in(config.model_copy(update={"model": config.model_for("her")}))
    wanted, her_section = target_of(config), config.her
    prompts = DrawingPrompts(tokenizer, her_section.prompt)
    ids, epochs = question_of(prompts, wanted, config), epochs_of(her_section)
    section(console, "Target", [f"{wanted.name}: {wanted.shape[0]} x {wanted.shape[1]} cells", *wanted.notes])
    for note in (*notes_on_base(her_section.model), *notes_on_room(prompts, wanted, her_section)):
        console.print("doubtful:", note, style="yellow", markup=False)
    console.print(prompts.text(wanted.blank, wanted.image), markup=False, style="dim")
    section(
        console,
        "Budget",
        [
            f"an epoch draws {her_section.generations_an_epoch} programs ({', '.join(her_section.samplers)})",
            f"{epochs} epochs at most, {epochs * her_section.generations_an_epoch} programs",
            f"the question has {len(ids)} tokens, a program at most {her_section.max_completion_length}",
            *notes,
        ],
    )
    section(console, "Memory", plan_lines(resolved, "her"))
    console.print("dry run: no weight was touched", style="bold")


def _finish(recipe: str, path: Path, outcome: Any, config: Config) -> None:
    """What was drawn best, whether a fresh process draws the same, and where everything lies."""
    console = Console(highlight=False, emoji=False)
    said = "solved" if outcome.solved_at is not None else f"not solved: {outcome.stopped}"
    console.print(
        f"{config.her.target}: {said} after {outcome.epochs} epochs and {outcome.generations} programs; "
        f"best {outcome.accuracy:.1%} of the cells",
        style="bold",
        markup=False,
        soft_wrap=True,
    )
    if outcome.program is not None:
        console.print(outcome.program.rstrip(), markup=False, soft_wrap=True)
        console.print(redrawn(path, outcome.accuracy), markup=False, soft_wrap=True)
    if outcome.solved_at is None:
        knob = outcome.stopped.partition(" ")[0]
        line = f"{resume_line(recipe, path)} --set {knob}=… (more than now)"
        console.print(line, markup=False, soft_wrap=True)
    there = [name for name in ("drawings.png", "drawings.gif", PROGRAM_FILE) if (path / name).is_file()]
    listed = f" ({', '.join(there)})" if there else ""
    console.print(f"run folder: {path}{listed}", markup=False, soft_wrap=True)


def redrawn(folder: Path, accuracy: float) -> str:
    """Run the program of the folder in a process of its own; in words, that it draws what the run says: an image with
    this share of right cells.

    Raises:
        RuntimeError: it does not: the run's own figures cannot be trusted then.
    """
    words = [sys.executable, "-m", "arcslim.tasks.redraw", str(folder / PROGRAM_FILE), str(folder / TARGET_FILE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=REDRAW_SECONDS, check=False)
    drew: dict[str, Any] = json.loads(done.stdout) if done.returncode in (0, ANOTHER) else {"accuracy": math.nan}
    if not math.isclose(drew["accuracy"], accuracy, abs_tol=1e-9):
        raise RuntimeError(f"a fresh process disagrees about {folder / PROGRAM_FILE}: {done.stdout}{done.stderr}")
    cells = drew["image"]
    what = "the target" if accuracy == 1 else f"what was measured, {accuracy:.1%} of the cells"
    return f"run again in a fresh process it draws {what} ({len(cells)} x {len(cells[0])} cells)"


@app.command()
def pretrain(
    preset: Preset = None,
    model: BaseModel = None,
    max_steps: BaseSteps = None,
    run_dir: RunDir = None,
    resume: Resume = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    sets: Sets = None,
    force: Force = False,
    move_aside: MoveAside = False,
) -> None:
    """Make a base for HER: a model learns to read random drawings back into programs. Then: her --model RUN/final."""
    options = TrainOptions(
        preset=preset,
        max_steps=max_steps,
        run_dir=run_dir,
        seed=seed,
        sets=sets,
        resume=resume,
        dry_run=dry_run,
        force=force,
        move_aside=move_aside,
        flags={"her.base.model": model},
        max_steps_knob="her.base.max_steps",
        recipe="her-pretrain",
    )
    command(options, _run_pretrain, _dry_run_pretrain)


def _run_pretrain(*arguments: Any, **named: Any) -> Any:
    from arcslim.recipes.her_pretrain import run

    return run(*arguments, **named)


def _dry_run_pretrain(resolved: Resolved) -> None:
    from arcslim.cli.dry_run import count_lines, section, tokenizer_or_stand_in
    from arcslim.recipes.her_base import refuse_other_question
    from arcslim.recipes.her_pretrain import as_sft, prepare_drawings
    from arcslim.recipes.sft_rows import truncation_lines

    config, console = resolved.config, Console(highlight=False, emoji=False)
    check_early(config, "her-pretrain")
    tell_resolved(resolved, "her-pretrain", console)
    base = config.her.base
    refuse_other_question(base.model, base.prompt, "her.base.prompt")
    tokenizer, notes = tokenizer_or_stand_in(as_sft(config))
    data = prepare_drawings(as_sft(_with_few_drawings(config)), tokenizer)
    if base.drawings > LOOKED_AT:
        notes = [*notes, f"counted on the first {LOOKED_AT:,} of {base.drawings:,} drawings"]
    section(console, "Data", [*count_lines(data.counts), f"held out: {len(data.held)}", *notes])
    section(console, "Lengths", truncation_lines(data.truncation))
    section(console, "Updates", [f"{base.max_steps} updates of {base.batch_size} drawings each"])
    section(console, "Memory", plan_lines(resolved, "her-pretrain"))
    console.print("dry run: no weight was touched", style="bold")


def _with_few_drawings(config: Config) -> Config:
    base = config.her.base
    few = base.model_copy(update={"drawings": min(base.drawings, LOOKED_AT)})
    return config.model_copy(update={"her": config.her.model_copy(update={"base": few})})
