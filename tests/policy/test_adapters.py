"""The adapter: trained in fp32 through the real GRPOTrainer, copied as reference, saved whole."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import LoraSection
from arcslim.errors import ModelError
from arcslim.policy.adapters import adapter_to_fp32, adapter_unrounded, ensure_reference_adapter, save_adapter
from arcslim.policy.load import Policy
from arcslim.policy.sources import adapter_differences

Load = Callable[..., Policy]


def after_sft(model: Any) -> None:
    """Give B the size that it has after SFT (a fresh one is 0, and A then gets no gradient)."""
    import torch

    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B.default" in name:
            parameter.data.normal_(0, 0.02)


def trained(model: Any) -> dict[str, Any]:
    return {n: p.detach().float().clone() for n, p in model.named_parameters() if p.requires_grad}


def make_trainer(policy: Policy, folder: Path, *, steps: int = 20, beta: float = 0.0) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def even(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]

    arguments = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=6,
        max_steps=steps,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=0.5,
        beta=beta,
        bf16=True,
        report_to="none",
        save_strategy="no",
        logging_steps=1000,
        disable_tqdm=True,
    )
    rows = Dataset.from_dict({"prompt": ["What comes after 1 2 3?"] * 8})
    return GRPOTrainer(
        model=policy.model,
        reward_funcs=even,
        args=arguments,
        train_dataset=rows,
        processing_class=policy.tokenizer,  # type: ignore[arg-type]
    )


def share_moved(policy: Policy, trainer: Any) -> float:
    """Train; how far the weights went, as a share of how far fp32 AdamW goes on the very same gradients."""
    import torch
    from transformers import TrainerCallback

    start = trained(policy.model)
    shadow = {name: torch.nn.Parameter(weights.clone()) for name, weights in start.items()}
    adamw = torch.optim.AdamW(shadow.values(), lr=1e-6, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)

    class Shadow(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            for name, parameter in policy.model.named_parameters():
                if parameter.requires_grad:
                    shadow[name].grad = parameter.grad.detach().float().clone()
            adamw.step()

    trainer.add_callback(Shadow())
    trainer.train()
    end = trained(policy.model)
    went = sum((end[name] - start[name]).abs().sum() for name in start)
    should = sum((shadow[name].detach() - start[name]).abs().sum() for name in start)
    assert should > 0
    return float(went / should)


def test_adapter_moves_as_fp32_adamw_moves(load: Load, tmp_path: Path) -> None:
    """Stock TRL casts the adapter to bf16 over a 4-bit base; put back to fp32 it learns at lr 1e-6."""
    import torch
    from safetensors.torch import load_file

    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    trainer = make_trainer(policy, tmp_path)
    assert adapter_to_fp32(policy.model) == len(trained(policy.model)) > 0
    assert adapter_to_fp32(policy.model) == 0
    assert share_moved(policy, trainer) >= 0.9
    trainer.save_model(str(tmp_path / "checkpoint"))
    saved = load_file(tmp_path / "checkpoint" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float32}


def test_without_the_mend_it_hardly_moves(load: Load, tmp_path: Path) -> None:
    """The fault is real, and the test above can fail."""
    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    assert share_moved(policy, make_trainer(policy, tmp_path)) < 0.5


def test_unrounded_adapter_is_exact(load: Load, tmp_path: Path) -> None:
    import torch

    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    before = trained(policy.model)
    with adapter_unrounded(policy.model):
        make_trainer(policy, tmp_path)
    for name, weights in trained(policy.model).items():
        assert torch.equal(weights, before[name])
    assert adapter_to_fp32(policy.model) == 0


def test_trl_makes_the_reference_itself_on_the_cpu(load: Load, tmp_path: Path) -> None:
    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    with adapter_unrounded(policy.model):
        make_trainer(policy, tmp_path, beta=0.04)
    assert ensure_reference_adapter(policy.model) is False
    assert_reference(policy.model)


def test_reference_is_added_where_the_trainer_makes_none(load: Load) -> None:
    """Unsloth's GPU trainer: the copy is ours. Idempotent; the active adapter stays."""
    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    assert ensure_reference_adapter(policy.model) is True
    assert ensure_reference_adapter(policy.model) is False
    assert_reference(policy.model)


def test_reference_and_vllm_are_refused(load: Load) -> None:
    """Unsloth hands every lora tensor of the state dict to vLLM, also those of ``ref``."""
    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    policy.model.vllm_engine = object()
    with pytest.raises(ModelError, match="vLLM"):
        ensure_reference_adapter(policy.model)


