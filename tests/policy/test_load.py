"""Loading a policy, and what it says when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from arcslim.config import LoraSection, ModelSection
from arcslim.errors import InputError, ModelError
from arcslim.policy import sources
from arcslim.policy.load import Policy, save_adapter, start_unsloth
from tests.policy.made import make_model_folder

Load = Callable[..., Policy]


def test_four_bits_with_an_fp32_adapter(load: Load) -> None:
    import torch

    policy = load(load_in_4bit=True, lora=LoraSection(r=8, lora_alpha=24, use_rslora=True))
    assert policy.device == "cpu"
    assert policy.end_token_ids == (258, 256)
    assert policy.model.generation_config.eos_token_id == [258, 256]
    assert policy.model.generation_config.pad_token_id == policy.tokenizer.pad_token_id == 259
    assert policy.model.is_loaded_in_4bit
    assert {p.dtype for p in policy.model.parameters() if p.requires_grad} == {torch.float32}
    config = policy.model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.use_rslora) == (8, 24, True)
    assert sum(note.startswith("CPU:") for note in policy.notes) == 1
    assert any("top_p 0.8, top_k 20" in note for note in policy.notes)
    assert policy.model.generation_config.top_k != 20


def test_sixteen_bits_same_seed_same_adapter(load: Load) -> None:
    import torch

    one, two, other = (load(load_in_4bit=False, seed=seed) for seed in (3, 3, 4))
    assert not getattr(one.model, "is_loaded_in_4bit", False)
    weights = [
        torch.cat([p.flatten() for p in policy.model.parameters() if p.requires_grad]) for policy in (one, two, other)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_dora_is_handed_on(load: Load) -> None:
    assert load(load_in_4bit=False, lora=LoraSection(r=4, use_dora=True)).model.peft_config["default"].use_dora


def test_full_finetuning_has_no_adapter(load: Load) -> None:
    policy = load(load_in_4bit=False, full_finetuning=True)
    assert not hasattr(policy.model, "peft_config")
    assert all(p.requires_grad for p in policy.model.parameters())


def test_not_trainable_adds_nothing(load: Load) -> None:
    policy = load(load_in_4bit=False, trainable=False)
    assert not hasattr(policy.model, "peft_config")
    assert not any(p.requires_grad for p in policy.model.parameters())


def test_too_narrow_for_four_bits_is_said(load: Load, tmp_path: Path) -> None:
    policy = load(str(make_model_folder(tmp_path / "narrow", hidden=48)), load_in_4bit=True)
    packed = getattr(policy.model, "is_loaded_in_4bit", False)
    assert packed or any("16 bits" in note for note in policy.notes)


def test_run_folder_gives_final_then_best(load: Load, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "resolved.toml").write_text("")
    with pytest.raises(ModelError, match="neither final/ nor best"):
        sources.resolve(str(run))
    policy = load(load_in_4bit=False)
    save_adapter(policy.model, policy.tokenizer, run / "checkpoint-5")
    (run / "best").write_text("checkpoint-5\n")
    assert sources.resolve(str(run)).name == str(run / "checkpoint-5")
    (run / "best").unlink()
    (run / "best").symlink_to("checkpoint-5")
    assert sources.resolve(str(run)).name == str(run / "best")
    save_adapter(policy.model, policy.tokenizer, run / "final")
    source = sources.resolve(str(run))
    assert (source.kind, source.name) == ("adapter", str(run / "final"))
    again = load(str(run), load_in_4bit=False)
    assert "default" in again.model.peft_config


def test_adapter_on_tiny_is_portable(
    load: Load, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded model's folder differs on each machine: a saved adapter calls its base `tiny`."""
    real = sources.tiny_folder
    monkeypatch.setattr(sources, "tiny_folder", lambda name="tiny": model_folder if name == "tiny" else real(name))
    policy = load("tiny", load_in_4bit=False)
    save_adapter(policy.model, policy.tokenizer, tmp_path / "final")
    config = json.loads((tmp_path / "final" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny"
    again = load(str(tmp_path / "final"), load_in_4bit=False)
    assert again.model.peft_config["default"].r == 8
    assert json.loads((tmp_path / "final" / "adapter_config.json").read_text()) == config
    save_adapter(again.model, again.tokenizer, tmp_path / "second")
    assert json.loads((tmp_path / "second" / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/no/such/folder", "no model folder"),
        ("./nowhere", "no model folder"),
        ("a/b/c", "no model folder"),
    ],
)
def test_names_that_are_no_model(load: Load, name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        load(name)


def test_folder_without_a_model(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no model"):
        load(str(tmp_path))


def test_broken_folder_is_a_model_error(load: Load, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="could not be loaded"):
        load(str(tmp_path))


def test_offline_hub_id_says_what_to_do(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcslim.policy.load.hub_state", lambda name, revision: "absent")
    with pytest.raises(ModelError, match="not in the local cache") as caught:
        load("Qwen/Qwen2.5-7B-Instruct")
    assert "network" in str(caught.value)


def test_vllm_without_a_gpu(load: Load) -> None:
    with pytest.raises(InputError, match="needs a GPU"):
        load(load_in_4bit=False, fast_inference=True)


def test_full_finetuning_of_an_adapter(load: Load, tmp_path: Path) -> None:
    policy = load(load_in_4bit=False)
    save_adapter(policy.model, policy.tokenizer, tmp_path / "a")
    with pytest.raises(ModelError, match="merge it first"):
        load(str(tmp_path / "a"), load_in_4bit=False, full_finetuning=True)


SCRIPT = """
import logging, os, sys
from pathlib import Path
from arcslim.config import LoraSection, ModelSection
from arcslim.policy.load import load_policy
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("arcslim").addHandler(handler)
logging.getLogger("arcslim").setLevel(logging.DEBUG)
assert not {"torch", "unsloth", "transformers"} & set(sys.modules), "importing the gateway must stay light"
model = ModelSection(name=sys.argv[1], load_in_4bit=False)
policy = load_policy(model, LoraSection(r=4), seed=0, cache_dir=Path(sys.argv[2]))
assert os.environ["UNSLOTH_DISABLE_STATISTICS"] == "1"
assert os.environ["UNSLOTH_DISABLE_AUTO_PADDING_FREE"] == "1"
assert os.environ["UNSLOTH_COMPILE_LOCATION"].startswith(sys.argv[2])
assert not any("imported before Unsloth" in line for line in said), said
assert any("no GPU found" in line for line in said), said
"""


def test_a_fresh_process_keeps_the_working_directory_clean(model_folder: Path, tmp_path: Path) -> None:
    """Case 27: nothing of Unsloth's lands in the working directory; its printing does not reach standard output."""
    work, cache = tmp_path / "work", tmp_path / "cache"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model_folder), str(cache)], cwd=work, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == []
    assert cache.is_dir()
    assert done.stdout == ""


def test_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 27: a cache in a place that is not ours."""
    monkeypatch.delitem(sys.modules, "unsloth", raising=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        start_unsloth(tmp_path / "file")


def test_vllm_is_told_the_rank_of_the_adapter_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SFT's rank is larger than GRPO's: with GRPO's, vLLM would refuse the adapter on a card."""
    import arcslim.policy.load as gateway

    class Asked(Exception):
        pass

    class Model:
        @staticmethod
        def from_pretrained(**arguments: object) -> None:
            raise Asked(arguments["max_lora_rank"])

    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 64}))
    unsloth = type("Unsloth", (), {"FastLanguageModel": Model})
    model = ModelSection(load_in_4bit=False, fast_inference=True)
    monkeypatch.setattr(gateway, "loadable_adapter", lambda name, base: __import__("contextlib").nullcontext(name))
    with pytest.raises(Asked, match="64"):
        gateway._from_pretrained(
            unsloth,
            sources.Source("adapter", str(folder), "base"),
            model,
            LoraSection(r=16),
            0,
            on_gpu=True,  # type: ignore[arg-type]
        )
