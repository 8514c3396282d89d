"""Random drawings: every call, every colour, every direction, and nothing needless."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from arcslim.tasks.drawing_choice import Drawing, image_key, is_noop, prune, same_image
from arcslim.tasks.drawing_paint import DRAW
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.random_drawings import drawing_at, random_drawing


@pytest.fixture(scope="module")
def drawings() -> list[Drawing]:
    return [drawing_at(0, index) for index in range(3_000)]


def test_every_program_draws_its_image_and_no_call_is_needless(drawings: list[Drawing]) -> None:
    """Code to image, for every training pair, from the text that is trained on."""
    for drawing in drawings:
        program = parse_program(drawing.program.to_source())
        assert same_image(program.run(drawing.input), drawing.output)
        assert prune(program, drawing.input) == program
        assert not is_noop(program, drawing.input)


def test_sides_draws_and_inputs(drawings: list[Drawing]) -> None:
    sides = Counter(side for drawing in drawings for side in drawing.output.shape)
    assert set(sides) == set(range(3, 11))
    assert max(sides.values()) < 1.3 * min(sides.values())
    numbers = Counter(len(drawing.program.calls) for drawing in drawings)
    assert set(numbers) == {1, 2, 3, 4, 5}
    assert min(numbers.values()) > 100
    inputs = Counter(int(drawing.input[0, 0]) for drawing in drawings)
    assert set(inputs) == set(range(10)) and min(inputs.values()) > 200
    assert all(len(np.unique(drawing.input)) == 1 for drawing in drawings)


def test_every_call_and_every_colour(drawings: list[Drawing]) -> None:
    calls = [call for drawing in drawings for call in drawing.program.calls]
    names = Counter(call.name for call in calls)
    assert set(names) == set(DRAW)
    assert min(names.values()) > 0.1 * len(calls)
    colours = Counter(call.numbers[-1] for call in calls)
    assert set(colours) == set(range(10)) and min(colours.values()) > 0.08 * len(calls)


def test_every_direction_of_line(drawings: list[Drawing]) -> None:
    """One of the two diagonals was never drawn by the first experiments: both coordinates moved the same way."""
    lines = [call.numbers for drawing in drawings for call in drawing.program.calls if call.name == "draw_line"]
    moved = [(line[2] - line[0], line[3] - line[1]) for line in lines]
    signs = Counter((np.sign(down).item(), np.sign(right).item()) for down, right in moved)
    assert set(signs) == {(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)} - {(0, 0)}
    diagonal = Counter(down * right > 0 for down, right in moved if abs(down) == abs(right))
    assert min(diagonal.values()) > 0.4 * sum(diagonal.values()) > 40
    steep = Counter(abs(down) > abs(right) for down, right in moved if 0 < abs(down) != abs(right) > 0)
    assert min(steep.values()) > 0.4 * sum(steep.values())


def test_seed_and_index_alone_decide(drawings: list[Drawing]) -> None:
    assert drawing_at(0, 2_999).program == drawings[2_999].program
    assert drawing_at(1, 2_999).program != drawings[2_999].program
    assert len({image_key(drawing.output) for drawing in drawings}) > 2_900


def test_limits_are_kept() -> None:
    rng = random.Random(5)
    for _ in range(200):
        drawing = random_drawing(rng, min_side=1, max_side=4, max_draws=2, input_colour=0)
        assert not drawing.input.any()
        assert max(drawing.output.shape) <= 4 and 1 <= len(drawing.program.calls) <= 2
    smallest = random_drawing(random.Random(0), min_side=1, max_side=1)
    assert smallest.output.shape == (1, 1)
