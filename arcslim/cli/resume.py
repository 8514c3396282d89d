"""Where a run goes, what it goes on from, what must not have changed since: looked at before anything is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from arcslim.cli.options import TrainOptions
from arcslim.config import Config
from arcslim.errors import InputError, RunFolderError
from arcslim.fields import FIELDS, value_of
from arcslim.presets import Resolved, load_config
from arcslim.runs.checkpoints import Checkpoint, list_checkpoints
from arcslim.runs.places import content_of, refuse_content, refuse_no_run
from arcslim.runs.resuming import choose_checkpoint

RESOLVED, ENVIRONMENT = "resolved.toml", "environment.json"
NOT_THE_RUN = ("run.dir", "data.workers", "reward.min_thinking.min_tokens")  # may differ on a resume
# What a run that is resumed keeps: what it learns, from what, and in which order; its figures would mean two things.
KEPT_SECTIONS = ("model", "lora", "data", "prompt", "reward")
KEPT = ("run.seed", "sft.packing", "sft.max_length", "sft.over_length", "sft.samples_per_task", "sft.batch_size",
        "sft.group_by_length", "sft.lora_r", "sft.lora_alpha", "sft.prefill_template")  # fmt: skip
HER_MAY_CHANGE = ("her.max_epochs", "her.max_generations", "her.patience", "her.save_epochs", "her.rollout_batch",
                  "her.base.max_steps")  # fmt: skip
# With packing the number of rows decides what shares a sequence.
WHILE_PACKED = ("sft.num_train_epochs", "sft.max_steps", "sft.per_device_train_batch_size")
FIRM = ("her.target ",)  # what no --force can go on with: it would draw another image
# Of SFT: what makes other rows, which no --force can go on with.
MAKE_ROWS = ("data.", "prompt.", "run.seed", "sft.max_length", "sft.over_length", "sft.samples_per_task")
SCHEDULE = ("learning_rate", "lr_scheduler_type", "lr_min_ratio", "warmup_steps", "num_train_epochs", "max_steps")


def resolve(options: TrainOptions) -> tuple[TrainOptions, Resolved]:
    """Where a run is resumed, its folder is known, and its own ``resolved.toml`` stands in for a missing preset.

    Raises:
        ConfigError: everything that is wrong with the configuration.
        InputError: ``--resume`` without a run to resume.
        RunFolderError: the run of the folder is another recipe's.
    """
    if options.resume is None:
        return options, options.resolve()
    if not options.resume.strip():
        raise InputError("--resume is empty", "say auto, newest, or a checkpoint")
    if options.run_dir is None:
        checkpoint = Path(options.resume)
        if options.resume in ("auto", "newest") or not checkpoint.name.startswith("checkpoint-"):
            raise InputError("--resume does not know which run to go on with", "name its folder with --run-dir")
        options = replace(options, run_dir=str(checkpoint.parent))
    folder = Path(str(options.run_dir))
    _refuse_another_recipe(folder, options.recipe)
    if options.preset is None and (folder / RESOLVED).is_file():
        options = replace(options, preset=str(folder / RESOLVED))
    return options, options.resolve()


def in_words(recipe: object) -> str:
    """A recipe's name as it is typed."""
    return str(recipe).replace("-", " ")


def look_ahead(options: TrainOptions, config: Config, required: tuple[str, ...]) -> list[str]:
    """Refuse a run folder that cannot be used as asked; nothing is written. What changed since, in words.

    ``required`` names files that a whole checkpoint must hold beside the trainer's.

    Raises:
        RunFolderError: it is a file or not empty, there is nothing to resume, it is the run of another configuration,
            or it has done the steps that are asked for.
    """
    if options.resume is not None and options.move_aside:
        raise InputError("--resume goes on with what --move-aside would move away", "leave one of the two out")
    if config.run.dir is None:
        return []
    folder = Path(config.run.dir)
    if options.resume is None:
        refuse_content(folder, move_aside=options.clears)
        return []
    if not content_of(folder) and options.resume == "auto":
        return []
    refuse_no_run(folder)
    checkpoint, _ = choose_checkpoint(folder, options.resume, required)
    if checkpoint is None:
        return []
    _refuse_too_few_steps(folder, checkpoint, config, options)
    return _changes(folder, checkpoint, config, options)


