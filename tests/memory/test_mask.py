"""The mask that prompts of different lengths are read under: its size, by transformers, and when there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.cards import GIB, find_gpu, find_model
from arcslim.cli.plan import plan_for
from arcslim.memory import formulas as f
from arcslim.memory.phases import fits
from arcslim.memory.plan import Plan, make_plan
from arcslim.memory.setup import GRPO, HER, PRETRAIN, PRETRAIN_EVAL_SAMPLES, SFT, setup_of
from arcslim.policy.generate import _even
from arcslim.presets import load_config
from tests.memory.made import live_bytes

MASK = "mask of the padding"
LONG = ("model.max_seq_length=32768",)


def planned(preset: str, gpu: str, recipe: str, *sets: str) -> Plan:
    return plan_for(load_config(preset, sets, recipe=recipe).config, recipe, find_gpu(gpu))


def masks(plan: Plan) -> dict[str, float]:
    return {phase.name: item.bytes / GIB for phase in plan.phases for item in phase.gpu if item.name == MASK}


@pytest.mark.parametrize(("rows", "prompt", "gib"), [(16, 4096, 0.5), (32, 8192, 4), (16, 16384, 8)])
def test_worked_by_hand(rows: int, prompt: int, gib: float) -> None:
    assert f.padding_mask(rows, prompt)[0] == gib * GIB
    assert f.padding_mask(rows, prompt)[1] == 3.5 * gib * GIB


def test_what_transformers_builds_is_what_is_planned() -> None:
    torch = pytest.importorskip("torch")
    built = pytest.importorskip("transformers.modeling_attn_mask_utils")
    rows, prompt = 8, 256
    embeds = torch.zeros(rows, prompt, 4, dtype=torch.bfloat16)
    padded = torch.ones(rows, prompt, dtype=torch.long)
    padded[1, :3] = 0

    def mask_of(attention: Any) -> Any:
        return built._prepare_4d_causal_attention_mask_for_sdpa(attention, (rows, prompt), embeds, 0)

    assert mask_of(torch.ones(rows, prompt, dtype=torch.long)) is None
    mask, most = live_bytes(lambda: mask_of(padded))
    lying, building = f.padding_mask(rows, prompt)
    assert mask.element_size() * mask.numel() == lying
    assert most == pytest.approx(building, rel=0.06)  # and the causal mask of one row


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 40))
def test_a_batch_without_a_mask_holds_one_prompt(prompts: int, samples: int, batch: int) -> None:
    setup = replace(setup_of(load_config("4090").config), generations=samples, rollout_rows=batch)
    rows = [prompt for prompt in range(prompts) for _ in range(samples)]
    size = _even(len(rows), batch)
    mixed = any(len(set(rows[start : start + size])) > 1 for start in range(0, len(rows), size))
    assert setup.is_padded(evaluation=False) or not mixed


def test_groups_need_none_and_evaluations_do() -> None:
    small = planned("4090", "4090", GRPO)
    assert masks(small) == {"evaluation": 0.5}, "a rollout's batch is one group"
    assert small.peak == small.phase("evaluation").gpu_peak + small.reserve
    assert masks(planned("h100", "h100", GRPO)) == {"rollout": 4.0}, "two groups at once"
    assert masks(planned("4090", "4090", SFT)) == {"evaluation": 0.5}
    assert masks(planned("4090", "4090", HER)) == {}, "one question"
    assert masks(planned("4090", "4090", PRETRAIN)).keys() == {"evaluation"}
    quiet = ("run.eval_batch=4", "run.eval_samples=4", "run.test_samples=8")
    assert masks(planned("4090", "4090", GRPO, *quiet)) == {}, "each task by itself"
    assert masks(planned("4090", "4090", GRPO, *quiet, "run.test_samples=6")) == {"evaluation": 0.125}
    assert masks(planned("h100", "h100", GRPO, "model.fast_inference=true")) == {}


def test_the_mask_is_added_to_the_reading_alone() -> None:
    plan = planned("h100", "h100", GRPO)
    one_group = replace(plan.request, setup=replace(plan.request.setup, generations=32))
    more = plan.phase("rollout").gpu_peak - make_plan(one_group).phase("rollout").gpu_peak
    assert more == 4 * GIB
    held = {item.name: item.counts for item in plan.phase("rollout").gpu}
    assert held[MASK] and held["reading the prompts"] and not held["building that mask"] and not held["KV cache"]


def test_long_prompts_of_a_small_model_are_fullest_while_the_mask_is_built() -> None:
    plan = planned("4090", "h100", GRPO, "generation.rollout_batch=12", *LONG, "prompt.max_tokens=20000")
    small = replace(plan.request, card=find_model("Qwen2.5-0.5B"))
    held = {item.name: item for item in make_plan(small).phase("rollout").gpu}
    assert held["building that mask"].counts and held["building that mask"].bytes == 7 * 12 * 20_000**2
    assert not held["reading the prompts"].counts and not held[MASK].counts and not held["sampling"].counts


def test_without_a_gpu_it_is_in_ram() -> None:
    plan = planned("cpu", "cpu", GRPO, "generation.rollout_batch=64")
    (item,) = [item for item in plan.phase("rollout").host if item.name == MASK]
    assert item.bytes == 5 * 64 * plan.request.setup.prompt**2


def test_rows_are_searched_beyond_a_number_that_does_not_fit() -> None:
    """16 rows are one group; 15 are not, and need a mask: of long prompts more than a row less saves."""
    plan = planned("4090", "h100", GRPO, *LONG, "prompt.max_tokens=16384", "run.eval_batch=1")

    def with_rows(rows: int, size: float) -> bool:
        setup = replace(plan.request.setup, rollout_rows=rows)
        return fits(replace(plan.request, setup=setup, gpu=replace(plan.request.gpu, usable_gib=size)))

    size = next(size / 4 for size in range(4, 400) if with_rows(16, size / 4))
    assert with_rows(16, size) and not with_rows(15, size)
    gpu = replace(plan.request.gpu, usable_gib=size)
    small = make_plan(replace(plan.request, gpu=gpu))
    assert small.decoding is not None and small.decoding.most_rows == 16
    assert {rate.rows for rate in small.decoding.rates} >= {16}


def test_what_measures_a_base_draws_as_many_of_each_as_planned() -> None:
    her_pretrain = pytest.importorskip("arcslim.recipes.her_pretrain")
    assert her_pretrain.SAMPLES == PRETRAIN_EVAL_SAMPLES
