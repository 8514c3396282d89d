"""What stays in 16 bits of a model asked for in 4: facts held against Unsloth, transformers and the sizes of files."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from arcslim.cards import GIB, find_gpu, find_model, model_cards
from arcslim.cli.plan import plan_for
from arcslim.cli.plan_model import packing_for
from arcslim.memory.formulas import held_weights
from arcslim.memory.packing import (
    ALL_PACKED,
    DYNAMIC,
    copies,
    copy_of,
    kept_weights,
    packing_of,
    plain_copy,
    weights_of_size,
)
from arcslim.memory.plan import NO, TIGHT, make_plan
from arcslim.memory.setup import Request
from arcslim.policy.weights import weights_repository
from arcslim.presets import load_config

R1 = "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"
INSTRUCT = "Qwen/Qwen2.5-7B-Instruct"


def test_the_copies_are_those_that_the_installed_unsloth_loads() -> None:
    if importlib.util.find_spec("unsloth") is None:
        pytest.skip("unsloth is not installed")
    ids = [name for card in model_cards() if not card.name.startswith("tiny") for name in card.ids]
    assert len(ids) > 50
    for name in ids:
        loaded = weights_repository(name, four_bit=True, on_gpu=True)
        assert copy_of(name) == (loaded if loaded.endswith(DYNAMIC) else None), name
    for copy in copies():
        assert weights_repository(plain_copy(copy.name), four_bit=True, on_gpu=True) == plain_copy(copy.name)


@pytest.mark.parametrize("copy", [copy for copy in copies() if copy.weights is not None], ids=lambda copy: copy.name)
def test_what_a_copy_keeps_has_a_source_and_is_a_part_of_its_maps(copy) -> None:  # type: ignore[no-untyped-def]
    assert copy.source.startswith("https://huggingface.co/")
    assert 0.01 < copy.weights / copy.model.linear_parameters < 0.5
    packed, plain = held_weights(copy.model, four_bit=True, kept=copy.weights)
    if copy.gb is not None:
        assert packed + plain == pytest.approx(copy.gb * 1e9, rel=1e-6)


def test_llamas_copy_keeps_the_mlp_of_one_layer() -> None:
    """A size of files of which one knows what it must come to: that it is a whole number of modules is a check."""
    card = find_model("Llama-3.1-8B")
    (copy,) = [copy for copy in copies() if copy.name == "unsloth/Llama-3.1-8B-unsloth-bnb-4bit"]
    mlp = kept_weights(card, ["model.layers.1.mlp"])
    assert mlp == 3 * card.hidden_size * card.intermediate_size
    assert copy.weights == pytest.approx(mlp, rel=0.02)


@pytest.mark.parametrize(("name", "gb"), [("Qwen2.5-7B", 5.55), ("Qwen2.5-14B", 9.93), ("Llama-3.1-8B", 5.70)])
def test_copies_that_are_packed_throughout_keep_nothing(name: str, gb: float) -> None:
    card = find_model(name)
    assert weights_of_size(card, gb * 1e9) < 0.002 * card.linear_parameters


def test_a_list_is_read_as_transformers_reads_it() -> None:
    quantizers = pytest.importorskip("transformers.quantizers.quantizers_utils")
    card = find_model("Qwen3-4B")
    shapes = {name: inputs * outputs for name, (inputs, outputs) in card.linear_shapes.items()}
    groups = {name: "self_attn" if name[0] in "qkvo" else "mlp" for name in shapes}
    lists = (
        ["lm_head"], ["lm_head", "model.layers.3.mlp"], ["model.layers.1"], ["down_proj"],
        ["model.layers.7.mlp.up_proj"], ["multi_modal_projector", "model.layers.34.self_attn", "model.layers.3"], [],
    )  # fmt: skip
    for skipped in lists:
        theirs = sum(
            size
            for layer in range(card.num_hidden_layers)
            for name, size in shapes.items()
            if not quantizers.should_convert_module(f"model.layers.{layer}.{groups[name]}.{name}", skipped)
        )
        assert kept_weights(card, skipped) == theirs, skipped


def test_known_copies_by_their_size_others_by_the_nearest_with_a_wider_band() -> None:
    r1 = packing_of(find_model(R1), R1, on_gpu=True)
    assert r1.kept == r1.most and "8.49 GB" in r1.why
    base = packing_of(find_model("Qwen2.5-7B"), "Qwen/Qwen2.5-7B", on_gpu=True)
    instruct = packing_of(find_model(INSTRUCT), INSTRUCT, on_gpu=True)
    assert instruct.kept == base.kept and instruct.most > instruct.kept and "estimated" in instruct.why
    assert instruct.copy == "unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit"


@pytest.mark.parametrize(
    ("name", "on_gpu"),
    [
        (INSTRUCT, False),  # the CPU backend packs what it is told to load
        ("random:Qwen2.5-7B", True),
        ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", True),
        ("someone/Qwen2.5-7B-Instruct", True),  # no id that Unsloth knows: packed when it is loaded
        ("Qwen/Qwen2.5-Coder-7B-Instruct", True),
        ("Qwen/Qwen3-32B", True),
        ("tiny", True),
    ],
)
def test_packed_throughout(name: str, on_gpu: bool) -> None:
    assert packing_of(find_model(name), name, on_gpu=on_gpu) == ALL_PACKED


@pytest.mark.parametrize("name", ["unsloth/Qwen2.5-7B-Instruct", "unsloth/qwen2.5-7b-instruct-unsloth-bnb-4bit"])
def test_the_mirror_and_the_copy_itself_lead_to_the_copy(name: str) -> None:
    assert packing_of(find_model(name), name, on_gpu=True).kept > 0


def packed_config(**more: object) -> str:
    from arcslim.cards import config_of

    return json.dumps(config_of(find_model("Qwen2.5-7B")) | {"quantization_config": more})


def test_a_folder_says_it_in_its_config(tmp_path: Path) -> None:
    skipped = ["lm_head", "model.layers.0.mlp", "model.layers.5.self_attn"]
    (tmp_path / "config.json").write_text(
        packed_config(quant_method="bitsandbytes", load_in_4bit=True, llm_int8_skip_modules=skipped)
    )
    config = load_config("4090", [], {"model.name": str(tmp_path)}, recipe="grpo").config
    plan = plan_for(config, "grpo", find_gpu("4090"))
    card = find_model("Qwen2.5-7B")
    expected = kept_weights(card, skipped)
    assert plan.request.packing.kept == plan.request.packing.most == expected > 0
    told = plan.to_dict()["phases"]["load"]["gpu"]
    (item,) = [item for item in told if item["name"] == "maps not packed"]
    assert item["bytes"] == 2 * expected and "config.json" in item["note"]


def test_a_copy_in_the_hubs_cache_goes_before_the_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_of(R1)
    assert copy is not None
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    card = find_model(R1)
    assert packing_for(card, R1, on_gpu=True) == packing_of(card, R1, on_gpu=True), "nothing is there yet"
    place = tmp_path / f"models--{copy.replace('/', '--')}"
    (place / "snapshots" / "abc").mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("abc")
    skipped = ["lm_head", "model.layers.2.mlp"]
    (place / "snapshots" / "abc" / "config.json").write_text(
        packed_config(quant_method="bitsandbytes", load_in_4bit=True, llm_int8_skip_modules=skipped)
    )
    exact = packing_for(card, R1, on_gpu=True)
    assert exact.kept == exact.most == kept_weights(card, skipped) and "cache" in exact.why
    adapter = tmp_path / "run"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": R1, "r": 8}))
    assert packing_for(card, str(adapter), on_gpu=True) == exact


def test_what_the_14b_preset_would_load_by_the_models_own_name_does_not_fit() -> None:
    """Why the preset names the copy that is packed throughout; which is the mend that is advised."""
    preset = load_config("4090-14b", recipe="grpo").config
    assert plan_for(preset, "grpo", find_gpu("4090")).fits
    config = load_config("4090-14b", [], {"model.name": "Qwen/Qwen2.5-14B-Instruct"}, recipe="grpo").config
    plan = plan_for(config, "grpo", find_gpu("4090"))
    assert plan.verdict == NO
    (mend,) = [mend for mend in plan.mends if "packed throughout" in mend.what]
    assert mend.settings == (f"--model {preset.model.name}",)
    assert any("keeps 22% of the linear maps in 16 bits" in note for note in plan.notes)


def test_an_estimate_widens_the_band() -> None:
    config = load_config("4090", [], {"model.name": INSTRUCT}, recipe="grpo").config
    plan = plan_for(config, "grpo", find_gpu("24"))
    assert plan.verdict == TIGHT
    sure = make_plan(replace(plan.request, packing=replace(plan.request.packing, most=plan.request.packing.kept)))
    assert sure.peak == plan.peak
    assert (plan.band[1] - sure.band[1]) / GIB == pytest.approx(0.88, abs=0.02)  # 9.7% of 6.5e9 maps at 1.48 B
    assert "band" in " ".join(plan.notes)


def test_packing_says_nothing_of_16_bits() -> None:
    config = load_config("h100", recipe="grpo").config
    plan = plan_for(config, "grpo", find_gpu("h100"))
    assert plan.request.packing.kept > 0 and plan.request.kept == 0 and plan.request.may_be_more == 0
    assert plan.to_dict()["packing"] is None
    four_bit = Request(
        plan.request.card, plan.request.gpu, replace(plan.request.setup, four_bit=True), plan.request.packing
    )
    assert four_bit.kept > 0
