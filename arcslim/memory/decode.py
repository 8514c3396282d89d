"""How fast decoding can be at most, and how many rows at once make a rollout fastest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from arcslim.cards import GpuCard
from arcslim.memory import formulas as f
from arcslim.memory.phases import drawing_fits
from arcslim.memory.setup import Request

# Up to so many rows Unsloth multiplies 4-bit weights as they are, by compute capability; elsewhere one row (read:
# unsloth's kernels/utils.py, _GEMV_ROWS_BY_ARCH; on 7.5, in fp16, bitsandbytes' fused kernel takes up to 16).
FUSED_ROWS = {"7.5": 16, "8.0": 2, "8.9": 4, "12.0": 4}


@dataclass(frozen=True)
class Rate:
    """Tokens a second that ``rows`` rows at once cannot exceed, and the seconds that a whole rollout takes at least:
    by that ceiling and, without vLLM, by what Python needs to launch a step."""

    rows: int
    tokens_per_second: float
    fused_tokens_per_second: float
    rollout_seconds: float


@dataclass(frozen=True)
class Decoding:
    """Ceilings by bandwidth (and compute), for rows of the mean length of a rollout (``context``, tokens).

    ``fused`` rates are those of a kernel that reads 4-bit weights as they are at any number of rows. ``best_rows`` is
    the number at once that makes a whole rollout fastest among those that fit; None where none does.
    """

    context: int
    rates: tuple[Rate, ...]
    best_rows: int | None
    most_rows: int | None


def decoding(request: Request) -> Decoding | None:
    """None where nothing is drawn, or the GPU's bandwidth is not known."""
    setup, gpu = request.setup, request.gpu
    if not setup.learns_from_rollouts or gpu.bandwidth is None:
        return None
    whole = max(setup.completions_per_rollout, 1)
    context = setup.prompt + setup.completion // 2
    if setup.vllm:
        most: int | None = whole  # vLLM queues what its cache has no room for
    else:
        most = most_drawn(drawing_fits, request, whole)
    fitting = [rows for rows in range(1, (most or 0) + 1) if setup.vllm or drawing_fits(request, rows)]
    timed = {rows: _rate(request, rows, context, whole) for rows in fitting}
    best = min(timed.values(), key=lambda rate: (rate.rollout_seconds, rate.rows)).rows if timed else None
    shown = sorted({1, min(8, whole), min(setup.rollout_rows, whole), *([best] if best else [])})
    return Decoding(context, tuple(_rate(request, rows, context, whole) for rows in shown), best, most)


def most_rows(fits: Callable[[int], bool], ceiling: int) -> int | None:
    """The largest number up to ``ceiling`` that ``fits`` takes; None if it takes not even 1. Fewer always fit."""
    low, high = 0, ceiling
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low or None


def most_drawn(fits: Callable[[Request, int], bool], request: Request, ceiling: int) -> int | None:
    """The same of rows drawn at once, of which fewer may take more: a batch that divides a group holds one prompt, and
    needs no mask. So it is searched as if none did, and from there down."""
    unpadded = replace(request, setup=replace(request.setup, one_prompt=True))
    most = most_rows(lambda rows: fits(unpadded, rows), ceiling) or 0
    return next((rows for rows in range(most, 0, -1) if fits(request, rows)), None)


def fused_rows(gpu: GpuCard) -> int:
    """Up to how many rows at once Unsloth reads 4-bit weights as they are on this GPU."""
    return FUSED_ROWS.get(gpu.capability or "", 1)


def ceiling(request: Request, rows: int, context: float, *, unpacks: bool | None = None) -> float:
    """Tokens a second that ``rows`` rows cannot exceed on a GPU whose bandwidth is known.

    ``unpacks``: whether 4-bit weights are written out in 16 bits at each step; None: as Unsloth does. Of vLLM's kernels
    that is not known here, so that its ceiling is the higher one.
    """
    setup, gpu = request.setup, request.gpu
    assert gpu.bandwidth is not None
    if unpacks is None:
        unpacks = rows > fused_rows(gpu) and not setup.vllm
    return f.decode_ceiling(
        request.card,
        rows,
        context,
        bandwidth=gpu.bandwidth,
        tflops=gpu.bf16_tflops,
        four_bit=setup.four_bit,
        unpacks=setup.four_bit and unpacks,
        kept=request.kept,
    )


def _rate(request: Request, rows: int, context: int, whole: int) -> Rate:
    setup = request.setup
    real = ceiling(request, rows, context)
    floor = 0.0 if setup.vllm else f.HOST_SECONDS_A_LAYER * request.card.num_hidden_layers
    steps = math.ceil(whole / rows) * setup.completion
    return Rate(rows, real, ceiling(request, rows, context, unpacks=False), steps * max(rows / real, floor))
