"""What the commands under ``arcslim data`` share: their options, and the configuration that these make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from arcslim.checks import DATA
from arcslim.cli.options import TrainOptions
from arcslim.config import Config
from arcslim.presets import Resolved

HOLDOUTS = ("holdout_select", "holdout_test", "holdout_arc1", "holdout_family_tasks")
Specs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPEC",
        help="sources, as `rearc`, `arc1:train`, `barc:FILE`, FILE, FOLDER; without: those of the preset",
        show_default=False,
    ),
]
HeldOut = Annotated[
    list[str] | None,
    typer.Option("--held-out", metavar="SPEC", help="what will be tested on; repeatable \\[data.keep_out]"),
]
Tasks = Annotated[int | None, typer.Option("--tasks", min=1, help="how many at most \\[data.tasks]")]
MoveAside = Annotated[bool, typer.Option("--force", help="where DIR is there already, it moves aside")]


def resolve(
    specs: Sequence[str] | None,
    preset: str | None,
    model: str | None,
    seed: int | None,
    sets: Sequence[str] | None,
    flags: Mapping[str, object] | None = None,
    recipe: str = DATA,
) -> Resolved:
    """The configuration of a run on these sources, as far as ``recipe`` reads it: for data alone no batch, no learning
    rate and no holdout stands in the way. Raises ConfigError, InputError."""
    return TrainOptions(
        preset=preset, model=model, data=specs, seed=seed, sets=sets, flags=flags or {}, recipe=recipe
    ).resolve()


def without_holdouts(config: Config) -> Config:
    """Every task is looked at, and as it is: a run turns and recolours them itself.

    Generators that are held out stay out, and so does ``data.keep_out``: what is kept may be trained on.
    """
    update: dict[str, object] = dict.fromkeys(HOLDOUTS, 0)
    update |= {"augment_symmetry": False, "augment_colors": "none", "augment_order": False}
    return config.model_copy(update={"data": config.data.model_copy(update=update)})
