"""The smallest Triton kernel: whether it compiles is what `arcslim doctor` wants to know."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x, y, out, length, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def adds(device: str) -> bool:
    """Whether the kernel compiles and adds right."""
    x, y = torch.arange(100.0, device=device), torch.ones(100, device=device)
    out: Any = torch.zeros_like(x)
    _add[(2,)](x, y, out, 100, BLOCK=64)
    return bool((out == x + y).all())
