"""In which way two tasks of the same content (``content.py``) are the same: four numbers of 8 bytes tell it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from arcslim.tasks.content import canonical_key, symmetries
from arcslim.tasks.task import Pair, Task

Prints = tuple[int, int, int, int]
"""Of the content, of the pairs in their order, in any order, and in any order and orientation."""

HOW = ("a test of it or with it", "recoloured", "turned or mirrored", "in another order", "the same pairs")


def prints_of(task: Task) -> Prints:
    """The four numbers; tasks of the same content share the first, the more alike they are the more of the others."""
    pairs = (*task.train, *task.test)
    as_it_stands = [pair.key() for pair in pairs]
    turned = zip(*(_turned(pair) for pair in pairs), strict=True)
    return (
        int.from_bytes(canonical_key(task)[:8], "big"),
        _number(as_it_stands),
        _number(sorted(as_it_stands)),
        min(_number(sorted(keys)) for keys in turned),
    )


def how_alike(one: Prints, other: Prints) -> str:
    """In words, for two tasks of which one is the other's content, or is one of the other's tests."""
    if one[0] != other[0]:
        return HOW[0]
    shared = next((place for place in (1, 2, 3) if one[place] == other[place]), 4)
    return HOW[5 - shared]


def _number(keys: Iterable[bytes]) -> int:
    return int.from_bytes(hashlib.sha256(b"|".join(keys)).digest()[:8], "big")


def _turned(pair: Pair) -> list[bytes]:
    """The pair's key under each of the 8 symmetries."""
    inputs = symmetries(pair.input.cells)
    outputs = [None] * 8 if pair.output is None else symmetries(pair.output.cells)
    return [
        bytes(given.shape) + given.tobytes() + (b"?" if answer is None else bytes(answer.shape) + answer.tobytes())
        for given, answer in zip(inputs, outputs, strict=True)
    ]
