"""``arcslim data filter``: leave trivial tasks out without a model, and too hard and too easy ones with one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from arcslim.cli.data_filter_lines import Progress, report
from arcslim.cli.data_folder import new_folder, refuse_taken
from arcslim.cli.data_options import HeldOut, MoveAside, Specs, Tasks, resolve, without_holdouts
from arcslim.cli.options import Model, Preset, Seed, Sets
from arcslim.config import Config
from arcslim.errors import DataError, InputError, Stopped
from arcslim.runs.signals import StopRequest

KEEP, SAMPLES = "0.05:0.9", 8
EACH = 3  # tasks of each rule in the picture
PASS_RATES = "pass_rates.jsonl"


def filter_(
    specs: Specs = None,
    drop_trivial: Annotated[
        bool, typer.Option("--drop-trivial", help="leave out what needs no thinking; asks no model")
    ] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="LO:HI", help=f"pass rates to keep, ends included; {KEEP}")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help=f"rollouts a task; {SAMPLES}")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="write what is kept, for --data DIR")] = None,
    held_out: HeldOut = None,
    force: MoveAside = False,
    png: Annotated[Path | None, typer.Option("--png", metavar="DIR", help="draw what was dropped there")] = None,
    cache: Annotated[Path | None, typer.Option("--cache", metavar="DIR", help="where rollouts are kept")] = None,
    tasks: Tasks = None,
    preset: Preset = None,
    model: Model = None,
    seed: Seed = None,
    sets: Sets = None,
) -> None:
    """Keep tasks that teach: --drop-trivial asks no model; --model M --keep LO:HI rolls each out and keeps some.

    Rollouts are kept by task and model: run the line again after a stop, and it goes on.
    """
    from arcslim.cli.dry_run import count_lines
    from arcslim.recipes.filter_report import Bounds, Filtered
    from arcslim.tasks.split import build_split

    rolls = any(value is not None for value in (keep, samples, model))
    if not rolls and not drop_trivial:
        raise InputError("there is nothing to filter by", f"give --drop-trivial, or --model M --keep {KEEP}, or both")
    bounds = Bounds(*read_keep(keep or KEEP))
    if out is not None:
        refuse_taken(out, force)
    flags = {"data.tasks": tasks, "data.keep_out": held_out or None}
    config = without_holdouts(resolve(specs, preset, model, seed, sets, flags).config)
    console = Console(highlight=False, emoji=False)
    folder = cache or default_cache()
    prepared = _prepared(config, folder) if rolls else None
    split = build_split(config.data, config.run.seed, lambda task: True) if prepared is None else prepared.split
    filtered = Filtered(split.train)
    if drop_trivial:
        filtered.drop_trivial()
    if prepared is not None:
        filtered.bounds, filtered.samples = bounds, samples or SAMPLES
        sound = {id(task) for task in filtered.sound}
        asked = [one for one in prepared.train if id(one.task) in sound]
        filtered.tried = _roll_out(asked, config, filtered.samples, folder, console)
    for line in (*count_lines(split.counts), *split.notes):
        console.print(line, style="dim", markup=False, soft_wrap=True)
    report(filtered, config, console, drop_trivial=drop_trivial)
    if png is not None:
        _draw(filtered, config, png, console)
    if not filtered.kept:
        raise DataError("no task is left", "widen --keep, or ask another model")
    if out is not None:
        _write(filtered, split, config, out, console)


def read_keep(text: str) -> tuple[float, float]:
    """``LO:HI`` as two shares. Raises InputError."""
    low, colon, high = text.partition(":")
    try:
        bounds = float(low), float(high)
    except ValueError:
        bounds = (1.0, 0.0)
    if not colon or not 0 <= bounds[0] <= bounds[1] <= 1:
        raise InputError(f"--keep {text} is no range of pass rates", f"two shares within 0 and 1, as {KEEP}")
    return bounds


def default_cache() -> Path:
    """Where rollouts are kept unless --cache says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arcslim" / "filter"


