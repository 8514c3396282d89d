"""``arcslim data build``: draw the tasks once, and keep them as parquet with a manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from arcslim.cli.data_folder import new_folder, refuse_taken
from arcslim.cli.data_options import HeldOut, MoveAside, resolve
from arcslim.cli.options import Data, Model, Preset, Seed, Sets
from arcslim.config import Config

Fits = Callable[[Any], bool]


def build(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="the folder to make")],
    data: Data = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="leave prompts over prompt.max_tokens out (needs the model's tokenizer)")
    ] = False,
    held_out: HeldOut = None,
    force: MoveAside = False,
    preset: Preset = None,
    model: Model = None,
    seed: Seed = None,
    sets: Sets = None,
) -> None:
    """Build a data set: training and held-out tasks as parquet, and a manifest. `--data DIR` trains on it."""
    from arcslim.cli.dry_run import count_lines
    from arcslim.tasks.built import write_built
    from arcslim.tasks.manifest import about
    from arcslim.tasks.split import build_split

    refuse_taken(out, force)
    config = resolve(data, preset, model, seed, sets, {"data.keep_out": held_out or None}).config
    console = Console(highlight=False, emoji=False)
    fits, limit, notes = _limit(config) if fit else (_everything, None, [])
    with console.status("drawing tasks"):
        split = build_split(config.data, config.run.seed, fits)
    of_set = {
        "train": split.train,
        "select": split.select,
        "test": split.test,
        "test_families": split.test_families,
        "test_arc1": split.test_arc1,
    }
    with new_folder(out, console) as folder:
        manifest = write_built(folder, of_set, about(split, config.data, config.run.seed, limit))
    for line in (*count_lines(split.counts), *split.notes, *notes):
        console.print(line, markup=False, soft_wrap=True)
    console.print("sets: " + ", ".join(f"{name} {len(tasks)}" for name, tasks in of_set.items() if tasks), markup=False)
    console.print(f"content hash: {manifest['content_hash']}", markup=False)
    console.print(f"built {out}; train on it with `arcslim grpo --data {out}`", markup=False, soft_wrap=True)


def _everything(task: Any) -> bool:
    return True


def _limit(config: Config) -> tuple[Fits, dict[str, Any], list[str]]:
    """Whether a task's prompt is within the limit, what the manifest says of it, and what is to be told."""
    from arcslim.cli.dry_run import tokenizer_or_stand_in
    from arcslim.prompts.render import Renderer

    tokenizer, notes = tokenizer_or_stand_in(config)
    renderer = Renderer(tokenizer, config.prompt)
    said = {"model": config.model.name, **config.prompt.model_dump(mode="json"), "notes": notes}
    return lambda task: len(renderer.render(task, "").token_ids) <= config.prompt.max_tokens, said, notes
