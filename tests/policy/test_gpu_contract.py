"""What a card would be asked, held against the real GPU code: Unsloth imported with ``UNSLOTH_ALLOW_CPU=1``.

The fixture ``gpu``: one subprocess imports Unsloth's GPU path, generates the GRPO trainer that it would run on a card,
and answers with signatures and source lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arcslim.config import Config, GenerationSection, GrpoSection, LoraSection, ModelSection, OptimSection
from arcslim.policy.arguments import from_pretrained_arguments, peft_arguments
from arcslim.recipes.grpo import trainer_arguments

MODELS = [
    ModelSection(),
    ModelSection(load_in_4bit=False, full_finetuning=True, use_gradient_checkpointing="true"),
    ModelSection(load_in_4bit=False, fast_inference=True, standby=True, revision="main"),
]


@pytest.mark.parametrize("model", MODELS)
def test_loader_arguments(gpu: dict[str, Any], model: ModelSection) -> None:
    arguments = from_pretrained_arguments(model, LoraSection(), name="Qwen/Qwen2.5-7B", seed=0, on_gpu=True)
    assert set(arguments) - set(gpu["from_pretrained"]) == set()


@pytest.mark.parametrize("lora", [LoraSection(), LoraSection(use_dora=True, use_rslora=True)])
def test_adapter_arguments(gpu: dict[str, Any], lora: LoraSection) -> None:
    """What is no parameter of Unsloth's goes on to LoraConfig, which must know it."""
    arguments = peft_arguments(ModelSection(), lora, seed=0, on_gpu=True)
    handed_on = set(arguments) - set(gpu["get_peft_model"])
    assert handed_on == ({"use_dora"} if lora.use_dora else set())
    assert handed_on <= set(gpu["lora_config"])


def test_a_misspelt_argument_would_be_seen(gpu: dict[str, Any]) -> None:
    assert "load_in_4bits" not in gpu["from_pretrained"]
    assert "learnign_rate" not in gpu["stock_config"]


CONFIGS = [
    Config(),
    Config(
        model=ModelSection(load_in_4bit=False, fast_inference=True),
        grpo=GrpoSection(beta=0.04, longest_first=True, entropy_coef=0.001, num_iterations=2),
        optim=OptimSection(lr_scheduler_type="cosine_with_min_lr"),
        generation=GenerationSection(min_p=0.05),
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("on_gpu", [True, False])
def test_trainer_arguments_are_known(gpu: dict[str, Any], config: Config, on_gpu: bool, tmp_path: Path) -> None:
    """To TRL's GRPOConfig, and to the one that Unsloth generates (which would only warn of an unknown name)."""
    arguments = trainer_arguments(config, tmp_path, on_gpu=on_gpu)
    assert set(arguments) - set(gpu["stock_config"]) == set()
    assert set(arguments) - set(gpu["unsloth_config"]) == set()


@pytest.mark.parametrize("config", CONFIGS)
def test_trainer_arguments_are_accepted(unsloth_cache: Path, config: Config, tmp_path: Path) -> None:
    """TRL's real GRPOConfig takes the values too, and what comes out is what was asked for."""
    from trl import GRPOConfig

    arguments = trainer_arguments(config, tmp_path, on_gpu=True) | {"use_cpu": True, "bf16": False}
    made = GRPOConfig(**arguments)
    geometry = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "num_generations")
    for name in geometry:
        assert getattr(made, name) == arguments[name]


def test_the_reference_adapter_is_ours_to_add_on_a_gpu(gpu: dict[str, Any]) -> None:
    """The generated trainer makes no `ref` of its own and scores with one that exists: ``ensure_reference_adapter``."""
    source = gpu["source"]
    assert gpu["trainer_name"] == "UnslothGRPOTrainer"
    assert 'use_adapter(model, adapter_name="ref" if "ref" in model.peft_config else None)' in source
    assert live(source, 'add_adapter("ref"') == []


def test_the_generated_trainer_leaves_the_adapter_in_fp32(gpu: dict[str, Any]) -> None:
    lines = gpu["source"].splitlines()
    cast = next(i for i, line in enumerate(lines) if "param.data = param.data.to(torch.bfloat16)" in line)
    assert lines[cast - 3].strip() == "if False:"


def test_the_generated_trainer_keeps_what_the_recipe_relies_on(gpu: dict[str, Any]) -> None:
    """Our rollouts (``rollout_func``), several end tokens, an entropy coefficient that may change during the run."""
    source = gpu["source"]
    assert "rollout_func" in gpu["trainer"]
    assert live(source, "output = self.rollout_func(prompts, self)")
    assert live(source, "eos_token_ids = model.generation_config.eos_token_id")
    assert live(source, "eos_and_pad = [*self.eos_token_ids, self._tokenizer.pad_token_id]")
    assert live(source, '_entropy_coef = float(getattr(trainer, "entropy_coef"')


def test_the_generated_loss_finds_padding_by_its_id(gpu: dict[str, Any]) -> None:
    """Why the gateway never lets a pad be an end token (``policy/tokenizers.py``); gone, the rule can go too."""
    assert live(gpu["source"], "attention_mask =  input_ids != trainer.processing_class.pad_token_id")


def live(source: str, text: str) -> list[str]:
    """The lines that hold the text and are no comment."""
    return [line for line in source.splitlines() if text in line and not line.lstrip().startswith("#")]
