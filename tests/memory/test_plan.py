"""Plans: phases, verdicts, and advice that is true: what a plan advises is planned again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.cards import GIB, GpuCard, find_gpu, find_model, gpu_named_in, model_cards
from arcslim.cli.plan import plan_for
from arcslim.errors import DoesNotFitError, ModelError
from arcslim.memory.decode import most_rows
from arcslim.memory.mends import Mend
from arcslim.memory.phases import Phase, fits, phases_of, trained_parameters
from arcslim.memory.plan import FITS, NO, TIGHT, make_plan, refuse_what_cannot_fit
from arcslim.memory.setup import GRPO, SFT, Request
from arcslim.presets import Resolved, find_preset, list_presets, load_config


def request(preset: str = "4090", gpu: str = "4090", recipe: str = GRPO, *sets: str) -> Request:
    return plan_for(load_config(preset, sets, recipe=recipe).config, recipe, find_gpu(gpu)).request


def names(phase: Phase) -> dict[str, float]:
    return {item.name: item.bytes for item in phase.gpu if item.counts}


@pytest.mark.parametrize("name", [preset.name for preset in list_presets()])
@pytest.mark.parametrize("recipe", [GRPO, SFT])
def test_a_preset_fits_the_card_that_it_was_made_for(name: str, recipe: str) -> None:
    preset = find_preset(name)
    if recipe == GRPO and "arcslim sft" in preset.entry("Run"):
        pytest.skip("made for SFT alone")
    gpu = gpu_named_in(preset.entry("Made for")) or GpuCard("cpu", 8)
    plan = plan_for(load_config(name, recipe=recipe).config, recipe, gpu)
    assert plan.fits, f"{plan.peak / GIB:.1f} of {plan.usable / GIB:.1f} GiB; {plan.mends[:1]}"


def test_phases_take_turns_and_hold_what_they_must() -> None:
    plan = make_plan(request())
    load, rollout, update, evaluation = plan.phases
    assert [phase.name for phase in plan.phases] == ["load", "rollout", "update", "evaluation"]
    assert evaluation.gpu_peak > rollout.gpu_peak, "its prompts are padded, those of a group are not"
    assert plan.peak == max(phase.gpu_peak for phase in plan.phases) + plan.reserve
    assert {"weights in NF4", "weights in bf16", "CUDA context"} <= names(load).keys()
    assert "gradients" in names(update) and "gradients" not in names(rollout)
    assert {item.name for item in rollout.gpu} >= {"KV cache", "reading the prompts", "sampling"}
    assert "checkpoints, offloaded" in {item.name for item in update.host}
    kv = next(item for item in rollout.gpu if item.name == "KV cache")
    assert kv.bytes / GIB == pytest.approx(5.25, abs=0.01)  # docs/memory.md
    assert "prompts not shared; shared 2.0 GiB" in kv.note  # (4,096 + 16 x 2,048) x 56 KiB


@pytest.mark.parametrize(
    ("setting", "gone", "come"),
    [
        ("model.use_gradient_checkpointing=true", None, "checkpoints"),
        ("model.use_gradient_checkpointing=false", None, "activations of all layers"),
        ("model.load_in_4bit=false", "weights in NF4", "weights in bf16"),
        ("grpo.beta=0.04", None, "reference adapter"),
    ],
)
def test_a_knob_changes_its_item(setting: str, gone: str | None, come: str) -> None:
    update = make_plan(request("4090", "h100", GRPO, setting)).phase("update")
    assert come in names(update) and gone not in names(update)


def test_checkpoints_on_the_gpu_are_those_that_were_offloaded() -> None:
    offloaded = make_plan(request()).phase("update")
    kept = make_plan(request("4090", "h100", GRPO, "model.use_gradient_checkpointing=true")).phase("update")
    host = {item.name: item.bytes for item in offloaded.host}
    assert names(kept)["checkpoints"] == host["checkpoints, offloaded"]
    assert kept.host_peak < offloaded.host_peak


@pytest.mark.parametrize(
    ("name", "gib"), [("Qwen2.5-7B", 11.5), ("Qwen3-8B", 11.5), ("Qwen2.5-14B", 16.5), ("Qwen3-14B", 16.5)]
)
def test_an_update_of_one_row_of_16k_is_what_was_worked_out(name: str, gib: float) -> None:
    """11 to 12 and 16 to 17 GiB, give or take a fifth: NF4, an adapter of rank 32."""
    sets = ("sft.max_length=16384", "sft.lora_r=32", "data.sources=['traces.jsonl']")
    config = load_config("4090", sets, {"model.name": f"random:{name}"}, recipe=SFT).config
    assert plan_for(config, SFT, find_gpu("h100")).phase("update").gpu_peak / GIB == pytest.approx(gib, rel=0.2)


def test_all_weights_cost_six_bytes_a_parameter() -> None:
    update = make_plan(request("olympiccoder-7b", "h100", SFT)).phase("update")
    held = names(update)
    trained = held["weights in bf16"] + held["gradients"] + held["optimizer"]
    assert trained / find_model("Qwen2.5-7B").parameters == pytest.approx(6, abs=0.05)
    assert "adapter" not in held


def test_sft_has_no_rollout_but_evaluations_where_it_has_tasks() -> None:
    assert [phase.name for phase in make_plan(request(recipe=SFT)).phases] == ["load", "update", "evaluation"]
    rows = make_plan(request("4090", "4090", SFT, "data.sources=['traces.jsonl']"))
    assert [phase.name for phase in rows.phases] == ["load", "update"]
    assert rows.request.setup.lora_r == 64


def test_vllm_holds_its_share_unless_it_sleeps() -> None:
    awake = make_plan(request("h100", "h100", GRPO, "model.fast_inference=true"))
    asleep = make_plan(request("h100", "h100", GRPO, "model.fast_inference=true", "model.standby=true"))
    share = 0.6 * awake.usable
    rollout = names(awake.phase("rollout"))
    assert sum(rollout[name] for name in ("weights in bf16", "vLLM's KV cache", "vLLM's graphs")) == pytest.approx(
        share
    )
    assert "vLLM's KV cache" in names(awake.phase("update"))
    assert "vLLM's KV cache" not in names(asleep.phase("update"))
    assert awake.decoding is not None and awake.decoding.most_rows == 256


def test_without_a_gpu_everything_lies_in_ram() -> None:
    plan = plan_for(load_config("cpu").config, GRPO, GpuCard("cpu", 8))
    assert all(phase.gpu == () for phase in plan.phases)
    assert plan.reserve == 0 and plan.fits
    assert 2 * GIB < plan.peak < 5 * GIB  # 2.7 to 4.6 were measured (docs/log.md)


@pytest.mark.parametrize("full", [False, True])
def test_without_a_gpu_adam_is_not_8_bit_and_what_is_trained_is_fp32(full: bool) -> None:
    sets = ("model.load_in_4bit=false", "model.full_finetuning=true") if full else ()
    plan = plan_for(load_config("cpu", [*sets, "optim.optim=paged_adamw_8bit"]).config, GRPO, GpuCard("cpu", 8))
    held = {item.name: item.bytes for item in plan.phase("update").host}
    trained = trained_parameters(plan.request)
    assert held["gradients"] == 4 * trained and held["optimizer"] == 8 * trained
    if full:
        assert trained == plan.request.card.parameters
        assert held["weights in fp32"] == 4 * trained


@pytest.mark.parametrize(("gpu", "verdict"), [("h100", FITS), ("20.5", TIGHT), ("8", NO)])
def test_a_verdict_minds_the_error_band(gpu: str, verdict: str) -> None:
    assert make_plan(request(gpu=gpu)).verdict == verdict


def typed(mend: Mend, preset: str, gpu: str, recipe: str) -> Request:
    """The request that a mend's settings make when they are typed."""
    words = shlex.split(" ".join(mend.settings))
    pairs = list(zip(words[::2], words[1::2], strict=True))
    sets = [value for option, value in pairs if option == "--set"]
    (model,) = [value for option, value in pairs if option == "--model"] or [None]
    resolved: Resolved = load_config(preset, sets, {"model.name": model}, recipe=recipe)
    return plan_for(resolved.config, recipe, find_gpu(gpu)).request


