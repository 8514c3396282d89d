"""What the commands under ``arcslim data`` share: their options, and the configuration that these make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from arcslim.cli.options import TrainOptions
from arcslim.config import Config
from arcslim.presets import Resolved

DATA = "data"  # no recipe: data are held up by no batch and no learning rate
Specs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPEC",
        help="sources, as `rearc`, `arc1:train`, `barc:FILE`, FILE, FOLDER; without: those of the preset",
        show_default=False,
    ),
]


def resolve(
    specs: Sequence[str] | None,
    preset: str | None,
    model: str | None,
    seed: int | None,
    sets: Sequence[str] | None,
    flags: Mapping[str, object] | None = None,
    recipe: str = DATA,
) -> Resolved:
    """The configuration of a run on these sources, as far as ``recipe`` reads it. Raises ConfigError, InputError."""
    return TrainOptions(
        preset=preset, model=model, data=specs, seed=seed, sets=sets, flags=flags or {}, recipe=recipe
    ).resolve()


def without_holdouts(config: Config) -> Config:
    """Every task is looked at. Generators that are held out stay out: what is kept may be trained on."""
    none = {"holdout_select": 0, "holdout_test": 0, "holdout_arc1": 0, "holdout_family_tasks": 0}
    return config.model_copy(update={"data": config.data.model_copy(update=none)})
