"""Peak memory of this process so far."""

from __future__ import annotations

import resource
import sys

import torch


def memory_peaks() -> dict[str, float]:
    """Peak bytes so far: of this process in host RAM, and of the GPU's allocator where there is one."""
    unit = 1 if sys.platform == "darwin" else 1024
    peaks = {"memory/host_peak_bytes": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)}
    if torch.cuda.is_available():
        peaks["memory/gpu_peak_bytes"] = float(torch.cuda.max_memory_allocated())
    return peaks