def _refuse_another_recipe(folder: Path, recipe: str | None) -> None:
    """Its checkpoints hold another recipe's state, and its figures another recipe's. Old folders do not say theirs."""
    try:
        ran = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8")).get("recipe")
    except (OSError, ValueError, AttributeError):
        return
    if ran not in (None, recipe):
        raise RunFolderError(
            f"{folder} is a run of `arcslim {in_words(ran)}`, and `arcslim {in_words(recipe)}` cannot go on with it",
            f"go on with `arcslim {in_words(ran)} --run-dir {folder} --resume auto`, or start a new run from what it "
            f"learned: `arcslim {in_words(recipe)} --model {folder}`",
        )


def _refuse_too_few_steps(folder: Path, checkpoint: Checkpoint, config: Config, options: TrainOptions) -> None:
    wanted, asked = value_of(config, options.max_steps_knob), options.max_steps_knob
    if wanted is None and options.recipe == "sft":
        wanted, asked = _steps_of_epochs(folder, checkpoint, config), "sft.num_train_epochs"
    later = [found.name for found in list_checkpoints(folder) if found.step > checkpoint.step]
    if wanted is None or wanted > checkpoint.step or (wanted == checkpoint.step and not later):
        return
    kept = f"; {', '.join(later)} would be moved aside for nothing" if later else ""
    raise RunFolderError(
        f"{checkpoint.name} has done {checkpoint.step} steps, and {asked} asks for {wanted}: nothing would be trained"
        f"{kept}",
        f"ask for more, or use it as it is: --model {checkpoint.path}",
    )


def _steps_of_epochs(folder: Path, checkpoint: Checkpoint, config: Config) -> int | None:
    """The steps that SFT's epochs come to, by those that they came to before; None where that is not known."""
    try:
        before = load_config(str(folder / RESOLVED), recipe="sft").config.sft
        state = json.loads((checkpoint.path / "trainer_state.json").read_bytes())
        return round(state["max_steps"] * config.sft.num_train_epochs / before.num_train_epochs)
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None  # a folder without its settings, or of an older form


def _changes(folder: Path, checkpoint: Checkpoint, config: Config, options: TrainOptions) -> list[str]:
    """A run that is resumed keeps its model, data, prompts and rewards, or its figures would mean two things."""
    old = folder / RESOLVED
    if not old.is_file():
        return []
    before = load_config(str(old), recipe=options.recipe).config
    names = [name for name in FIELDS if name not in NOT_THE_RUN and value_of(before, name) != value_of(config, name)]
    changed = {name: f"{name} {value_of(before, name)} → {value_of(config, name)}" for name in names}
    other = [words for name, words in changed.items() if _is_kept(name, options.recipe, config.sft.packing != "none")]
    if other and not options.force:
        firm = any(words.startswith((*(MAKE_ROWS if options.recipe == "sft" else ()), *FIRM)) for words in other)
        raise RunFolderError(
            f"{folder} is the run of another configuration: {'; '.join(other)}",
            "leave --preset and those settings out, or choose another --run-dir"
            + ("" if firm else ", or go on all the same with --force"),
        )
    words = [f"resumed with other settings: {'; '.join(changed.values())}"] if changed else []
    section = {"grpo": "optim", "sft": "sft"}.get(str(options.recipe))
    of_the_rate = {options.max_steps_knob, *(f"{section}.{name}" for name in SCHEDULE)}
    if section is not None and not of_the_rate.isdisjoint(names) and not _is_flat(config, section):
        words.append(
            f"the learning rate follows the curve of the new settings from step {checkpoint.step} on: it does not go "
            "on at the rate where the run left off"
        )
    return words


def _is_kept(name: str, recipe: str | None, packed: bool) -> bool:
    if packed and name in WHILE_PACKED:
        return True
    if str(recipe).startswith("her") and name.startswith("her."):
        return name not in HER_MAY_CHANGE
    return name in KEPT or name.split(".")[0] in KEPT_SECTIONS


def _is_flat(config: Config, section: str) -> bool:
    return str(value_of(config, f"{section}.lr_scheduler_type")).startswith("constant")
