"""What the CPU trains is what a card trains: Unsloth's GRPO loss (used on a GPU) against TRL's (used on a CPU).

Both are the libraries' own functions, called on the same log-probabilities; loss and gradient agree to 1e-5 for each
combination that ``grpo.*`` of the configuration offers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from arcslim.config import GrpoSection

LOSS_TYPES = get_args(GrpoSection.model_fields["loss_type"].annotation)
LEVELS = get_args(GrpoSection.model_fields["importance_sampling_level"].annotation)
CLIPS = [(0.2, 0.2, None), (0.2, 0.28, 3.0), (0.1, 0.4, 1.5)]  # epsilon, epsilon_high, delta
ROWS, WIDTH, MAX_LENGTH, ACCUMULATION, PER_GENERATION = 6, 11, 32, 2, 8


@pytest.fixture(autouse=True)
def _stack(unsloth_cache: Path) -> None:
    """Unsloth before TRL, as in a run."""


def make_batch(seed: int = 0, ref_shift: float = 0.0) -> dict[str, Any]:
    """Six completions: padded ones, a full one (cut off), one masked whole; ratios on both sides of each clip."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([4, 11, 7, 1, 9, 0])  # 11 = WIDTH: cut off and kept; 0: cut off and masked
    mask = (torch.arange(WIDTH) < lengths[:, None]).long()  # (B, T)
    new = -3.0 * torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    old = new - 0.9 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    ref = new + 0.4 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64) + ref_shift
    advantages = torch.tensor([1.0, -1.0, 0.3, -0.3, 0.0, 2.0], dtype=torch.float64)
    entropies = torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    items = torch.tensor(float(mask.sum()) * PER_GENERATION / 2)  # of the whole rollout, over its micro-batches
    return {
        "new": new, "old": old, "ref": ref, "mask": mask, "advantages": advantages, "entropies": entropies,
        "items": items,
    }  # fmt: skip


def trl_loss(batch: dict[str, Any], **knobs: Any) -> tuple[Any, Any]:
    """TRL's own ``_compute_loss``, with a model whose log-probabilities are the batch's; (loss, gradient)."""
    import torch
    from trl import GRPOTrainer

    new = batch["new"].clone().requires_grad_()
    accelerator = SimpleNamespace(
        num_processes=1, sync_gradients=True, gather=lambda x: x.reshape(-1), reduce=lambda x, reduction: x
    )
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (new, batch["entropies"], None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=knobs["importance_sampling_level"],
        beta=knobs["beta"],
        args=SimpleNamespace(use_bias_correction_kl=False, delta=knobs["delta"], steps_per_generation=PER_GENERATION),
        loss_type=knobs["loss_type"],
        epsilon_low=knobs["epsilon"],
        epsilon_high=knobs["epsilon_high"],
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=ACCUMULATION,
        max_completion_length=MAX_LENGTH,
        accelerator=accelerator,
        _entropy_bonus_enabled=knobs.get("entropy_coef", 0.0) != 0.0,
        entropy_coef=knobs.get("entropy_coef", 0.0),
        use_adaptive_entropy=False,
        _metrics={"train": defaultdict(list)},
    )
    inputs = {
        "prompt_ids": torch.zeros(ROWS, 3, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 3, dtype=torch.long),
        "completion_ids": torch.zeros(ROWS, WIDTH, dtype=torch.long),
        "completion_mask": batch["mask"],
        "advantages": batch["advantages"],
        "ref_per_token_logps": batch["ref"],
        "num_items_in_batch": batch["items"],
    }
    if batch["old"] is not None:
        inputs["old_per_token_logps"] = batch["old"]
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    loss.backward()
    return loss.detach(), new.grad


def unsloth_loss(batch: dict[str, Any], **knobs: Any) -> tuple[Any, Any]:
    """Unsloth's ``grpo_compute_loss`` with the arguments its trainer passes; (loss, gradient)."""
    import torch
    from unsloth_zoo.rl_replacements import grpo_compute_loss, grpo_entropy_bonus_weights

    new = batch["new"].clone().requires_grad_()
    extra = {
        "loss_type": knobs["loss_type"],
        "importance_sampling_level": knobs["importance_sampling_level"],
        "epsilon_low": knobs["epsilon"],
        "epsilon_high": knobs["epsilon_high"],
        "delta": knobs["delta"],
        "max_completion_length": MAX_LENGTH,
        "num_items_in_batch": batch["items"],
        "current_gradient_accumulation_steps": ACCUMULATION,
        "steps_per_generation": PER_GENERATION,
        "num_processes": 1,
    }
    ids = torch.zeros(ROWS, WIDTH, dtype=torch.long)
    ref = batch["ref"] if knobs["beta"] else None
    loss = grpo_compute_loss(
        ref, new, batch["old"], None, ids, batch["mask"], knobs["beta"], batch["advantages"], **extra
    )[0]
    if knobs.get("entropy_coef"):
        weights = grpo_entropy_bonus_weights(batch["mask"], None, knobs["entropy_coef"], extra)
        loss = loss + (weights * batch["entropies"]).sum()
    loss.backward()
    return loss.detach(), new.grad


