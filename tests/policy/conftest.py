"""A random small Qwen3 with a byte-level tokenizer, loaded through the gateway once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import LoraSection, ModelSection
from arcslim.policy.load import Policy, load_policy, start_unsloth
from tests.gpu_path import ask_gpu_path
from tests.policy.made import make_model_folder

PROBE = """
import inspect, json, sys
import unsloth
from unsloth import FastLanguageModel
from peft import LoraConfig
from trl import GRPOConfig
stock = sorted(inspect.signature(GRPOConfig).parameters)  # before Unsloth replaces it
from unsloth.models.rl import _patch_trl_rl_trainers_impl
_patch_trl_rl_trainers_impl("grpo_trainer")
import trl
trainer = trl.GRPOTrainer
def named(function):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return sorted(n for n, p in inspect.signature(function).parameters.items() if p.kind in kinds)
module = sys.modules[trainer.__module__]
json.dump({
    "from_pretrained": named(FastLanguageModel.from_pretrained),
    "get_peft_model": named(FastLanguageModel.get_peft_model),
    "lora_config": named(LoraConfig.__init__),
    "stock_config": stock,
    "unsloth_config": named(trl.GRPOConfig.__init__),
    "trainer": named(module.__dict__["_" + trainer.__name__].__init__),
    "trainer_name": trainer.__name__,
    "source": open(module.__file__, encoding="utf-8").read(),
}, open(sys.argv[1], "w", encoding="utf-8"))
"""


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Signatures of Unsloth's GPU path and the source of the GRPO trainer that it generates."""
    return ask_gpu_path(PROBE, tmp_path_factory.mktemp("gpu"))


@pytest.fixture(scope="session")
def unsloth_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imports Unsloth before anything else of the stack; the folder of its cache."""
    cache = tmp_path_factory.mktemp("cache")
    start_unsloth(cache)
    return cache


@pytest.fixture(scope="session")
def model_folder(unsloth_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def load(unsloth_cache: Path, model_folder: Path) -> Callable[..., Policy]:
    """``load(name=…, lora=…, seed=…, trainable=…, **model_fields)``: through ``load_policy``."""

    def build(
        name: str | None = None, lora: LoraSection | None = None, seed: int = 0, trainable: bool = True, **fields: Any
    ) -> Policy:
        section = ModelSection(name=name or str(model_folder), **{"max_seq_length": 256, **fields})
        return load_policy(section, lora or LoraSection(r=8), seed=seed, cache_dir=unsloth_cache, trainable=trainable)

    return build
