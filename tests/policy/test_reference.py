"""What the KL is held against after SFT: the SFT policy, in the CPU's trainer and in the one that a card would run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arcslim.policy.adapters import ensure_reference_adapter, save_adapter
from arcslim.policy.load import Policy
from tests.policy.test_adapters import after_sft, assert_reference, make_trainer, trained

Load = Callable[..., Policy]


@pytest.fixture
def from_sft(load: Load, tmp_path: Path) -> Policy:
    """A policy that was saved as SFT saves it, and loaded again by its folder, as `--model RUN/final` does."""
    taught = load(load_in_4bit=True)
    after_sft(taught.model)
    save_adapter(taught.model, taught.tokenizer, tmp_path / "final")
    return load(str(tmp_path / "final"), load_in_4bit=True)


def log_probabilities(model: Any, ids: Any, mask: Any, keep: int) -> Any:
    """Of the last ``keep`` tokens of each row: float, (rows, keep)."""
    import torch

    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits[:, -keep - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, ids[:, -keep:, None]).squeeze(-1)


def rows() -> tuple[Any, Any, int]:
    import torch

    ids = torch.arange(60).reshape(3, 20)
    return ids, torch.ones_like(ids), 8


def move(model: Any) -> None:
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.01)


def the_reference_of(source: str, model: Any) -> Any:
    """Run the generated trainer's own lines that score a rollout with the reference, on ``model``."""
    ids, mask, keep = rows()

    def score(model: Any, ids: Any, mask: Any, keep: int, **_: Any) -> tuple[Any, None, None]:
        return log_probabilities(model, ids, mask, keep), None, None

    from trl.trainer.utils import use_adapter

    trainer = SimpleNamespace(
        beta=0.04,
        ref_model=None,  # what the trainer's __init__ sets for an adapter
        model=model,
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        _get_per_token_logps_and_entropies=score,
    )
    names: dict[str, Any] = {
        "self": trainer, "use_adapter": use_adapter, "prompt_completion_ids": ids, "attention_mask": mask,
        "logits_to_keep": keep, "batch_size": 3, "num_images": None, "num_tiles": None, "forward_kwargs": {},
    }  # fmt: skip
    exec(compile(ast.Module([scoring(source)], []), "generated", "exec"), names)  # noqa: S102 - Unsloth's own lines
    return names["ref_per_token_logps"]


def scoring(source: str) -> ast.stmt:
    """The `if self.beta != 0.0:` of the generated trainer in which the reference scores."""
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.If)
        and ast.unparse(node.test) == "self.beta != 0.0"
        and "ref_per_token_logps, _, _ =" in ast.unparse(node)
    ]
    assert len(found) == 1
    return found[0]


def test_the_reference_of_a_card_is_the_sft_policy(gpu: dict[str, Any], from_sft: Policy) -> None:
    """With our copy the generated GPU trainer scores as the policy did when it was loaded, also once that has moved."""
    import torch

    model = from_sft.model
    start = log_probabilities(model, *rows())
    assert ensure_reference_adapter(model) is True
    assert torch.equal(the_reference_of(gpu["source"], model), start)
    move(model)
    assert not torch.allclose(log_probabilities(model, *rows()), start, atol=1e-3)
    assert torch.equal(the_reference_of(gpu["source"], model), start)
    assert list(model.active_adapters) == ["default"]
    assert trained(model) and all(".default." in name for name in trained(model))


def test_without_our_copy_the_reference_of_a_card_is_the_base(gpu: dict[str, Any], from_sft: Policy) -> None:
    """The fault is real, and the test above can fail: SFT would be pulled back to what it was taught away from."""
    import torch

    model = from_sft.model
    sft = log_probabilities(model, *rows())
    with model.disable_adapter():
        base = log_probabilities(model, *rows())
    assert (sft - base).abs().max() > 0.1
    assert torch.equal(the_reference_of(gpu["source"], model), base)


def test_a_card_with_a_fresh_adapter_needs_no_copy(gpu: dict[str, Any], load: Load) -> None:
    """Its B is 0: the base is where it starts."""
    import torch

    model = load(load_in_4bit=True).model
    start = log_probabilities(model, *rows())
    assert ensure_reference_adapter(model) is False
    move(model)
    assert torch.equal(the_reference_of(gpu["source"], model), start)


def test_the_first_update_on_the_cpu_has_a_kl_of_exactly_zero(from_sft: Policy, tmp_path: Path) -> None:
    """TRL's real trainer, beta > 0: the first KL is 0 and the second is not, while the base's own would be large."""
    import torch
    from transformers import TrainerCallback

    from arcslim.policy.adapters import adapter_unrounded

    logged: list[float] = []

    class Log(TrainerCallback):  # type: ignore[misc]
        def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
            logged.extend([logs["kl"]] if "kl" in logs else [])

    model = from_sft.model
    with torch.no_grad(), model.disable_adapter():
        base = log_probabilities(model, *rows())
    gap = base - log_probabilities(model, *rows())
    assert float((gap.exp() - gap - 1).mean()) > 1e-3  # the KL that would be met at step 0
    with adapter_unrounded(model):
        trainer = make_trainer(from_sft, tmp_path / "grpo", steps=2, beta=0.04)
    trainer.args.logging_steps, trainer.args.learning_rate = 1, 1e-3
    trainer.add_callback(Log())
    assert ensure_reference_adapter(model) is False  # TRL has made it
    assert_reference(model)
    trainer.train()
    assert logged[0] == 0.0
    assert logged[1] > 0.0