def _prepared(config: Config, folder: Path) -> Any:
    from arcslim.policy.load import load_tokenizer, start_unsloth
    from arcslim.recipes.prepare import prepare

    start_unsloth(folder / "unsloth")  # before transformers, which reading a tokenizer imports
    name, trust = config.model.name, config.model.trust_remote_code
    loaded = load_tokenizer(name, revision=config.model.revision, trust_remote_code=trust)
    if loaded is None:
        raise InputError(
            f"{name} is not in the local cache and the hub cannot be reached",
            "load it once with a network, or give a local folder",
        )
    return prepare(config, loaded.tokenizer)


def _roll_out(asked: Sequence[Any], config: Config, samples: int, folder: Path, console: Console) -> Any:
    """Needs the weights only where the cache lacks something; Ctrl-C loses one batch at most."""
    from arcslim.policy.identity import identity
    from arcslim.policy.load import load_policy
    from arcslim.recipes.filter import try_tasks
    from arcslim.recipes.rollout_cache import RolloutCache, cache_file

    loaded: list[Any] = []

    def load() -> Any:
        if not loaded:
            console.print(f"loading {config.model.name}", style="dim", markup=False)
            place = folder / "unsloth"
            loaded.append(
                load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=place, trainable=False)
            )
        return loaded[0]

    known = identity(config.model)
    if known is None:  # the hub's, not here yet
        load()
        known = identity(config.model)
    cache = RolloutCache(cache_file(folder, config, known or config.model.name))
    console.print(f"rollouts are kept in {cache.file}", style="dim", markup=False, soft_wrap=True)
    with StopRequest() as stop, Progress(console) as progress:
        try:
            return try_tasks(asked, config, samples, cache, load, stop, progress.tried)
        except Stopped as stopped:
            stopped.hint = "the same line goes on where this one stopped"
            raise


def _draw(filtered: Any, config: Config, folder: Path, console: Console) -> None:
    from arcslim.runs.filter_picture import draw_pass_rates, draw_trivial

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}") from error
    if filtered.trivial:
        number, sources = sum(map(len, filtered.trivial.values())), ", ".join(config.data.sources)
        title = f"trivial: {number} of {len(filtered.tasks)} tasks of {Path(sources).name}"
        drawn = draw_trivial(filtered.trivial, folder / "trivial.png", each=EACH, title=title)
        console.print(f"drew {drawn}", markup=False, soft_wrap=True)
    if filtered.tried:
        bounds = filtered.bounds
        title = f"{len(filtered.tried)} tasks, {config.model.name}, {filtered.samples} rollouts each"
        drawn = draw_pass_rates(filtered.histogram(), bounds.low, bounds.high, folder / "pass_rates.png", title)
        console.print(f"drew {drawn}", markup=False, soft_wrap=True)


def _write(filtered: Any, split: Any, config: Config, out: Path, console: Console) -> None:
    from arcslim.tasks.built import write_built
    from arcslim.tasks.manifest import about

    said = about(split, config.data, config.run.seed, None) | {
        "filter": filtered.summary() | _of_model(filtered, config)
    }
    held = {"select": split.select, "test": split.test}
    held |= {"test_families": split.test_families, "test_arc1": split.test_arc1}  # those that a built folder brought
    with new_folder(out, console) as folder:
        write_built(folder, {"train": filtered.kept, **held}, said)
        rows = "".join(json.dumps(row) + "\n" for row in filtered.rows())
        (folder / PASS_RATES).write_text(rows, encoding="utf-8")
    console.print(
        f"wrote {len(filtered.kept)} tasks to {out}; train on them with `arcslim grpo --data {out}`",
        markup=False,
        soft_wrap=True,
    )


def _of_model(filtered: Any, config: Config) -> dict[str, Any]:
    if filtered.tried is None:
        return {}
    return {
        "model": config.model.model_dump(mode="json", include={"name", "revision", "load_in_4bit"}),
        "prompt": config.prompt.model_dump(mode="json"),
        "generation": config.generation.model_dump(mode="json"),
    }
