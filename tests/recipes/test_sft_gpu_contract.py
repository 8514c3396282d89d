"""What a card would be asked in SFT, held against the trainer that Unsloth generates for it (see test_gpu_contract.py
of the policy for how it comes about here)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arcslim.config import Config, ModelSection, OptimSection
from arcslim.recipes.sft import trainer_arguments
from arcslim.sft_config import SftSection
from tests.gpu_path import ask_gpu_path

PROBE = """
import inspect, json, sys
import unsloth
from trl import SFTConfig
stock = sorted(inspect.signature(SFTConfig).parameters)  # before Unsloth replaces it
from unsloth.models.rl import _patch_trl_rl_trainers_impl
_patch_trl_rl_trainers_impl("sft_trainer")
import trl
module = sys.modules[trl.SFTTrainer.__module__]
json.dump({
    "stock_config": stock,
    "unsloth_config": sorted(inspect.signature(trl.SFTConfig.__init__).parameters),
    "trainer": trl.SFTTrainer.__name__,
    "source": open(module.__file__, encoding="utf-8").read(),
}, open(sys.argv[1], "w", encoding="utf-8"))
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask_gpu_path(PROBE, tmp_path_factory.mktemp("gpu"))


CONFIGS = [
    Config(sft=SftSection().filled(full_finetuning=False)),
    Config(sft=SftSection(packing="bfd", neftune_noise_alpha=5.0, max_steps=9).filled(full_finetuning=False)),
    Config(
        model=ModelSection(load_in_4bit=False, full_finetuning=True),
        sft=SftSection(packing="bfd", lr_scheduler_type="linear").filled(full_finetuning=True),
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("on_gpu", [True, False])
def test_trainer_arguments_are_known(gpu: dict[str, Any], config: Config, on_gpu: bool, tmp_path: Path) -> None:
    arguments = trainer_arguments(config, tmp_path, on_gpu=on_gpu)
    assert set(arguments) - set(gpu["stock_config"]) == set()
    assert set(arguments) - set(gpu["unsloth_config"]) == set()


@pytest.mark.parametrize("config", CONFIGS)
def test_trainer_arguments_are_accepted(stack: Path, config: Config, tmp_path: Path) -> None:
    from trl import SFTConfig

    arguments = trainer_arguments(config, tmp_path, on_gpu=True) | {"use_cpu": True, "bf16": False}
    made = SFTConfig(**arguments)
    for name in ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "adam_beta2"):
        assert getattr(made, name) == arguments[name]


def test_case_21_on_a_card_too(gpu: dict[str, Any], tmp_path: Path) -> None:
    """Case 21: Unsloth's config leaves padding-free open (None) and turns it on by itself; we say False."""
    arguments = trainer_arguments(CONFIGS[0], tmp_path, on_gpu=True)
    assert arguments["packing"] is False and arguments["padding_free"] is False
    assert "padding_free = None," in gpu["source"]


def test_the_generated_trainer_takes_our_rows_as_they_are(gpu: dict[str, Any], tmp_path: Path) -> None:
    """Rows with labels, skipped preparation, our collator; the adapter is left in fp32."""
    source = gpu["source"]
    assert gpu["trainer"] == "UnslothSFTTrainer"
    assert trainer_arguments(CONFIGS[0], tmp_path, on_gpu=True)["dataset_kwargs"] == {"skip_prepare_dataset": True}
    assert 'args.dataset_kwargs.get("skip_prepare_dataset", False)' in source
    assert "if not self._skip_prepare_dataset:" in source
    assert "if data_collator is None:" in source
    lines = source.splitlines()
    cast = next(number for number, line in enumerate(lines) if "param.data = param.data.to(torch.bfloat16)" in line)
    assert lines[cast - 3].strip() == "if False:"


def test_the_optimizer_is_the_one_that_makes_long_contexts_fit(tmp_path: Path) -> None:
    assert OptimSection().optim == "paged_adamw_8bit"
    assert trainer_arguments(CONFIGS[0], tmp_path, on_gpu=True)["optim"] == "paged_adamw_8bit"
