"""Puzzles in BARC's form, made here: real files stay outside the repository."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def grid(rng: random.Random, height: int, width: int) -> list[list[int]]:
    return [[rng.randrange(10) for _ in range(width)] for _ in range(height)]


def puzzle(number: int, pairs: int = 4, side: int = 4) -> dict[str, Any]:
    """The rule: top to bottom."""
    rng = random.Random(number)
    inputs = [grid(rng, side, side + 1) for _ in range(pairs)]
    return {"source": "import numpy", "examples": [[rows, rows[::-1]] for rows in inputs], "seeds": ["a.py"]}


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """A JSONL file; a text among the rows stands there as it is."""
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path