def test_a_fresh_adapter_needs_no_reference(load: Load) -> None:
    policy = load(load_in_4bit=True)
    assert ensure_reference_adapter(policy.model) is False
    assert "ref" not in policy.model.peft_config


def assert_reference(model: Any) -> None:
    import torch

    parameters = dict(model.named_parameters())
    twins = [name for name in parameters if ".ref." in name]
    assert len(twins) == len(trained(model)) > 0
    for name in twins:
        assert torch.equal(parameters[name], parameters[name.replace(".ref.", ".default.")])
        assert not parameters[name].requires_grad
    assert list(model.active_adapters) == ["default"]
    assert all(".default." in name for name in trained(model))


def test_reference_scores_as_the_start_did(load: Load) -> None:
    """What the trainers do with it: score inside TRL's ``use_adapter``. The KL to the start is then 0 at step 0."""
    import torch
    from trl.trainer.utils import use_adapter

    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    ids = torch.arange(40).reshape(2, 20)
    ensure_reference_adapter(policy.model)
    with torch.no_grad():
        start = policy.model(input_ids=ids).logits
        for parameter in policy.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05)
        assert not torch.equal(policy.model(input_ids=ids).logits, start)
        with use_adapter(policy.model, adapter_name="ref"):
            assert torch.equal(policy.model(input_ids=ids).logits, start)
    assert all(".default." in name for name in trained(policy.model))


def test_saved_adapter_comes_back_equal(load: Load, tmp_path: Path) -> None:
    """Case 4: the chat template is saved with the adapter. No ``ref``, no pickle, fp32, the same end tokens."""
    import torch
    from safetensors.torch import load_file

    policy = load(load_in_4bit=True)
    after_sft(policy.model)
    ensure_reference_adapter(policy.model)
    folder = tmp_path / "final"
    folder.mkdir()
    (folder / "stale.txt").write_text("of an older save")
    save_adapter(policy.model, policy.tokenizer, folder)
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "tokenizer.json",
        "tokenizer_config.json",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [folder]
    assert {t.dtype for t in load_file(folder / "adapter_model.safetensors").values()} == {torch.float32}
    again = load(str(folder), load_in_4bit=True)
    assert again.tokenizer.chat_template == policy.tokenizer.chat_template
    assert again.end_token_ids == policy.end_token_ids
    before, after = trained(policy.model), trained(again.model)
    assert before.keys() == after.keys()
    for name, weights in before.items():
        assert torch.equal(weights, after[name])
    assert not any("adapter has" in note for note in again.notes)


def test_an_adapter_keeps_its_own_shape(load: Load, tmp_path: Path) -> None:
    policy = load(load_in_4bit=True, lora=LoraSection(r=4, target_modules=("q_proj", "v_proj")))
    save_adapter(policy.model, policy.tokenizer, tmp_path / "a")
    again = load(str(tmp_path / "a"), load_in_4bit=True, lora=LoraSection(r=8))
    assert again.model.peft_config["default"].r == 4
    told = [note for note in again.notes if "adapter has" in note]
    assert any(note.startswith("lora.r is 8") for note in told)
    (named, _) = adapter_differences(str(tmp_path / "a"), LoraSection(r=8), {"r": "sft.lora_r"})
    assert named.startswith("sft.lora_r is 8")
    assert any("target_modules" in note for note in told)


def test_a_failed_save_leaves_the_old_one(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load(load_in_4bit=True)
    folder = tmp_path / "final"
    save_adapter(policy.model, policy.tokenizer, folder)
    before = (folder / "adapter_config.json").read_text()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(policy.tokenizer), "save_pretrained", full)
    with pytest.raises(OSError):
        save_adapter(policy.model, policy.tokenizer, folder)
    assert (folder / "adapter_config.json").read_text() == before
    assert json.loads(before)["inference_mode"] is True
    assert list(tmp_path.iterdir()) == [folder]


def test_a_full_disk_is_told_by_its_number(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors says it in words alone, and what explains a full disk looks at numbers."""
    import safetensors.torch
    from safetensors import SafetensorError

    policy = load(load_in_4bit=False)

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match="No space left") as caught:
        save_adapter(policy.model, policy.tokenizer, tmp_path / "final")
    assert caught.value.errno == errno.ENOSPC and list(tmp_path.iterdir()) == []