def assert_equal(batch: dict[str, Any], **knobs: Any) -> None:
    import torch

    loss, gradient = unsloth_loss(batch, **knobs)
    expected_loss, expected_gradient = trl_loss(batch, **knobs)
    assert torch.isfinite(loss)
    assert gradient.abs().sum() > 0
    torch.testing.assert_close(loss.double(), expected_loss.double(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(("epsilon", "epsilon_high", "delta"), CLIPS)
@pytest.mark.parametrize(("loss_type", "level"), itertools.product(LOSS_TYPES, LEVELS))
def test_loss_and_gradient_agree(
    loss_type: str, level: str, epsilon: float, epsilon_high: float, delta: float | None, beta: float
) -> None:
    assert_equal(
        make_batch(),
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon=epsilon,
        epsilon_high=epsilon_high,
        delta=delta,
        beta=beta,
    )


@pytest.mark.parametrize(("loss_type", "level"), itertools.product(LOSS_TYPES, LEVELS))
def test_one_update_a_rollout_agrees(loss_type: str, level: str) -> None:
    """No old log-probabilities: every ratio is 1, the gradient is not 0."""
    batch = make_batch() | {"old": None}
    knobs = {"epsilon": 0.2, "epsilon_high": 0.28, "delta": 3.0}
    assert_equal(batch, loss_type=loss_type, importance_sampling_level=level, beta=0.0, **knobs)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_entropy_bonus_agrees(loss_type: str) -> None:
    knobs = {"epsilon": 0.2, "epsilon_high": 0.28, "delta": 3.0, "beta": 0.0, "entropy_coef": 0.005}
    assert_equal(make_batch(), loss_type=loss_type, importance_sampling_level="token", **knobs)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_every_row_masked_is_finite(loss_type: str) -> None:
    """Case 14: every completion was cut off and masked. The loss is 0 on both sides, not NaN."""
    batch = make_batch()
    batch |= {"mask": batch["mask"] * 0, "items": batch["items"] * 0}
    knobs = {"epsilon": 0.2, "epsilon_high": 0.28, "delta": 3.0, "beta": 0.04}
    for side in (trl_loss, unsloth_loss):
        loss, gradient = side(batch, loss_type=loss_type, importance_sampling_level="token", **knobs)
        assert loss == 0
        assert (gradient == 0).all()


def test_the_clips_are_reached() -> None:
    """The batch is worth comparing on: ratios under 1 - epsilon, over 1 + epsilon_high, and over delta."""
    batch = make_batch()
    ratio = (batch["new"] - batch["old"]).exp()[batch["mask"].bool()]
    assert (ratio < 0.8).any()
    assert (ratio > 1.28).any()
    negative = ((batch["new"] - batch["old"]).exp() > 3.0) & batch["mask"].bool() & (batch["advantages"] < 0)[:, None]
    assert negative.any()


def test_a_large_kl_is_capped_on_a_gpu_only() -> None:
    """A known difference: over 10 nats a token (the reference at least 2.6 nats likelier) Unsloth holds the KL at 10
    and its gradient is 0; TRL's goes on. It is far from where a run should be, and ``policy/kl`` shows it coming."""
    import torch

    near, far = make_batch(ref_shift=1.0), make_batch(ref_shift=5.0)
    knobs = {"epsilon": 0.2, "epsilon_high": 0.28, "delta": None, "beta": 0.04}
    knobs |= {"loss_type": "dapo", "importance_sampling_level": "token"}
    assert (near["ref"] - near["new"]).max() < 2.6
    assert_equal(near, **knobs)
    assert unsloth_loss(far, **knobs)[0] < trl_loss(far, **knobs)[0]
    far["advantages"] = torch.zeros_like(far["advantages"])  # what is left is the KL
    assert (unsloth_loss(far, **knobs)[1] == 0).all()
    assert (trl_loss(far, **knobs)[1] != 0).any()
