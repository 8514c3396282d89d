"""What only a GPU can show; skipped without one. ``scripts/gpu_check.sh`` runs these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

SETS = [
    "optim.optim=paged_adamw_8bit",
    "data.tasks=32",
    "data.holdout_select=8",
    "optim.per_device_train_batch_size=16",
    "generation.max_completion_length=96",
]


def train(folder: Path, sets: list[str], *, resume: str | None = None) -> Path:
    from arcslim.presets import load_config
    from arcslim.recipes.grpo import run
    from arcslim.recipes.state import STATE_FILE
    from arcslim.runs.folder import RunFolder
    from arcslim.runs.signals import StopRequest

    config = load_config("canary", [*SETS, *sets], {}).config
    opened = RunFolder.resume(folder, resume, required=(STATE_FILE,)) if resume else RunFolder.create(folder)
    with opened, StopRequest() as stop:
        checkpoint = None if opened.checkpoint is None else opened.checkpoint.path
        run(config, opened, opened, stop, cache_dir=folder / "cache", resume_from=checkpoint)
    return folder


def rows(folder: Path, kind: str) -> dict[int, dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {row["step"]: row["values"] for row in map(json.loads, lines) if row["kind"] == kind}


def test_a_run_on_the_card_trains_an_fp32_adapter_and_measures_its_memory(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = train(tmp_path / "run", ["run.max_steps=4", "run.save_steps=2", "run.eval_steps=2"])
    weights = load_file(folder / "final" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert any(bool(tensor.any()) for name, tensor in weights.items() if "lora_B" in name)
    assert rows(folder, "train")[4]["memory/gpu_peak_bytes"] > 0


def test_a_run_with_paged_adamw_8bit_resumes(tmp_path: Path) -> None:
    """bitsandbytes #782, #1381, #1708: loading a paged optimizer's state is reported to crash."""
    short = ["run.max_steps=2", "run.save_steps=2", "run.eval_steps=2"]
    folder = train(tmp_path / "run", short)
    train(folder, ["run.max_steps=4", "run.save_steps=2", "run.eval_steps=2"], resume="newest")
    assert sorted(rows(folder, "train")) == [1, 2, 3, 4]


def test_the_reference_of_a_trained_adapter_is_that_adapter(tmp_path: Path) -> None:
    """Unsloth's GPU trainer makes no copy named ``ref`` itself: without ours the KL at step 1 is that to the base."""
    first = train(tmp_path / "first", ["run.max_steps=2", "run.save_steps=2", "run.eval_steps=2"])
    sets = ["grpo.beta=0.04", f"model.name={first / 'final'}", "run.max_steps=2", "run.save_steps=2"]
    second = train(tmp_path / "second", [*sets, "run.eval_steps=2"])
    assert abs(rows(second, "train")[1]["policy/kl"]) < 1e-3
