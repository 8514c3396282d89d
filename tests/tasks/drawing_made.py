"""Programs and images for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from arcslim.tasks.drawing import PARAMETERS, Call, Image, Kind, Program

_KINDS: dict[Kind, tuple[int, int, int]] = {
    "shape": (2, 1, 9),
    "point": (2, -4, 12),
    "number": (1, -4, 12),
    "colour": (1, 0, 9),
}


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call whose points lie within a small canvas, and sometimes outside."""
    name = draw(st.sampled_from(sorted(PARAMETERS)))
    numbers: list[int] = []
    for _, kind in PARAMETERS[name]:
        number, least, most = _KINDS[kind]
        numbers += [draw(st.integers(least, most)) for _ in range(number)]
    return Call(name, tuple(numbers))


def programs(least: int = 0, most: int = 8) -> st.SearchStrategy[Program]:
    return st.lists(calls(), min_size=least, max_size=most).map(lambda some: Program(tuple(some)))


@st.composite
def images(draw: st.DrawFn, most: int = 9) -> Image:
    height, width = draw(st.integers(1, most)), draw(st.integers(1, most))
    cells = draw(st.lists(st.integers(0, 9), min_size=height * width, max_size=height * width))
    return np.array(cells, dtype=np.int8).reshape(height, width)
