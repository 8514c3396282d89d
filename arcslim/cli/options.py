"""The options that every training command takes, and how they become a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from arcslim.presets import Resolved, load_config

Preset = Annotated[
    str | None,
    typer.Option("--preset", "-p", help="a preset's name (`arcslim presets list`) or a path to a .toml file"),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="a hub id, a model, adapter or run folder, `tiny`, or `random:CARD` \\[model.name]"),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        help="where tasks come from, as `rearc`, `arc1:train`, FILE, FOLDER; for sft also rows: FILE.jsonl, .parquet, "
        "hub:OWNER/NAME, samples:RUN; repeatable \\[data.sources]",
    ),
]
Reward = Annotated[
    list[str] | None,
    typer.Option("--reward", help="an own reward, `package.module:Name` or `…=WEIGHT`; repeatable \\[reward.extra]"),
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", help="optimizer steps \\[run.max_steps, of SFT sft.max_steps]")
]
RunDir = Annotated[str | None, typer.Option("--run-dir", help="the run folder \\[run.dir]")]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume", help="`newest`, a checkpoint, or `auto`: go on where there is something, else start fresh"
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="of data, rollouts and training \\[run.seed]")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="resolve and check everything, print the plan, touch no weights")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="any knob, as `optim.learning_rate=1e-5`; repeatable"),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="go on after a refusal: what is in the run folder moves aside, what by the plan does not fit is tried, a "
        "run is resumed with other settings",
    ),
]
MoveAside = Annotated[
    bool,
    typer.Option("--move-aside", help="of --force this alone: what is in the run folder moves to a folder beside it"),
]


@dataclass(frozen=True)
class TrainOptions:
    """What was typed. Everything that is a knob goes into the configuration; the rest says how to run it.

    ``flags``: those of one recipe alone, by knob. ``max_steps_knob``: what the recipe means by ``--max-steps``.
    ``recipe``: the one that runs; knobs that it does not read are not held against one another.
    """

    preset: str | None = None
    model: str | None = None
    data: Sequence[str] | None = None
    reward: Sequence[str] | None = None
    max_steps: int | None = None
    run_dir: str | None = None
    seed: int | None = None
    sets: Sequence[str] | None = None
    resume: str | None = None
    dry_run: bool = False
    force: bool = False
    move_aside: bool = False
    flags: Mapping[str, object] = field(default_factory=dict)
    max_steps_knob: str = "run.max_steps"
    recipe: str | None = None

    @property
    def clears(self) -> bool:
        """Whether what is in the run folder moves aside: never where it is gone on with."""
        return self.resume is None and (self.force or self.move_aside)

    def resolve(self) -> Resolved:
        """The configuration: default < preset < ``--set`` < named flag. Raises ConfigError, InputError."""
        flags = {
            "model.name": self.model,
            "data.sources": list(self.data) if self.data else None,
            "reward.extra": list(self.reward) if self.reward else None,
            self.max_steps_knob: self.max_steps,
            "run.dir": self.run_dir,
            "run.seed": self.seed,
            **self.flags,
        }
        return load_config(self.preset, self.sets or (), flags, recipe=self.recipe)