@pytest.mark.parametrize(
    ("preset", "gpu", "recipe", "kind"),
    [
        ("4090", "8", GRPO, "the model"),
        ("4090", "16", GRPO, "drawn at once"),
        ("4090", "12", GRPO, "fewer rows at once"),
        ("h100", "24", GRPO, "fewer rows at once"),
        ("h100-14b", "50", GRPO, "drawn at once"),
        ("4090", "8", SFT, "the model"),
        ("4090", "14", SFT, "drawn at once"),
        ("olympiccoder-7b", "a100-40", SFT, "an adapter"),
        ("olympiccoder-7b", "50", SFT, "rows of at most"),
    ],
)
def test_what_is_advised_fits_when_it_is_typed_and_is_valid(preset: str, gpu: str, recipe: str, kind: str) -> None:
    asked = request(preset, gpu, recipe)
    plan = make_plan(asked)
    assert not plan.fits
    assert plan.mends and kind in plan.mends[0].what, plan.mends
    for mend in plan.mends:
        assert fits(typed(mend, preset, gpu, recipe)), mend
    assert any(mend.single for mend in plan.mends)


def test_a_mend_goes_no_further_than_it_must() -> None:
    asked = request(gpu="16")
    (mend,) = [mend for mend in make_plan(asked).mends if "drawn at once" in mend.what]
    rows = typed(mend, "4090", "16", GRPO).setup.rollout_rows
    one_more = replace(asked, setup=replace(asked.setup, rollout_rows=rows + 1, eval_rows=rows + 1))
    assert not fits(one_more)


