"""What a task is, whatever its colours, its orientation and the order of its pairs.

ARC's tasks recur under other ids, turned, recoloured, or with a test pair among the examples. Two tasks are the same
content when one of the 8 symmetries of the square (the same on every grid), one permutation of the 10 colours (the
same on every grid) and some order of all pairs, test pairs among them, turns one into the other.

The key is the lexicographic minimum, over symmetries and orders, of the pairs' codes: a pair's code is its two
shapes, then its cells with colours numbered by first appearance along the order taken. A numbering by first
appearance forgets the colours' names, so the minimum is the same for every recolouring; and it can be undone up to
exactly these transformations, so no other task has it.

The minimum is built one pair at a time. Of all partial orders only those that tie for the least prefix are kept
(``_State``); partial orders that have the same future are kept once. Ties are rare and short-lived in real tasks:
the first pair alone settles the symmetry and most of the colours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from arcslim.tasks.grid import COLOURS, Grid
from arcslim.tasks.task import Pair, Task

_UNNAMED = 100  # a colour without a number yet is written as 100 + colour, so that it never equals a number
_START = bytes(range(_UNNAMED, _UNNAMED + COLOURS))
_ABSENT = b"\x00\x00"  # the shape of an output that is not known


@dataclass(frozen=True)
class _Picture:
    """One pair after a symmetry: ``shape`` of input and output (4 bytes), ``cells`` of both, not yet numbered."""

    shape: bytes
    cells: bytes


@dataclass(frozen=True)
class _State:
    """A partial order: the pairs left (numbered colours and unnamed ones mixed), and how many colours have numbers."""

    left: tuple[_Picture, ...]
    named: int


def canonical_key(task: Task) -> bytes:
    """32 bytes, equal for tasks that are the same content (see above), and different for others."""
    if task.content_key is None:
        object.__setattr__(task, "content_key", _key((*task.train, *task.test)))  # frozen, and this is no field of it
    assert task.content_key is not None
    return task.content_key


def content_keys(task: Task) -> tuple[bytes, ...]:
    """The key of the task, and where it has several tests that of the task with each of them alone."""
    whole = canonical_key(task)
    return (whole,) if len(task.test) == 1 else (whole, *map(canonical_key, task.for_each_test()))


@lru_cache(maxsize=4096)  # the pairs of a training task are looked up for more than one reason
def pair_key(pair: Pair) -> bytes:
    """The same for one pair alone: finds a test pair that is an example elsewhere."""
    return _key((pair,))


def _key(pairs: tuple[Pair, ...]) -> bytes:
    digest = hashlib.sha256()
    for code in _least_codes(pairs):
        digest.update(code)  # a code's length follows from the shapes it starts with: no separator needed
    return digest.digest()


def _least_codes(pairs: tuple[Pair, ...]) -> Iterator[bytes]:
    states: Iterable[_State] = [_State(left, 0) for left in _turned(pairs)]
    for _ in pairs:
        best: bytes | None = None
        tied: dict[_State, None] = {}
        for state in states:
            for code, following in _steps(state, best):
                if best is None or code < best:
                    best, tied = code, {}
                tied[following] = None
        assert best is not None
        yield best
        states = tied


def _steps(state: _State, bound: bytes | None) -> list[tuple[bytes, _State]]:
    """The least continuations of one state: each pair with the least code, and the state it leads to.

    None is given when they are above ``bound``. Of two pairs that a symmetry of the state itself exchanges, one is
    enough: both lead to the same codes.
    """
    least: bytes | None = bound
    chosen: list[tuple[_Picture, bytes]] = []
    for picture in dict.fromkeys(state.left):
        if least is not None and picture.shape > least[:4]:
            continue
        fresh = bytes(dict.fromkeys(picture.cells.translate(None, _NUMBERS)))
        code = picture.shape + picture.cells.translate(_numbering(fresh, state.named))
        if least is None or code < least:
            least, chosen = code, []
        if code == least:
            chosen.append((picture, fresh))
    steps: list[tuple[bytes, _State]] = []
    kept: list[bytes] = []
    for picture, fresh in chosen:
        if any(_exchangeable(state, other, fresh) for other in kept):
            continue
        kept.append(fresh)
        assert least is not None
        steps.append((least, _without(state, picture, fresh)))
    return steps


_NUMBERS = bytes(range(COLOURS))


def _numbering(fresh: bytes, named: int) -> bytes:
    return bytes.maketrans(fresh, bytes(range(named, named + len(fresh))))


def _without(state: _State, taken: _Picture, fresh: bytes) -> _State:
    """The state after ``taken``: its new colours get the next numbers everywhere."""
    left = list(state.left)
    left.remove(taken)
    if fresh:
        table = _numbering(fresh, state.named)
        left = [_Picture(picture.shape, picture.cells.translate(table)) for picture in left]
    return _State(tuple(sorted(left, key=_order)), state.named + len(fresh))


def _exchangeable(state: _State, first: bytes, second: bytes) -> bool:
    """Whether exchanging the colours ``first`` and ``second``, one by one, maps the state to itself.

    Both are the new colours of two pairs with the same code, in order of appearance, so the exchange maps one pair to
    the other. Colours in both lists must stand in the same place: else it is no exchange, and nothing is claimed.
    """
    if len(first) != len(second):
        return False
    moved = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    if {a for a, _ in moved} & {b for _, b in moved}:
        return False
    source = bytes([a for a, _ in moved] + [b for _, b in moved])
    table = bytes.maketrans(source, bytes([b for _, b in moved] + [a for a, _ in moved]))
    image = [_Picture(picture.shape, picture.cells.translate(table)) for picture in state.left]
    return sorted(image, key=_order) == sorted(state.left, key=_order)


def _order(picture: _Picture) -> tuple[bytes, bytes]:
    return picture.shape, picture.cells


def _turned(pairs: tuple[Pair, ...]) -> Iterator[tuple[_Picture, ...]]:
    """The pairs under each of the 8 symmetries, each time in one order that forgets the order they came in."""
    views = [(_views(pair.input), None if pair.output is None else _views(pair.output)) for pair in pairs]
    for turn in range(8):
        pictures = []
        for inputs, outputs in views:
            shape, cells = inputs[turn]
            after, answer = (_ABSENT, b"") if outputs is None else outputs[turn]
            pictures.append(_Picture(shape + after, (cells + answer).translate(_TO_UNNAMED)))
        yield tuple(sorted(pictures, key=_order))


_TO_UNNAMED = bytes.maketrans(_NUMBERS, _START)


def _views(grid: Grid) -> list[tuple[bytes, bytes]]:
    """Shape and cells, row by row, under each symmetry."""
    return [(bytes(view.shape), view.tobytes()) for view in symmetries(grid.cells)]


def symmetries(cells: NDArray[np.int8]) -> list[NDArray[np.int8]]:
    """The 8 images of a (rows, columns) array under the square's symmetries, always in the same order."""
    return [view for base in (cells, cells.T) for view in (base, base[::-1], base[:, ::-1], base[::-1, ::-1])]
