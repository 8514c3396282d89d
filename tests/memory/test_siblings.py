"""Which smaller model is named: of the family and the kind that was asked for, and it fits when it is typed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arcslim.cards import RANDOM, GpuCard, find_gpu, find_model, gpu_named_in, model_cards
from arcslim.cli.plan import plan_for
from arcslim.memory.plan import make_plan
from arcslim.memory.setup import GRPO, SFT
from arcslim.memory.siblings import sibling_id, smaller_siblings
from arcslim.policy.weights import weights_repository
from arcslim.presets import list_presets, load_config


@pytest.mark.parametrize(
    ("name", "card", "expected"),
    [
        ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", "Qwen2.5-0.5B", "unsloth/Qwen2.5-0.5B-Instruct-bnb-4bit"),
        ("unsloth/Qwen2.5-7B-bnb-4bit", "Qwen2.5-3B", "unsloth/Qwen2.5-3B-bnb-4bit"),
        ("unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", "Qwen2.5-3B", "Qwen/Qwen2.5-3B-Instruct"),
        ("Qwen/Qwen2.5-14B-Instruct", "Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen2.5-3B", "Qwen/Qwen2.5-Coder-3B-Instruct"),
        ("unsloth/Qwen2.5-Coder-7B-bnb-4bit", "Qwen2.5-3B", "Qwen/Qwen2.5-Coder-3B"),
        (
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
            "R1-Distill-Qwen-1.5B",
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        ),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "Llama-3.1-8B", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen3-8B", "Qwen3-4B", "Qwen/Qwen3-4B"),
        ("unsloth/Qwen3-8B-Base-bnb-4bit", "Qwen3-4B", "unsloth/Qwen3-4B-Base-bnb-4bit"),
        ("runs/grpo-1/final", "Qwen2.5-3B", "Qwen/Qwen2.5-3B-Instruct"),
        ("someone/Qwen2.5-7B-Instruct-ARC", "Qwen2.5-3B", "Qwen/Qwen2.5-3B-Instruct"),
        ("random:Qwen2.5-7B", "Qwen2.5-3B", "random:Qwen2.5-3B"),
    ],
)
def test_the_same_kind_in_the_same_form(name: str, card: str, expected: str) -> None:
    assert sibling_id(name, find_model(card)) == expected


@pytest.mark.parametrize("name", [one for card in model_cards() for one in card.ids])
def test_every_id_that_is_named_is_one_of_the_sibling(name: str) -> None:
    for sibling in model_cards():
        if sibling.family is None or sibling.family != find_model(name).family:
            continue
        found = sibling_id(name, sibling)
        assert found in sibling.ids and ("Coder" in found) == ("Coder" in name)
        packed = weights_repository(name, four_bit=True, on_gpu=True).replace("-unsloth-", "-")
        copy = sibling_id(packed, sibling)
        assert find_model(copy) == sibling
        assert ("Instruct" in copy) == ("Instruct" in found) and ("Coder" in copy) == ("Coder" in found), copy


def sibling_mends(preset: str, recipe: str, gpu: GpuCard) -> list[str]:
    plan = plan_for(load_config(preset, recipe=recipe).config, recipe, gpu)
    return [
        mend.settings[0] for mend in plan.mends if mend.settings[0].startswith("--model ") and "the model" in mend.what
    ]


@pytest.mark.parametrize("preset", [one.name for one in list_presets() if gpu_named_in(one.entry("Made for"))])
def test_each_preset_is_told_a_smaller_model_of_its_kind_that_fits(preset: str) -> None:
    recipe = SFT if preset.startswith("olympic") else GRPO
    own = load_config(preset, recipe=recipe).config.model.name
    named = 0
    for size in ("5", "6", "8", "10", "16", "24", "48"):
        for setting in sibling_mends(preset, recipe, find_gpu(size)):
            name = setting.removeprefix("--model ")
            for kind in ("Instruct", "Coder", "R1-Distill", "-bnb-4bit"):
                assert (kind in name) == (kind in own), (name, own)
            named += 1
    assert named
    plan = plan_for(load_config(preset, recipe=recipe).config, recipe, find_gpu("8"))
    for smaller, name in smaller_siblings(plan.request):
        typed = plan_for(load_config(preset, [], {"model.name": name}, recipe=recipe).config, recipe, find_gpu("8"))
        assert typed.request.card == smaller.card and typed.peak == make_plan(smaller).peak, name


def test_a_model_of_no_family_has_none() -> None:
    plan = plan_for(load_config("4090").config, GRPO, find_gpu("8"))
    alone = replace(plan.request, card=find_model("tiny"))
    assert not list(smaller_siblings(alone)) and RANDOM not in plan.mends[0].settings[0]
