"""A random small Qwen3 with a byte-level tokenizer, loaded through the gateway once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import LoraSection, ModelSection
from arcslim.policy.load import Policy, load_policy, start_unsloth
from tests.policy.made import make_model_folder


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
