"""In which precision this machine trains."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # x86's two, and Arm's


def mixed_precision(*, on_gpu: bool) -> dict[str, bool]:
    """transformers' arguments: bf16 where it is native, fp16 on an older GPU (before Ampere), fp32 on other CPUs."""
    if not on_gpu:
        return {"bf16": multiplies_bf16()}
    import torch

    native = not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)
    return {"bf16": native, "fp16": not native}


@cache
def multiplies_bf16() -> bool:
    """Whether matrix products in bf16 are native: a training step of the tiny model then takes a quarter less time.

    Read from Linux's /proc/cpuinfo; False where that is not there. Emulated, bf16 is slower than fp32.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    lines = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return bool(lines) and any(flag in lines[0].split() for flag in _FLAGS)
