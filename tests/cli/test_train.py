"""What stands around every recipe."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arcslim.cli import train
from arcslim.cli.options import TrainOptions
from arcslim.errors import ConfigError, RunFolderError
from arcslim.presets import load_config, to_toml

# SFT may save after any step; GRPO not in the middle of a rollout.
SETS = ["run.save_steps=7", "grpo.steps_per_generation=32", "optim.gradient_accumulation_steps=16"]


def a_run(folder: Path) -> Any:
    """The folder of an SFT run that has a checkpoint."""
    resolved = load_config(None, SETS, recipe="sft")
    (folder / train.RESOLVED).write_text(to_toml(resolved.config, resolved.origins))
    return SimpleNamespace(path=folder, checkpoint=object(), start_step=7)


def test_a_resumed_run_reads_its_own_file_as_its_recipe_does(tmp_path: Path) -> None:
    """A save_steps that GRPO alone refuses must not keep an SFT run from going on, and its settings are compared."""
    folder, said = a_run(tmp_path), []
    sink: Any = SimpleNamespace(event=lambda *event: said.append(event))
    options, resolved = train.resolve(TrainOptions(resume="newest", run_dir=str(tmp_path), recipe="sft"))
    train._refuse_another_run(folder, resolved.config, options, sink)
    assert said == []
    other = load_config(None, [*SETS, "lora.r=3"], recipe="sft").config
    with pytest.raises(RunFolderError, match=r"lora\.r 16 → 3"):
        train._refuse_another_run(folder, other, options, sink)
    with pytest.raises(ConfigError, match="cuts a rollout in two"):
        train.resolve(TrainOptions(resume="newest", run_dir=str(tmp_path), recipe="grpo"))
