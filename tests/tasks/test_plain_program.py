"""The plainest program of an image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.plain_program import plain_program
from arcslim.tasks.targets import target


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.int8, shape, elements=st.integers(0, 9))
    )
)
def test_it_draws_its_image(image: np.ndarray) -> None:
    program = plain_program(image)
    assert np.array_equal(program.run(np.zeros(image.shape, dtype=np.int8)), image)
    assert len(program.calls) <= image.size
    if len(program.calls) <= 128:
        assert parse_program(program.to_source()) == program


@pytest.mark.parametrize(
    ("name", "calls"), [("9-vertical-lines", 9), ("4-squares", 4), ("16-squares", 16), ("100-squares", 100)]
)
def test_what_is_of_blocks_takes_a_call_a_block(name: str, calls: int) -> None:
    """A block of the commonest colour comes with ``create_img``."""
    program = plain_program(target(name).image)
    assert calls - 15 <= len(program.calls) <= calls + 1
    assert np.array_equal(program.run(target(name).blank), target(name).image)
