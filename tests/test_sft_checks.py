"""What is refused of SFT's knobs before anything loads, and what is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcslim.errors import ConfigError
from arcslim.presets import load_config, to_toml

FULL = ("model.full_finetuning=true", "model.load_in_4bit=false")
BIG = "model.name=Qwen/Qwen2.5-7B-Instruct"


def problems(*sets: str) -> list[str]:
    try:
        load_config(None, sets)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def warnings(*sets: str) -> list[str]:
    return [str(warning) for warning in load_config(None, sets).warnings]


def test_the_defaults_are_without_a_doubt() -> None:
    assert warnings() == warnings(*FULL) == warnings(BIG) == warnings(BIG, *FULL) == []


def test_a_row_longer_than_the_context_is_refused_with_both_knobs() -> None:
    (said,) = problems("sft.max_length=12289", "model.max_seq_length=12288")
    assert said.startswith("--set sft.max_length, --set model.max_seq_length: sft.max_length 12289 is over")
    assert "raise model.max_seq_length to 12289" in said
    assert not problems("sft.max_length=12288", "model.max_seq_length=12288")


def test_an_update_that_micro_batches_do_not_divide_is_refused_with_what_would_work() -> None:
    (said,) = problems("sft.batch_size=30", "sft.per_device_train_batch_size=8")
    assert "sft.batch_size 30 rows does not divide into micro-batches of 8" in said
    assert "set sft.batch_size=32, or sft.per_device_train_batch_size to a divisor of 30" in said
    assert not problems("sft.batch_size=32", "sft.per_device_train_batch_size=8")


@pytest.mark.parametrize(("micro", "refused"), [(32, False), (64, True), (24, True)])
def test_the_default_update_is_checked_too(micro: int, refused: bool) -> None:
    """32 rows with an adapter, where nobody says how many."""
    found = problems(f"sft.per_device_train_batch_size={micro}")
    assert bool(found) is refused
    assert all("set sft.batch_size=" in said for said in found)


def test_what_is_offered_instead_is_accepted() -> None:
    (said,) = problems("sft.batch_size=2", "sft.per_device_train_batch_size=16")
    assert "set sft.batch_size=16," in said
    assert not problems("sft.batch_size=16", "sft.per_device_train_batch_size=16")


@pytest.mark.parametrize(
    ("sets", "where", "said", "mend"),
    [
        (["sft.packing=bfd"], "sft.packing", "packing made reasoning worse on every data set", "--no-packing"),
        (["sft.over_length=truncate"], "sft.over_length", "the answer stands at the end", "drop"),
        (["sft.neftune_noise_alpha=5.0"], "sft.neftune_noise_alpha", "nobody showed it for reasoning", "=none"),
        (["sft.max_length=4096", "prompt.max_tokens=4096"], "sft.max_length", "no room for thinking", "raise"),
        (["sft.max_steps=10", "sft.warmup_steps=10"], "sft.warmup_steps", "not over when the run ends", "0.03"),
        (["sft.prefill_template=false"], "sft.prefill_template", "does not learn to write it", "end each prompt"),
        (["run.max_steps=7"], "run.max_steps", "has no effect on SFT", "sft.max_steps"),
        (["optim.learning_rate=1e-2"], "optim.learning_rate", "has no effect on SFT", "sft.learning_rate"),
        (["optim.gradient_accumulation_steps=2"], "optim.gradient", "has no effect on SFT", "sft.batch_size"),
        (["lora.r=8"], "lora.r", "has no effect on SFT", "sft.lora_r"),
        (["reward.grid.weight=2"], "reward.grid.weight", "has no effect on SFT", "leave it out"),
        ([*FULL, "sft.lora_r=8"], "sft.lora_r", "sft.lora_r has no effect", "full_finetuning=false"),
        ([BIG, "sft.learning_rate=3e-5"], "sft.learning_rate", "3e-05 is low for SFT of an adapter", "2e-4"),
        ([BIG, "sft.learning_rate=5e-4"], "sft.learning_rate", "0.0005 is high for SFT of an adapter", "2e-4"),
        ([BIG, *FULL, "sft.learning_rate=9e-6"], "sft.learning_rate", "9e-06 is low for SFT of all weights", "4e-5"),
        ([BIG, *FULL, "sft.learning_rate=2e-4"], "sft.learning_rate", "0.0002 is high for SFT of all weights", "4e-5"),
    ],
)
def test_what_is_doubtful_warns_with_the_mend(sets: list[str], where: str, said: str, mend: str) -> None:
    (warning,) = load_config(None, sets, recipe="sft").warnings
    assert f"--set {where}" in warning.where
    assert said in warning.what
    assert mend in str(warning.hint)


@pytest.mark.parametrize("rate", ["4e-5", "1e-4", "2e-4", "4e-4"])
def test_rates_that_are_swept_for_an_adapter_are_without_a_doubt(rate: str) -> None:
    assert not warnings(BIG, f"sft.learning_rate={rate}")


@pytest.mark.parametrize("rate", ["1e-5", "2e-5", "4e-5", "8e-5"])
def test_rates_that_are_swept_for_all_weights_are_without_a_doubt(rate: str) -> None:
    assert not warnings(BIG, *FULL, f"sft.learning_rate={rate}")


def test_the_tiny_model_may_learn_ten_times_as_fast() -> None:
    assert not warnings("sft.learning_rate=4e-3")
    assert warnings("sft.learning_rate=5e-3")
    assert warnings(BIG, "sft.learning_rate=4e-3")


def test_a_warm_up_that_is_a_share_is_never_too_long() -> None:
    assert not warnings("sft.max_steps=1", "sft.warmup_steps=0.5")


def test_an_early_stop_without_held_out_rows_is_refused() -> None:
    (said,) = problems("data.holdout_select=0", "run.early_stop=2")
    assert "run.early_stop needs held-out" in said


# Both pass for the one recipe, and for the other they are refused, or warned of.
SFT_ALONE = ["sft.max_length=4096", "model.max_seq_length=4000", "prompt.max_tokens=1000"]
GRPO_ALONE = ["run.save_steps=7", "grpo.steps_per_generation=32", "optim.gradient_accumulation_steps=16"]


@pytest.mark.parametrize(("sets", "own", "other"), [(SFT_ALONE, "sft", "grpo"), (GRPO_ALONE, "grpo", "sft")])
def test_a_recipe_is_not_held_up_by_knobs_that_only_another_one_reads(sets: list[str], own: str, other: str) -> None:
    said = [warning.what for warning in load_config(None, sets, recipe=other).warnings]
    assert all("has no effect on SFT" in words for words in said) and (other == "sft" or not said)
    for recipe in (own, None):
        with pytest.raises(ConfigError):
            load_config(None, sets, recipe=recipe)


def test_nor_does_it_hear_of_their_doubts() -> None:
    sets = ["sft.packing=bfd", "grpo.scale_rewards=group"]
    for recipe, knobs in (("sft", ["sft.packing"]), ("grpo", ["grpo.scale_rewards"])):
        found = load_config(None, sets, recipe=recipe).warnings
        doubts = [warning for warning in found if "has no effect" not in warning.what]
        assert [warning.where.removeprefix("--set ") for warning in doubts] == knobs
    assert len(load_config(None, sets).warnings) == 2


def test_what_both_recipes_read_is_checked_for_both() -> None:
    for recipe in ("grpo", "sft"):
        with pytest.raises(ConfigError, match="4-bit weights cannot be trained"):
            load_config(None, ["model.full_finetuning=true", "model.load_in_4bit=true"], recipe=recipe)


def test_a_resolved_file_of_full_finetuning_raises_no_new_doubt(tmp_path: Path) -> None:
    """In it every knob is set, the adapter's too: that is no doubt of the user's."""
    resolved = load_config(None, FULL)
    saved = tmp_path / "resolved.toml"
    saved.write_text(to_toml(resolved.config, resolved.origins))
    assert load_config(str(saved)).warnings == ()


def test_what_sft_reads_of_the_shared_sections_is_without_a_doubt() -> None:
    sets = ["optim.optim=adamw_torch", "lora.use_rslora=true", "optim.adam_beta1=0.8", "run.seed=3"]
    assert not load_config(None, sets, recipe="sft").warnings


def test_rows_alone_are_not_held_up_by_what_rollouts_need() -> None:
    """Nothing is rolled out: that prompt and completion together are over the context says nothing."""
    small = ["model.max_seq_length=512"]
    load_config(None, [*small, 'data.sources=["rows.jsonl", "hub:a/b"]'], recipe="sft")
    for sources in ('["rows.jsonl", "rearc"]', '["barc:puzzles.jsonl"]'):
        with pytest.raises(ConfigError, match="do not fit the context"):
            load_config(None, [*small, f"data.sources={sources}"], recipe="sft")
