"""Advice is true whatever is asked: what is named as the last that fits is the last, and what is to be typed fits."""

from __future__ import annotations

import shlex
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcslim.cards import find_gpu, model_cards
from arcslim.cli.plan import plan_for
from arcslim.memory.changes import LEAST_LENGTH, LENGTH_STEP, MOST_ROWS
from arcslim.memory.limits import Limit
from arcslim.memory.phases import fits
from arcslim.memory.plan import make_plan
from arcslim.memory.setup import GRPO, HER, PRETRAIN, RECIPES, SFT, Request
from arcslim.presets import load_config

MODELS = [card.ids[0] for card in model_cards() if not card.name.startswith("tiny")]
GPUS = ["4", "8", "11", "16", "4090", "32", "a6000", "h100", "h200"]
CHOICES = (
    st.sampled_from(["4090", "4090-14b", "h100", "olympiccoder-7b"]),
    st.sampled_from(RECIPES),
    st.sampled_from([*MODELS, "unsloth/Qwen2.5-7B-Instruct-bnb-4bit", "random:Qwen3-8B"]),
    st.sampled_from(GPUS),
    st.sampled_from(["model.load_in_4bit=true", "model.load_in_4bit=false"]),
    st.sampled_from(["unsloth", "true", "false"]),
    st.booleans(),
)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def words(
    recipe: str, model: str, four_bit: str, checkpointing: str, vllm: bool
) -> tuple[list[str], dict[str, object]]:
    sets = [f"model.use_gradient_checkpointing={checkpointing}", "model.full_finetuning=false"]
    if recipe in (HER, PRETRAIN):
        key = "her.model" if recipe == HER else "her.base.model"
        return [*sets, four_bit.replace("model.", "her.")], {key: model}
    if vllm and recipe == GRPO:
        sets += ["model.fast_inference=true", "lora.use_dora=false"]
    return [*sets, four_bit], {"model.name": model}


def asked(preset: str, recipe: str, gpu: str, sets: list[str], flags: dict[str, object]) -> Request:
    return plan_for(load_config(preset, sets, flags, recipe=recipe).config, recipe, find_gpu(gpu)).request


@given(*CHOICES)
@QUICK
def test_every_change_that_is_advised_fits_when_it_is_typed(
    preset: str, recipe: str, model: str, gpu: str, four_bit: str, checkpointing: str, vllm: bool
) -> None:
    sets, flags = words(recipe, model, four_bit, checkpointing, vllm)
    plan = make_plan(asked(preset, recipe, gpu, sets, flags))
    assert bool(plan.mends) <= (not plan.fits), "nothing is mended that fits"
    for mend in plan.mends:
        typed = shlex.split(" ".join(mend.settings))
        pairs = list(zip(typed[::2], typed[1::2], strict=True))
        models = [value for option, value in pairs if option == "--model"]
        changed = {key: models[0] if models else value for key, value in flags.items()}
        more = [value for option, value in pairs if option == "--set"]
        assert {option for option, _ in pairs} <= {"--model", "--set"}
        assert fits(asked(preset, recipe, gpu, [*sets, *more], changed)), mend


def with_limit(request: Request, limit: Limit, step: int) -> Request:
    """The request at a limit, or one step over it."""
    setup, value = request.setup, (limit.value or 0) + step * (LENGTH_STEP if "longest" in limit.what else 1)
    if limit.what == "largest micro-batch":
        return replace(request, setup=replace(setup, micro_batch=value))
    if limit.what == "most generations":
        return replace(request, setup=replace(setup, rollout_rows=value, eval_rows=value))
    if limit.what == "longest row":
        return replace(request, setup=replace(setup, row=value))
    return replace(request, setup=replace(setup, completion=value - setup.prompt, row=value))


@given(*CHOICES)
@QUICK
def test_each_limit_fits_and_one_step_more_does_not(
    preset: str, recipe: str, model: str, gpu: str, four_bit: str, checkpointing: str, vllm: bool
) -> None:
    sets, flags = words(recipe, model, four_bit, checkpointing, vllm)
    request = asked(preset, recipe, gpu, sets, flags)
    found = [limit for limit in make_plan(request).limits if "vLLM" not in limit.what]
    assert {limit.what for limit in found} >= {"largest micro-batch"}
    positions = request.card.max_position_embeddings
    for limit in found:
        if limit.value is None:
            least = LEAST_LENGTH // LENGTH_STEP if "longest" in limit.what else 1
            start = request.setup.prompt if limit.what == "longest context" else 0
            assert start >= positions or not fits(with_limit(request, Limit(limit.what, start), least)), limit
            continue
        assert fits(with_limit(request, limit, 0)), limit
        most = MOST_ROWS if "longest" not in limit.what else positions - LENGTH_STEP + 1
        assert limit.value >= most or not fits(with_limit(request, limit, 1)), limit


def test_sft_of_rows_has_a_longest_row() -> None:
    request = asked("4090", SFT, "4090", ["data.sources=['traces.jsonl']"], {})
    assert [limit.what for limit in make_plan(request).limits] == ["longest row", "largest micro-batch"]
