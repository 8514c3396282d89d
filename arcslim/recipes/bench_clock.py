"""Seconds and peaks of memory of each phase of a bench."""

from __future__ import annotations

import statistics
import time

import torch

from arcslim.recipes.peaks import memory_peaks


class Clock:
    """Seconds and peaks of each phase; the first step's are passed over where there are more."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.seconds: dict[str, list[float]] = {}
        self.peaks: dict[str, int] = {}
        self._began = 0.0

    def now(self) -> float:
        if self._device != "cpu":
            torch.cuda.synchronize()
        return time.monotonic()

    def loaded(self, seconds: float) -> None:
        """The model and the trainer are there; they took so long."""
        self.seconds["load"] = [seconds]
        self.peaks["load"] = self._peak()

    def begin(self) -> None:
        if self._device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        self._began = self.now()

    def end(self, phase: str) -> float:
        """Close a phase that ``begin`` opened; its seconds."""
        took = self.now() - self._began
        self.seconds.setdefault(phase, []).append(took)
        self.peaks[phase] = max(self.peaks.get(phase, 0), self._peak())
        return took

    def _peak(self) -> int:
        if self._device != "cpu":
            return int(torch.cuda.max_memory_allocated())
        return int(memory_peaks()["memory/host_peak_bytes"])

    def of(self, phase: str) -> float | None:
        values = self.seconds.get(phase, [])
        return statistics.median(values[1:] or values) if values else None
