"""A line of `arcslim doctor`: what was looked at, how it is, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "doubtful", "broken"]
OK: State = "ok"
DOUBTFUL: State = "doubtful"
BROKEN: State = "broken"
GIB = 1024**3


@dataclass(frozen=True)
class Check:
    """``found``: what is there, in words. ``mend``: what to do where it is not ok."""

    name: str
    state: State
    found: str
    mend: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def gib(amount: float) -> str:
    return f"{amount / GIB:.1f} GiB" if amount < 100 * GIB else f"{amount / GIB:.0f} GiB"