def test_the_limits_are_the_last_that_fit() -> None:
    asked = request()
    context, generations, batch = make_plan(asked).limits
    assert context.value and generations.value and batch.value

    def with_setup(**changes: int) -> bool:
        return fits(replace(asked, setup=replace(asked.setup, **changes)))

    assert with_setup(micro_batch=batch.value) and not with_setup(micro_batch=batch.value + 1)
    rows = generations.value
    assert with_setup(rollout_rows=rows, eval_rows=rows) and not with_setup(rollout_rows=rows + 1)
    prompt = asked.setup.prompt
    assert with_setup(completion=context.value - prompt, row=context.value)
    assert not with_setup(completion=context.value + 64 - prompt, row=context.value + 64)


def test_the_fastest_rows_are_the_fastest_of_those_that_fit() -> None:
    decoding = make_plan(request()).decoding
    assert decoding is not None and decoding.best_rows and decoding.most_rows
    assert decoding.best_rows <= decoding.most_rows < 128
    best = next(rate for rate in decoding.rates if rate.rows == decoding.best_rows)
    assert all(
        best.rollout_seconds <= rate.rollout_seconds for rate in decoding.rates if rate.rows <= decoding.most_rows
    )
    assert make_plan(request(gpu="24")).decoding is None, "no bandwidth is known of a number of GiB"


@given(
    st.sampled_from(model_cards()),
    st.sampled_from(["8", "4090", "h100"]),
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(64, 16384),
    st.integers(64, 16384),
    st.booleans(),
)
def test_more_of_anything_never_takes_less(
    card: object, gpu: str, batch: int, rows: int, prompt: int, completion: int, four_bit: bool
) -> None:
    base = request(gpu=gpu)
    setup = replace(
        base.setup, micro_batch=batch, rollout_rows=rows, eval_rows=rows, prompt=prompt, completion=completion,
        row=prompt + completion, four_bit=four_bit, generations=1, eval_samples=1,
    )  # fmt: skip
    asked = Request(card, base.gpu, setup)  # type: ignore[arg-type]

    def peaks(one: Request) -> list[float]:
        return [phase.gpu_peak for phase in phases_of(one)]

    now = peaks(asked)
    assert all(peak > 0 for peak in now)
    for more in (
        {"micro_batch": batch + 1},
        {"rollout_rows": rows + 1},
        {"prompt": prompt + 64, "row": prompt + completion + 64},
        {"completion": completion + 64, "row": prompt + completion + 64},
        {"lora_r": 2 * setup.lora_r},
    ):
        grown = peaks(replace(asked, setup=replace(setup, **more)))  # type: ignore[arg-type]
        assert all(after >= before for before, after in zip(now, grown, strict=True)), more


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_search_finds_the_last_that_fits(last: int, ceiling: int) -> None:
    assert most_rows(lambda rows: rows <= last, ceiling) == (min(last, ceiling) or None)


def test_a_plan_is_json_that_says_all_of_it() -> None:
    plan = make_plan(request(gpu="8"))
    told = json.loads(plan.to_json())
    assert told["fits"] is False and told["verdict"] == NO
    assert told["peak_bytes"] == int(plan.peak)
    assert {"load", "rollout", "update", "evaluation"} == told["phases"].keys()
    rollout = told["phases"]["rollout"]
    counted = sum(item["bytes"] for item in rollout["gpu"] if item["counts"])
    assert counted == pytest.approx(rollout["gpu_peak_bytes"], abs=len(rollout["gpu"]))
    assert told["mends"][0]["settings"] and told["limits"] and told["setup"]["micro_batch"] == 4


def test_what_cannot_fit_is_refused_with_the_cheapest_change() -> None:
    config = load_config("4090").config
    refuse_what_cannot_fit(plan_for(config, GRPO, find_gpu("4090")))
    with pytest.raises(DoesNotFitError) as error:
        refuse_what_cannot_fit(plan_for(config, GRPO, find_gpu("16")))
    assert error.value.exit_code == 3
    assert error.value.hint is not None and "--set generation.rollout_batch=" in error.value.hint


def test_preflight_says_when_it_does_not_know_the_model() -> None:
    config = load_config("4090", [], {"model.name": "someone/else"}).config
    with pytest.raises(ModelError, match="someone/else"):
        plan_for(config, GRPO, find_gpu("4090"))
