"""Cards: shapes that give the true number of parameters, names as people write them, and helpful refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.cards import (
    CPU,
    ModelCard,
    card_from_config,
    config_of,
    find_gpu,
    find_model,
    gpu_cards,
    gpu_named_in,
    model_cards,
)
from arcslim.errors import InputError, ModelError
from arcslim.policy.sources import EMBEDDED, tiny_folder

COUNT = """
import json, sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
counts = {}
for name, config in json.load(sys.stdin).items():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config.pop("model_type"), **config))
    counts[name] = sum(parameter.numel() for parameter in model.parameters())
json.dump(counts, sys.stdout)
"""


@pytest.mark.parametrize("card", model_cards(), ids=lambda card: card.name)
def test_a_card_has_as_many_parameters_as_the_hub_shows(card: ModelCard) -> None:
    assert card.published is not None or card.name in EMBEDDED
    assert card.published in (None, card.parameters)
    assert card.source


@pytest.mark.slow
def test_every_card_counts_as_transformers_does_on_the_meta_device() -> None:
    asked = json.dumps({card.name: config_of(card) for card in model_cards()})
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COUNT], input=asked, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {card.name: card.parameters for card in model_cards()}


@pytest.mark.parametrize("name", list(EMBEDDED))
def test_the_card_of_an_embedded_model_is_its_config(name: str) -> None:
    found = find_model(str(tiny_folder(name)))
    assert config_of(found) == config_of(find_model(name))


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
        ("qwen2.5-7b", "Qwen2.5-7B"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen2.5-7B"),
        ("unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", "Qwen2.5-7B"),
        ("unsloth/Qwen3-14B-bnb-4bit", "Qwen3-14B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "R1-Distill-Qwen-1.5B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.3-70B"),
    ],
)
def test_a_model_is_found_as_it_is_named(name: str, card: str) -> None:
    assert find_model(name).name == card


def test_an_unknown_model_is_told_with_the_nearest_known_one() -> None:
    with pytest.raises(ModelError) as error:
        find_model("Qwen/Qwen2.5-7B-Instrukt")
    assert error.value.hint is not None
    assert "did you mean Qwen/Qwen2.5-7B-Instruct?" in error.value.hint


def test_a_folder_an_adapter_a_run_and_a_file_lead_to_their_model(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config_of(find_model("Qwen3-0.6B"))))
    final = tmp_path / "run" / "final"
    final.mkdir(parents=True)
    (final / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model)}))
    for place in (model, model / "config.json", final, tmp_path / "run"):
        assert find_model(str(place)).parameters == 596_049_920
    going = tmp_path / "going"  # a run that has not ended: its best checkpoint
    going.mkdir()
    (going / "best").symlink_to(final, target_is_directory=True)
    assert find_model(str(going)).parameters == 596_049_920


def test_adapters_on_adapters_are_refused_and_never_gone_round(tmp_path: Path) -> None:
    for name, base in (("one", "two"), ("two", "one")):
        (tmp_path / name).mkdir()
        said = {"base_model_name_or_path": str(tmp_path / base)}
        (tmp_path / name / "adapter_config.json").write_text(json.dumps(said))
    with pytest.raises(ModelError, match="adapter on an adapter"):
        find_model(str(tmp_path / "one"))


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "~/nowhere-at-all"])
def test_a_folder_that_is_not_there_is_told_as_one(name: str) -> None:
    with pytest.raises(ModelError, match="there is no model at"):
        find_model(name)


@pytest.mark.parametrize("packed", [{"quant_method": "gptq", "bits": 4}, {"quant_method": "bitsandbytes"}])
def test_weights_packed_otherwise_are_refused(packed: dict[str, object]) -> None:
    config = config_of(find_model("Qwen3-0.6B")) | {"quantization_config": packed}
    with pytest.raises(ModelError, match="packed by"):
        card_from_config(config, "mine", "config.json")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "gemma2"}, "'gemma2'"),
        ({"model_type": "qwen3_moe", "num_experts": 128}, "qwen3_moe"),
        ({"model_type": "llama", "hidden_size": 64}, "intermediate_size"),
        ({"model_type": "llama", "hidden_size": 0}, "hidden_size"),
    ],
)
def test_a_config_that_cannot_be_planned_is_refused(config: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        card_from_config(config, "mine", "config.json")


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_config_that_is_no_config_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        find_model(str(tmp_path))


def test_an_adapter_without_a_base_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no model"):
        find_model(str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="does not say"):
        find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4090", "RTX 4090"),
        ("RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("h100", "H100 80GB"),
        ("A100-80", "A100 80GB"),
        ("a100 40gb", "A100 40GB"),
        ("RTX 6000 Ada", "RTX 6000 Ada"),
        ("t4", "T4"),
        ("24", "a card of 24 GiB"),
        ("23.5GiB", "a card of 23.5 GiB"),
        ("cpu", CPU),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Tesla T4", "T4"),
    ],
)
def test_a_gpu_is_found_as_it_is_named(text: str, name: str) -> None:
    assert find_gpu(text).name == name


@pytest.mark.parametrize(
    "text", ["4091", "h1000x", "", "-8", "0", "nan", "1080", "RTX 4070", "RTX 4080 SUPER", "H100 NVL", "A100 20GB"]
)
def test_an_unknown_gpu_is_told_with_the_known_ones(text: str) -> None:
    with pytest.raises(InputError) as error:
        find_gpu(text)
    assert error.value.hint is not None
    assert "4090" in error.value.hint


def test_the_facts_of_gpus_are_sane() -> None:
    for card in gpu_cards():
        assert card.memory_gb is not None and card.bandwidth and card.bf16_tflops and card.source, card.name
        # In GiB a box says more than it has, by up to the tenth that error correction takes.
        assert 0.85 * card.memory_gb * 1e9 / 2**30 < card.usable_gib < card.memory_gb, card.name


def test_the_first_gpu_of_a_sentence_is_taken() -> None:
    named = gpu_named_in("one H100 or A100 (80 GB), no 4090")
    assert named is not None and named.name == "H100 80GB"
    assert gpu_named_in("any machine with two cores") is None
