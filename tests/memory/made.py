"""What tests of the planner share."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def live_bytes(work: Callable[[], Any]) -> tuple[Any, int]:
    """What ``work`` returns, and the most bytes that its tensors held at once."""
    from torch.utils._python_dispatch import TorchDispatchMode

    now = most = 0
    seen: set[int] = set()

    def freed(key: int, size: int) -> None:
        nonlocal now
        now -= size
        seen.discard(key)

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal now, most
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else (out,):
                storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else None
                if storage is not None and storage._cdata not in seen:
                    seen.add(storage._cdata)
                    now += storage.nbytes()
                    weakref.finalize(storage, freed, storage._cdata, storage.nbytes())
            most = max(most, now)
            return out

    with Counting():
        return work(), most
