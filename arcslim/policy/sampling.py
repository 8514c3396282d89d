"""How tokens are drawn: the knobs of one batch of rows, for transformers and for vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arcslim.config import GenerationSection
from arcslim.policy.load import Policy

if TYPE_CHECKING:
    from torch import Tensor


class EntropyMeter:
    """The mean entropy, in nats, of the distributions that completions' tokens are drawn from: a logits processor.

    Unsloth's GPU trainer reports none, and its fall is the first sign of a collapse.
    """

    def __init__(self, policy: Policy) -> None:
        self._over = {*policy.end_token_ids, int(policy.tokenizer.pad_token_id)}
        self._sum, self._count = 0.0, 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """``input_ids`` (B, T), ``scores`` (B, V). Rows that have ended, which only pad, do not count."""
        import torch

        over = torch.tensor(sorted(self._over), device=input_ids.device)
        alive = ~torch.isin(input_ids[:, -1], over)
        log_probs = scores[alive].float().log_softmax(dim=-1)  # (b, V)
        # an impossible token has probability 0 and logarithm -inf: it adds nothing
        self._sum += float(torch.special.entr(log_probs.exp()).sum())
        self._count += int(alive.sum())
        return scores

    @property
    def mean(self) -> float | None:
        """None where nothing was drawn."""
        return self._sum / self._count if self._count else None


class RowTemperatures:
    """A temperature for each row of a batch: a logits processor. transformers runs ours before its own top-k and top-p,
    so a row comes out as it would in a batch of one temperature."""

    def __init__(self, temperatures: Sequence[float]) -> None:
        self._temperatures = tuple(temperatures)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """``scores`` (B, V)."""
        import torch

        by_row = torch.tensor(self._temperatures, device=scores.device, dtype=scores.dtype)  # (B,)
        return scores / by_row[:, None]


@dataclass(frozen=True)
class Sampling:
    """How a batch of rows is drawn. ``temperatures``: one a row, in place of ``generation.temperature``; None: that one
    for all. ``entropy`` measures meanwhile (not with vLLM)."""

    generation: GenerationSection
    temperatures: tuple[float, ...] | None = None
    entropy: EntropyMeter | None = None

    def of_rows(self, rows: Sequence[int]) -> Sampling:
        """The same for some of the rows, by their places."""
        if self.temperatures is None:
            return self
        return replace(self, temperatures=tuple(self.temperatures[row] for row in rows))

    def arguments(self, policy: Policy) -> dict[str, Any]:
        """What transformers' ``generate`` takes."""
        processors: list[Any] = [] if self.entropy is None else [self.entropy]
        fields = sampling_arguments(self.generation)
        if self.temperatures is not None:
            processors.insert(0, RowTemperatures(self.temperatures))
            fields["temperature"] = 1.0
        return {
            "logits_processor": processors or None,
            "use_cache": True,
            "pad_token_id": int(policy.tokenizer.pad_token_id),
            "eos_token_id": list(policy.end_token_ids),
            **fields,
        }

    def vllm_parameters(self, policy: Policy, rows: int, seed: int) -> list[Any]:
        """vLLM's ``SamplingParams``, one for each of ``rows``."""
        from vllm import SamplingParams

        generation = self.generation
        temperatures = self.temperatures or (generation.temperature,) * rows
        return [
            SamplingParams(
                max_tokens=generation.max_completion_length,
                temperature=temperature,
                top_p=generation.top_p,
                top_k=generation.top_k or -1,
                min_p=generation.min_p or 0.0,
                repetition_penalty=generation.repetition_penalty,
                stop_token_ids=list(policy.end_token_ids),
                seed=seed + row,
            )
            for row, temperature in enumerate(temperatures)
        ]


def sampling_arguments(generation: GenerationSection) -> dict[str, Any]:
    """The sampling fields of ``generate``, transformers' names; also those that do nothing, so that no default of the
    model's fills them."""
    return {
        "do_sample": True,
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
        "min_p": generation.min_p,
        "repetition_penalty": generation.repetition_penalty,
    }
