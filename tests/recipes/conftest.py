"""Runs of the real recipe that several tests look at: made once a session. Look only; copy them to change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.made import CHANCE, WHOLE, Folder, arcslim, write_preset


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unsloth imported, its cache in a folder of the tests. One thread: two fight on a small machine."""
    from arcslim.policy.load import start_unsloth

    cache = tmp_path_factory.mktemp("cache")
    start_unsloth(cache)
    import torch

    torch.set_num_threads(1)
    return cache


@pytest.fixture(scope="session")
def whole(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """4 steps on whole completions, an update a rollout: grid reward, floor, 4-bit."""
    place = tmp_path_factory.mktemp("whole")
    assert arcslim("grpo", "--preset", write_preset(place, *WHOLE), "--run-dir", place / "run") == 0
    return Folder(place / "run")


@pytest.fixture(scope="session")
def halves(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """6 steps, two updates a rollout, completions that are all cut off, rewards of chance, longest prompts first."""
    place = tmp_path_factory.mktemp("halves")
    preset = write_preset(
        place, *CHANCE, "grpo.steps_per_generation=2", "grpo.longest_first=true", "run.max_steps=6",
        "optim.per_device_train_batch_size=4", "run.save_total_limit=9", "run.eval_steps=3",
    )  # fmt: skip
    assert arcslim("grpo", "--preset", preset, "--run-dir", place / "run") == 0
    return Folder(place / "run")


@pytest.fixture(scope="session")
def taught(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Two epochs of SFT on a generator that the tiny model never solves by itself: rows of `sft_made.py`."""
    from tests.recipes.sft_made import write_sft_preset

    place = tmp_path_factory.mktemp("taught")
    assert arcslim("sft", "--preset", write_sft_preset(place), "--run-dir", place / "run", "--no-packing") == 0
    return Folder(place / "run")
