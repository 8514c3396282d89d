"""One epoch of SFT on a handful of programs, in the order given, with an optimizer that may outlive the epoch.

A loop of its own and no ``Trainer``: each epoch has other rows, and a trainer would be made anew for each of them, with
a new optimizer, a schedule over one epoch's steps and a sampler that shuffles. Here are ten lines of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcslim.config import Config
from arcslim.policy.load import Policy
from arcslim.policy.precision import mixed_precision
from arcslim.recipes.her_prompt import DrawingPrompts
from arcslim.recipes.hindsight import Pair
from arcslim.recipes.sft_rows import IGNORED
from arcslim.tasks.drawing import Image

if TYPE_CHECKING:
    from torch import Tensor

OPTIMIZER = "optimizer.pt"


@dataclass(frozen=True)
class Learned:
    """What an epoch did. ``errors``: the loss of each pair, summed over its program's tokens, in nats, as it was met.

    ``applied``: whether the pair's update changed anything. ``loss``: their mean a token. ``learning_rate``: of the
    last update. ``skipped``: updates whose gradient was not finite, which changed nothing.
    """

    errors: tuple[float, ...]
    applied: tuple[bool, ...]
    loss: float
    grad_norm: float
    learning_rate: float
    tokens: int
    updates: int
    skipped: int


class Learner:
    """Trains the policy's trainable weights on pairs, epoch by epoch."""

    def __init__(self, policy: Policy, prompts: DrawingPrompts, blank: Image, config: Config) -> None:
        self._policy, self._prompts, self._blank, self._config = policy, prompts, blank, config
        model: Any = policy.model
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._optimizer = self._fresh_optimizer()
        self._cast, self._scaler = _precision(policy.device)

    def _fresh_optimizer(self) -> Any:
        optim, her = self._config.optim, self._config.her
        kind = optimizer_class(optim.optim, on_gpu=self._policy.device != "cpu", kept=her.keep_optimizer)
        betas = (optim.adam_beta1, optim.adam_beta2)
        return kind(self._weights, lr=her.rate, betas=betas, weight_decay=optim.weight_decay)

    def seed(self, seed: int) -> None:
        """What dropout draws, where the adapter has any: the same when a run is resumed."""
        import torch

        torch.manual_seed(seed)

    def epoch(self, pairs: Sequence[Pair]) -> Learned:
        """Go through the pairs once, ``her.batch_size`` an update, none shuffled."""
        import torch

        her = self._config.her
        if not her.keep_optimizer:
            self._optimizer = self._fresh_optimizer()
        model: Any = self._policy.model
        _for_training(model)
        batches = [pairs[start : start + her.batch_size] for start in range(0, len(pairs), her.batch_size)]
        errors: list[float] = []
        applied: list[bool] = []
        norms: list[float] = []
        tokens = skipped = 0
        for number, batch in enumerate(batches):
            rate = her.rate * warmed_up(number, len(batches), her.warmup)
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            ids, labels = self._batch(batch)
            losses = self._losses(ids, labels)  # (B,)
            trained = int((labels[:, 1:] != IGNORED).sum())
            loss: Any = losses.sum() / trained
            self._scaler.scale(loss).backward()
            self._scaler.unscale_(self._optimizer)
            norm = float(torch.nn.utils.clip_grad_norm_(self._weights, her.max_grad_norm))
            if math.isfinite(norm):
                self._scaler.step(self._optimizer)
                norms.append(norm)
            else:  # a gradient taken away, and not zeroed: with zeros AdamW would still move by its momentum
                skipped += 1
            self._scaler.update()
            self._optimizer.zero_grad(set_to_none=True)
            applied += [math.isfinite(norm)] * len(batch)
            errors += losses.detach().tolist()
            tokens += trained
        mean_norm = sum(norms) / len(norms) if norms else math.nan
        mean_loss = sum(errors) / max(tokens, 1)
        return Learned(tuple(errors), tuple(applied), mean_loss, mean_norm, rate, tokens, len(batches), skipped)

    def _losses(self, ids: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each row, summed over its labelled tokens; (B, T) both → (B,), float32."""
        import torch
        from torch.nn.functional import cross_entropy

        model: Any = self._policy.model
        with torch.autocast(self._policy.device, self._cast, enabled=self._cast is not None):
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits  # (B, T, V); padded on the right
        flat = cross_entropy(
            logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="none"
        )
        return flat.view(len(ids), -1).sum(dim=1)

    def _batch(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Token ids and labels, (B, T) both; the prompt and the padding have no label."""
        import torch

        prompts = [self._prompts.ids(self._blank, pair.image) for pair in pairs]
        programs = [self._prompts.program_ids(pair.program) for pair in pairs]
        width = max(len(prompt) + len(program) for prompt, program in zip(prompts, programs, strict=True))
        pad = int(self._policy.tokenizer.pad_token_id)
        ids = torch.full((len(pairs), width), pad)
        labels = torch.full((len(pairs), width), IGNORED)
        for row, (prompt, program) in enumerate(zip(prompts, programs, strict=True)):
            end = len(prompt) + len(program)
            ids[row, :end] = torch.tensor(prompt + program)
            labels[row, len(prompt) : end] = torch.tensor(program)
        device = self._policy.model.device
        return ids.to(device), labels.to(device)

    def save(self, folder: Path) -> None:
        """The optimizer's state, beside the weights; of fp16 also how far losses are scaled."""
        import torch

        torch.save({"optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict()}, folder / OPTIMIZER)

    def load(self, folder: Path) -> None:
        """Unpickles nothing but tensors and numbers."""
        import torch

        saved = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu")
        self._optimizer.load_state_dict(saved["optimizer"])
        self._scaler.load_state_dict(saved["scaler"])


def warmed_up(update: int, updates: int, warmup: float) -> float:
    """The share of the full rate at ``update``, counted from 0: it rises over ``warmup`` of them, then is 1."""
    rising = warmup * updates
    return 1.0 if rising < 1 else min((update + 1) / rising, 1.0)


def _precision(device: str) -> tuple[Any, Any]:
    """The autocast's type (None: none, on a CPU), and the scaler of losses, which does nothing but in fp16: a GPU
    before Ampere has no bf16, and small gradients vanish in fp16."""
    import torch

    if device == "cpu":
        return None, torch.amp.GradScaler(device, enabled=False)
    half = mixed_precision(on_gpu=True)["fp16"]
    return torch.float16 if half else torch.bfloat16, torch.amp.GradScaler(device, enabled=half)


def optimizer_class(name: str, *, on_gpu: bool, kept: bool = True) -> Any:
    """The optimizer that ``optim.optim`` names. 8-bit and paged ones need a GPU; without one it is torch's AdamW, as in
    the other recipes. One that is not ``kept`` is not paged: bitsandbytes 0.50 never gives a paged state back."""
    import torch

    if not on_gpu or name.startswith("adamw_torch"):
        return torch.optim.AdamW
    import bitsandbytes.optim as eight_bit

    kinds = {
        "paged_adamw_8bit": eight_bit.PagedAdamW8bit,
        "adamw_8bit": eight_bit.AdamW8bit,
        "paged_adamw_32bit": eight_bit.PagedAdamW32bit,
    }
    unpaged = {"paged_adamw_8bit": eight_bit.AdamW8bit, "paged_adamw_32bit": eight_bit.AdamW32bit}
    return kinds[name] if kept else unpaged.get(name, kinds[name])


def _for_training(model: Any) -> None:
    if hasattr(model, "for_training"):
        model.for_training()  # Unsloth's switch back from its inference kernels
    model.train()
