"""Pruning, accuracy, and which of many drawings are worth training on."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings

from arcslim.tasks.drawing import Call, DrawingRefused, Image, Program
from arcslim.tasks.drawing_choice import (
    Drawing,
    draw,
    image_key,
    is_noop,
    novel,
    ordered,
    pixel_accuracy,
    prune,
    same_image,
    shortest_by_image,
)
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.grid import Grid
from arcslim.tasks.targets import target
from tests.tasks.drawing_made import images, programs

BLANK: Image = np.zeros((4, 5), dtype=np.int8)
ROW = Call("draw_horizontal_line", (1, 3))
SAME_ROW = Call("draw_line", (1, 0, 1, 4, 3))


def pixel(row: int, column: int, colour: int) -> Program:
    return Program((Call("draw_pixel", (row, column, colour)),))


@settings(max_examples=400)
@given(programs(most=10), images(most=5))
def test_a_pruned_program_draws_the_very_same_image_and_no_call_is_needless(program: Program, image: Image) -> None:
    pruned = prune(program, image)
    wanted = program.run(image)
    assert same_image(parse_program(pruned.to_source()).run(image), wanted)
    assert prune(pruned, image) == pruned
    for index in range(len(pruned.calls)):
        shorter = Program(pruned.calls[:index] + pruned.calls[index + 1 :])
        assert not same_image(shorter.run(image), wanted)
    assert is_noop(program, image) == (pruned.calls == ())


def test_of_two_calls_that_cover_each_other_one_stays() -> None:
    """Each alone could go: the first experiments dropped both, and the program no longer drew its image."""
    assert prune(Program((ROW, SAME_ROW)), BLANK).calls == (SAME_ROW,)


def test_a_call_under_another_goes_and_one_that_shows_stays() -> None:
    under = Call("draw_rectangle", (0, 0, 3, 4, 7))
    over = Call("draw_rectangle", (0, 0, 3, 3, 8))
    whole = Call("draw_rectangle", (0, 0, 3, 4, 8))
    assert prune(Program((ROW, under, whole)), BLANK).calls == (whole,)
    assert prune(Program((ROW, under, over)), BLANK).calls == (under, over)


def test_create_img_stays_where_there_is_no_input() -> None:
    program = Program((Call("create_img", (4, 5, 0)), Call("draw_pixel", (9, 9, 1))))
    assert prune(program, None).calls == program.calls[:1]
    assert prune(program, BLANK).calls == ()
    assert prune(program, BLANK[:2]).calls == program.calls[:1]
    with pytest.raises(DrawingRefused):
        prune(Program((ROW,)), None)


def test_what_is_no_change() -> None:
    assert is_noop(Program(()), BLANK) and is_noop(pixel(9, 9, 3), BLANK) and is_noop(pixel(0, 0, 0), BLANK)
    assert not is_noop(pixel(0, 0, 3), BLANK)
    assert not is_noop(Program((Call("create_img", (5, 4, 0)),)), BLANK)
    assert not is_noop(Program((Call("create_img", (4, 5, 0)),)), None)


def test_pixel_accuracy() -> None:
    lines = target("4-vertical-lines").image
    assert pixel_accuracy(lines, lines) == 1.0
    assert pixel_accuracy(np.full((4, 4), 2, dtype=np.int8), lines) == 0.25
    assert pixel_accuracy(np.zeros((4, 4), dtype=np.int8), lines) == 0.0
    assert pixel_accuracy(lines[:3], lines) == 0.0
    assert pixel_accuracy(lines[:1], lines) == 0.0  # not stretched over the target


@given(images(most=3), images(most=3))
def test_keys_are_equal_for_equal_images_alone(one: Image, other: Image) -> None:
    assert (image_key(one) == image_key(other)) == (one.tolist() == other.tolist())
    assert image_key(one) == Grid(one).key() == image_key(one.astype(np.int64))


def test_shortest_by_image() -> None:
    long, short = draw(Program((ROW, SAME_ROW)), BLANK), draw(Program((SAME_ROW,)), BLANK)
    shortest = draw(Program((Call("draw_horizontal_line", (1, 3)),)), BLANK)
    equal = draw(Program((Call("draw_horizontal_line", (1, 3)),)), BLANK)
    other = draw(pixel(0, 0, 1), BLANK)
    assert shortest_by_image([long, other, short, shortest, equal]) == [shortest, other]
    assert shortest_by_image([]) == []


def test_novel_leaves_what_was_seen() -> None:
    first, second = draw(pixel(0, 0, 1), BLANK), draw(pixel(0, 0, 2), BLANK)
    seen = frozenset({image_key(first.output)})
    assert novel([first, second], seen) == [second]


def test_order() -> None:
    aim = target("2-vertical-lines").image
    blank = np.zeros((2, 2), dtype=np.int8)
    half = draw(Program((Call("draw_vertical_line", (0, 1)),)), blank)
    quarter = [draw(pixel(row, 0, 1), blank) for row in range(2)]
    none = draw(pixel(0, 0, 9), blank)
    drawings = [half, quarter[0], none, quarter[1]]

    def accuracies(found: list[Drawing]) -> list[float]:
        return [pixel_accuracy(drawing.output, aim) for drawing in found]

    assert accuracies(ordered(drawings, aim, "asc", random.Random(0))) == [0, 0.25, 0.25, 0.5]
    assert accuracies(ordered(drawings, aim, "desc", random.Random(0))) == [0.5, 0.25, 0.25, 0]
    orders = {tuple(map(id, ordered(drawings, aim, "random", random.Random(seed)))) for seed in range(60)}
    assert len(orders) > 12
    ties = {tuple(map(id, ordered(drawings, aim, "asc", random.Random(seed)))) for seed in range(20)}
    assert len(ties) == 2
    assert ordered(drawings, aim, "random", random.Random(3)) == ordered(drawings, aim, "random", random.Random(3))
    assert drawings[0] is half
