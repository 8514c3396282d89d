"""Checks over the knobs of HER; called from ``checks.py``, and of the same form."""

from __future__ import annotations

from arcslim.config import Config
from arcslim.findings import Findings

EMBEDDED = "tiny-draw"
SLOW = 1e-4  # under it an adapter of a million parameters hardly moves in an epoch


def check_her(config: Config, found: Findings) -> None:
    """Refuse and warn of what `arcslim her` would do."""
    her = config.her
    found.refuse(
        her.max_generations < her.generations_an_epoch,
        ("her.max_generations", "her.samplers"),
        f"her.max_generations {her.max_generations} is less than one epoch draws, {her.generations_an_epoch}",
        "raise it, or draw fewer an epoch with her.samplers",
    )
    found.refuse(
        her.model == EMBEDDED and her.prompt != "compact",
        ("her.model", "her.prompt"),
        f"{EMBEDDED} knows one form of question, and her.prompt is {her.prompt}",
        "set her.prompt=compact",
    )
    found.warn(
        her.model == EMBEDDED and her.train and her.learning_rate < SLOW,
        ("her.model", "her.learning_rate"),
        f"her.learning_rate {her.learning_rate:g} is for models of half a billion parameters: {EMBEDDED} hardly moves",
        "her.learning_rate=1e-3, or --preset cpu",
    )
    for knob, off in (("train", not her.train), ("relabel", not her.relabel), ("shuffle_pairs", her.shuffle_pairs)):
        found.warn(
            off,
            (f"her.{knob}",),
            f"her.{knob} = {str(getattr(her, knob)).lower()} takes out what makes HER work: for comparison only",
            f"her.{knob}={str(not getattr(her, knob)).lower()}",
        )
    found.warn(
        len({sampler.temperature for sampler in her.draws}) == 1 and her.draws[0].temperature < 0.5,
        ("her.samplers",),
        f"her.samplers {', '.join(her.samplers)} only exploit: samples collapse to few different images",
        'add one that explores, as "128@0.9"',
    )


def check_base(config: Config, found: Findings) -> None:
    """Refuse what `arcslim her pretrain` would do."""
    base = config.her.base
    found.refuse(
        base.min_side > base.max_side,
        ("her.base.min_side", "her.base.max_side"),
        f"her.base.min_side {base.min_side} is over her.base.max_side {base.max_side}",
        "set min_side to max_side or less",
    )
    found.refuse(
        base.batch_size % base.per_device_train_batch_size != 0,
        ("her.base.batch_size", "her.base.per_device_train_batch_size"),
        f"an update of her.base.batch_size {base.batch_size} drawings does not divide into micro-batches of "
        f"{base.per_device_train_batch_size}",
        f"set her.base.per_device_train_batch_size to a divisor of {base.batch_size}",
    )
    found.refuse(
        base.model == EMBEDDED and base.prompt != "compact",
        ("her.base.model", "her.base.prompt"),
        f"{EMBEDDED} knows one form of question, and her.base.prompt is {base.prompt}",
        "set her.base.prompt=compact",
    )
