from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.errors import GridError
from arcslim.tasks.grid import Grid

rows = st.integers(1, 30).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 9), min_size=width, max_size=width), min_size=1, max_size=30)
)


@given(rows)
def test_rows_come_back_as_they_went_in(cells: list[list[int]]) -> None:
    grid = Grid(cells)
    assert grid.rows() == cells
    assert grid.shape == (grid.height, grid.width) == (len(cells), len(cells[0]))
    assert Grid(grid.cells) == grid == pickle.loads(pickle.dumps(grid))  # noqa: S301 - our own bytes
    assert hash(Grid(cells)) == hash(grid)


@given(rows, rows)
def test_keys_are_equal_for_equal_grids_alone(first: list[list[int]], second: list[list[int]]) -> None:
    assert (Grid(first).key() == Grid(second).key()) == (first == second)
    assert (Grid(first) == Grid(second)) == (first == second)


def test_shape_is_part_of_the_key() -> None:
    assert Grid([[1, 2]]).key() != Grid([[1], [2]]).key()


def test_cells_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Grid([[1]]).cells[0, 0] = 2


@pytest.mark.parametrize(
    ("given_rows", "reason"),
    [
        ("777", "not_a_grid"),
        (None, "not_a_grid"),
        ({"0": [1]}, "not_a_grid"),
        ([1, 2], "not_a_grid"),
        (["12", "34"], "not_a_grid"),
        (np.zeros(3, dtype=int), "not_a_grid"),
        (np.zeros((2, 2, 2), dtype=int), "not_a_grid"),
        ([], "empty"),
        ([[]], "empty"),
        ([[1], []], "empty"),
        ([[1, 2], [3]], "ragged"),
        ([[0]] * 31, "too_large"),
        ([[0] * 31], "too_large"),
        ([[0]] * 3000, "too_large"),
        ([["1"]], "not_an_integer"),
        ([[1.0]], "not_an_integer"),
        ([[float("nan")]], "not_an_integer"),
        ([[True]], "not_an_integer"),
        ([[None]], "not_an_integer"),
        ([[[1]]], "not_an_integer"),
        (np.array([[0.5]]), "not_an_integer"),
        ([[10]], "bad_colour"),
        ([[-1]], "bad_colour"),
        ([[10**100]], "bad_colour"),
    ],
)
def test_every_fault_has_its_reason(given_rows: object, reason: str) -> None:
    """Case 9 among others: grids over 30 a side."""
    with pytest.raises(GridError) as caught:
        Grid(given_rows)  # type: ignore[arg-type]
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 200


def test_the_place_of_a_bad_cell_is_named() -> None:
    with pytest.raises(GridError, match="row 2, column 3"):
        Grid([[0, 1, 2], [3, 4, 11]])
