"""Small runs of the real recipe: the embedded model in 4-bit, a handful of tasks, completions of 16 tokens or so."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from arcslim.cli.main import main
from arcslim.config import Config
from arcslim.errors import Stopped
from arcslim.policy.load import Policy
from arcslim.presets import load_config, to_toml
from arcslim.recipes.prepare import Prepared, prepare
from arcslim.rewards.base import Rollout

PRESET = """\
[model]
name = "tiny"
load_in_4bit = true
max_seq_length = 320
use_gradient_checkpointing = "false"

[data]
sources = ["rearc:b1948b0a"]  # half known to the tiny model
tasks = 12
pairs = 2
difficulty_min = 0.05
difficulty_max = 0.12
max_side = 4
holdout_select = 4

[prompt]
max_tokens = 224

[reward.min_thinking]
min_tokens = 8

[grpo]
num_generations = 4
steps_per_generation = 1

[optim]
optim = "adamw_torch"
learning_rate = 1e-3
lr_scheduler_type = "constant"
warmup_steps = 0
per_device_train_batch_size = 8
gradient_accumulation_steps = 1

[generation]
max_completion_length = 16

[run]
max_steps = 4
save_steps = 2
eval_steps = 2
eval_samples = 2
"""
# Completions of 16 tokens never get to an answer: only chance tells them apart, so that there is something to learn.
CHANCE = (
    "reward.grid.weight=0",
    "reward.min_thinking.mode=none",
    'reward.extra=["arcslim.rewards.control:RandomReward"]',
)
WHOLE = (
    "generation.max_completion_length=88",
    "reward.min_thinking.min_tokens=40",
)  # thinking and answers of these tasks fit


def write_preset(folder: Path, *sets: str, text: str = PRESET) -> Path:
    """The settings above, or those of ``text``, changed by ``sets``, as a preset file."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / "plain.toml"
    plain.write_text(text, encoding="utf-8")
    path = folder / "small.toml"
    path.write_text(to_toml(load_config(str(plain), list(sets), {}).config), encoding="utf-8")
    return path


def small_config(*sets: str) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        return load_config(str(write_preset(Path(folder), *sets)), [], {}).config


@cache
def tiny_tokenizer() -> Any:
    from arcslim.policy.load import load_tokenizer

    loaded = load_tokenizer("tiny")
    assert loaded is not None
    return loaded.tokenizer


@cache
def prepared_with_tiny() -> tuple[Prepared, Policy]:
    """The small tasks, rendered, and the embedded model; needs the fixture ``stack``. Nobody trains it."""
    from arcslim.policy.load import load_policy

    config = small_config()
    policy = load_policy(config.model, config.lora, seed=0, cache_dir=Path("unused: Unsloth is imported already"))
    return prepare(config, policy.tokenizer), policy


def arcslim(*words: str | Path) -> int:
    """A command line in this process; its exit code. Training commands need the fixture ``stack``."""
    with pytest.raises(SystemExit) as exit_:
        main([str(word) for word in words])
    code = exit_.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@dataclass(frozen=True)
class Folder:
    """What lies in a run folder."""

    path: Path

    def rows(self, name: str) -> list[dict[str, Any]]:
        file = self.path / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    def values(self, kind: str, step: int) -> dict[str, float]:
        """The figures of the one row of that kind and step."""
        (row,) = [row for row in self.rows("metrics") if (row["kind"], row["step"]) == (kind, step)]
        return dict(row["values"])

    def learned(self) -> dict[tuple[str, int], dict[str, float]]:
        """All figures by kind and step, without what the clock and the machine decide."""
        found: dict[tuple[str, int], dict[str, float]] = {}
        for row in self.rows("metrics"):
            key = (row["kind"], row["step"])
            assert key not in found, f"two rows of {key}"
            found[key] = {n: v for n, v in row["values"].items() if not n.startswith(("seconds/", "memory/"))}
        return found

    def events(self, event: str) -> list[str]:
        return [row["detail"] for row in self.rows("events") if row["event"] == event]

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("checkpoint-*"))

    def state(self, step: int) -> dict[str, Any]:
        """Our own state in a checkpoint, without the seconds."""
        text = (self.path / f"checkpoint-{step}" / "arcslim_state.json").read_text(encoding="utf-8")
        return {name: value for name, value in json.loads(text).items() if name != "seconds"}

    def adapter(self, where: str) -> dict[str, Any]:
        from safetensors.torch import load_file

        return load_file(self.path / where / "adapter_model.safetensors")

    def copy_to(self, path: Path) -> Folder:
        shutil.copytree(self.path, path)
        return Folder(path)


def assert_same_rows(
    these: dict[tuple[str, int], dict[str, float]], those: dict[tuple[str, int], dict[str, float]]
) -> None:
    """Equal to 1e-6, and not for want of something to compare."""
    assert these.keys() == those.keys()
    for key, values in these.items():
        assert values == pytest.approx(those[key], abs=1e-6), key
        assert len(values) > 3


class Never:
    """A stop signal that never comes."""

    requested = False

    def check(self) -> None:
        pass


class StopWhen:
    """A stop signal that the test sets."""

    requested = False

    def check(self) -> None:
        if self.requested:
            raise Stopped("stopped by the test")


class _Counted:
    """An own reward of chance that knows how often it was called with a rollout of training."""

    name = "counted"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        if rollouts[0].prompt_id == "check":
            return [0.0] * len(rollouts)
        self.calls += 1
        return self.judge([float(sum(rollout.completion.token_ids) % 2) for rollout in rollouts])

    def judge(self, values: list[float]) -> list[float | None]:
        return list(values)


class NanLater(_Counted):
    """One NaN in the first rollout, none in the second, nothing but NaN in the third."""

    def judge(self, values: list[float]) -> list[float | None]:
        if self.calls == 1:
            return [float("nan"), *values[1:]]
        return [float("nan")] * len(values) if self.calls == 3 else list(values)


def tensors_differ(these: dict[str, Any], those: dict[str, Any]) -> Iterator[str]:
    """The names of tensors that are not equal bit by bit."""
    assert these.keys() == those.keys()
    return (name for name in these if not bool((these[name] == those[name]).all()))
