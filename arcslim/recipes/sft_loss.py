"""The loss on held-out rows, a mean over their trained tokens whatever the batch size is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from arcslim.recipes.sft_rows import TrainingRow
from arcslim.recipes.sink import StopSignal


class HeldLoss:
    """Measures ``eval/loss`` (nats a token), ``eval/loss_tokens`` and ``eval/loss_rows`` with the trainer's own loss.

    The trainer's loss, because that is chunked: logits of a whole batch over a large vocabulary are never held.
    """

    def __init__(
        self, trainer: Any, rows: Sequence[TrainingRow], collate: Any, batch_size: int, stop: StopSignal
    ) -> None:
        self._trainer, self._collate, self._batch_size, self._stop = trainer, collate, batch_size, stop
        self._rows = sorted(rows, key=len)

    def __call__(self) -> dict[str, float]:
        trainer, model = self._trainer, self._trainer.model
        was_training = model.training
        if hasattr(model, "for_training"):  # Unsloth on a GPU: the kernels of training, also before it began
            model.for_training()
        model.eval()
        total, tokens = 0.0, 0
        try:
            for start in range(0, len(self._rows), self._batch_size):
                self._stop.check()
                rows = self._rows[start : start + self._batch_size]
                batch = self._collate([{"input_ids": row.input_ids, "labels": row.labels} for row in rows])
                trained = int((batch["labels"][:, 1:] != -100).sum())
                # Padding stands on the right, where no row looks: a mask would cost width x width, a cache the KV.
                batch.pop("attention_mask", None)
                batch["use_cache"] = False
                # The precision of training also before it began, when accelerate has not wrapped the model's forward.
                with torch.no_grad(), trainer.accelerator.autocast():
                    loss = trainer.compute_loss(model, trainer._prepare_inputs(batch))
                total += float(loss) * trained
                tokens += trained
        finally:
            model.train(was_training)
        return {
            "eval/loss": total / max(tokens, 1),
            "eval/loss_tokens": float(tokens),
            "eval/loss_rows": float(len(self._rows)),
        }
