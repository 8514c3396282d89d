"""Which share of a GPU's bandwidth and of its compute a measured speed has reached: by ``formulas.py``, as a bound."""

from __future__ import annotations

from collections.abc import Mapping

from arcslim.memory.decode import ceiling
from arcslim.memory.setup import Request


def shares(request: Request, speeds: Mapping[str, float | None]) -> dict[str, float]:
    """Shares of what the GPU could do at most, by the names of ``speeds``: ``prefill``, ``decode``, ``update`` (tokens
    a second).

    Decoding is held against bandwidth (and compute), reading and updating against compute: 2 operations a weight and
    token forward, as many for the backward through frozen weights, twice as many where they are trained, and a forward
    more where checkpoints are run again. Attention's own products are left out. Empty where the GPU is not known.
    """
    setup, gpu, card = request.setup, request.gpu, request.card
    ceilings: dict[str, float] = {}
    if gpu.bandwidth is not None:
        ceilings["decode"] = ceiling(request, setup.rollout_rows, setup.prompt + setup.completion / 2)
    if gpu.bf16_tflops is not None:
        operations = gpu.bf16_tflops * 1e12
        weights = card.linear_parameters
        passes = (3 if setup.full_finetuning else 2) + (setup.checkpointing != "false")
        ceilings["prefill"] = operations / (2 * weights)  # of the head only the last token is read
        ceilings["update"] = operations / (2 * passes * (weights + card.embedding_parameters))
    return {name: speed / ceilings[name] for name, speed in speeds.items() if speed and name in ceilings}
