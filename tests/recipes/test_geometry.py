"""The batch geometry, asked for and in force, against TRL's own arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.config import GrpoSection, OptimSection
from arcslim.errors import ConfigError
from arcslim.presets import load_config
from arcslim.recipes.geometry import Geometry, compare


def geometry(batch: int, accumulation: int, steps: int, generations: int, world_size: int = 1) -> Geometry:
    return Geometry.from_config(
        GrpoSection(num_generations=generations, steps_per_generation=steps),
        OptimSection(per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation),
        world_size,
    )


def test_case_16_both_geometries_are_said() -> None:
    """Case 16: batch 1, accumulation 8, generations 8: the geometry asked for and the one in force."""
    asked = geometry(1, 8, 8, 8)
    assert (asked.prompts_per_rollout, asked.completions_per_rollout) == (1, 8)
    assert asked.optimizer_steps_per_rollout == 1
    assert not asked.group_fits_micro_batch
    assert compare(asked, asked)[-1] == "in force: as asked for"
    raised = geometry(8, 8, 8, 8)  # what a library that raises the batch would make of it
    said = compare(asked, raised)
    assert "changed per_device_batch: asked 1, in force 8" in said
    assert any("in force rollout: 8 prompts x 8 generations = 64 completions" in line for line in said)


def test_case_16_groups_that_do_not_divide_are_refused() -> None:
    """Case 16: batch 8 with 3 generations is refused."""
    with pytest.raises(ConfigError, match="8 completions a rollout do not divide into groups of 3"):
        geometry(8, 1, 1, 3)


def test_the_4090_learns_from_128_completions_in_two_updates() -> None:
    config = load_config("4090").config
    found = Geometry.from_config(config.grpo, config.optim)
    assert (found.prompts_per_rollout, found.completions_per_rollout, found.completions_per_step) == (8, 128, 64)
    assert found.optimizer_steps_per_rollout == 2
    assert found.clipping_acts


def test_one_update_a_rollout_says_that_clipping_does_nothing() -> None:
    assert any(line.startswith("clipping:") for line in geometry(64, 1, 1, 8).describe())
    assert not any(line.startswith("clipping:") for line in geometry(16, 4, 8, 16).describe())


def test_processes_multiply_the_rollout_and_the_update() -> None:
    two = geometry(4, 2, 2, 16, world_size=2)
    assert (two.completions_per_rollout, two.completions_per_step, two.prompts_per_rollout) == (16, 16, 1)
    assert "x 2 processes" in two.describe()[0]


sizes = st.integers(1, 64)


@given(sizes, sizes, sizes, st.integers(2, 64), st.integers(1, 4))
def test_a_geometry_is_refused_exactly_where_groups_would_not_be_whole(
    batch: int, accumulation: int, steps: int, generations: int, world_size: int
) -> None:
    rows = batch * steps * world_size
    if lcm(rows, generations) == rows:
        found = geometry(batch, accumulation, steps, generations, world_size)
        assert found.prompts_per_rollout * generations == found.completions_per_rollout
        used = found.completions_per_step * found.optimizer_steps_per_rollout
        assert used == pytest.approx(found.completions_per_rollout)  # every completion is trained on once
    else:
        with pytest.raises(ConfigError):
            geometry(batch, accumulation, steps, generations, world_size)


TRL = """
import json, sys
sys.stdout, out = sys.stderr, sys.stdout
{first}
rows = []
for batch, accumulation, steps, generations in json.loads(sys.argv[1]):
    try:
        a = GRPOConfig(
            output_dir=sys.argv[2], use_cpu=True, bf16=False, per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation, steps_per_generation=steps, num_generations=generations,
        )
    except ValueError:
        rows.append(None)
    else:
        rows.append([a.per_device_train_batch_size, a.gradient_accumulation_steps, a.steps_per_generation,
                     a.num_generations, a.num_iterations, a.world_size, a.generation_batch_size])
print(json.dumps(rows), file=out)
"""
STOCK = "from trl import GRPOConfig"
ON_A_GPU = """
import os
os.environ["UNSLOTH_ALLOW_CPU"] = "1"  # its own tests' switch: the code of a GPU, here
import unsloth
from unsloth.models.rl import _patch_trl_rl_trainers
_patch_trl_rl_trainers("grpo_trainer")
import trl
GRPOConfig = trl.GRPOConfig
sizes = dict(per_device_train_batch_size=1, gradient_accumulation_steps=2, num_generations=8)
raised = GRPOConfig(output_dir=sys.argv[2], use_cpu=True, bf16=False, **sizes)
assert raised.per_device_train_batch_size == 8, "without steps_per_generation it raises the batch; stock TRL refuses"
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [STOCK, ON_A_GPU], ids=["stock TRL", "Unsloth's on a GPU"])
def test_case_16_the_libraries_take_the_batch_as_asked_or_refuse_it(first: str, tmp_path: object) -> None:
    """Case 16: with steps_per_generation given, stock TRL and Unsloth's GPU config hold what was asked for."""
    asked = [(1, 8, 8, 8), (8, 1, 1, 3), (16, 4, 8, 16), (4, 16, 32, 16), (2, 32, 64, 16), (1, 2, 2, 8)]
    command = [sys.executable, "-c", TRL.format(first=first), json.dumps(asked), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    for sizes_, row in zip(asked, json.loads(done.stdout), strict=True):
        if row is None:
            with pytest.raises(ConfigError):
                geometry(*sizes_)
        else:
            mine = geometry(*sizes_)
            assert row == [*sizes_, mine.num_iterations, mine.world_size, mine.completions_per_rollout]
