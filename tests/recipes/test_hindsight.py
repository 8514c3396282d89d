"""Hindsight without a model: what becomes of programs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.her_config import HerSection, read_sampler
from arcslim.prompts.nouns import Completion
from arcslim.recipes.hindsight import LookedBack, look_back
from arcslim.tasks.drawing import Program
from arcslim.tasks.drawing_choice import image_key, same_image
from arcslim.tasks.random_drawings import drawing_at
from arcslim.tasks.targets import target

LINES = target("6-vertical-lines")


def program(*calls: str) -> str:
    return "\n".join(["def task(img):", *(f"    img = {call}" for call in calls), "    return img"]) + "\n"


def line(x: int, color: int) -> str:
    return f"draw_vertical_line(img, x={x}, color={color})"


def looked(*texts: str, cut_off: bool = False, seen: frozenset[bytes] = frozenset(), **her: Any) -> LookedBack:
    completions = [Completion(text, (1,), cut_off) for text in texts]
    return look_back(completions, LINES, seen, HerSection(**her), random.Random(0))


def test_what_a_program_drew_is_what_it_was_asked_for() -> None:
    (pair,) = looked(program(line(0, 1))).pairs
    assert same_image(pair.image, pair.program.run(LINES.blank))
    assert not same_image(pair.image, LINES.image)


def test_what_is_no_drawing_is_counted() -> None:
    found = looked("import os", program("draw_pixel(img, point=(50, 50), color=3)"), program(line(0, 0)), "")
    assert found.drawn == 4 and not found.valid
    assert found.refused["changes_nothing"] == 2 and found.refused.total() == 4
    assert looked(program(line(0, 1)), cut_off=True).refused == {"cut_off": 1}


def test_a_program_is_pruned_before_it_is_judged() -> None:
    (pair,) = looked(program(line(0, 5), line(0, 1), line(3, 0))).pairs
    assert pair.program.to_source() == program(line(0, 1))


def test_of_the_same_image_the_shortest_is_trained() -> None:
    pixels = program(*(f"draw_pixel(img, point=({row}, 0), color=1)" for row in range(6)))
    for texts in ((pixels, program(line(0, 1))), (program(line(0, 1)), pixels)):
        (pair,) = looked(*texts).pairs
        assert pair.program.to_source() == program(line(0, 1))
    (first,) = looked(pixels, program(line(0, 1)), shortest_only=False).pairs
    assert first.program.to_source() == pixels


def test_an_image_is_never_trained_on_again() -> None:
    (pair,) = looked(program(line(0, 1))).pairs
    seen = frozenset({image_key(pair.drawn)})
    assert not looked(program(line(0, 1)), seen=seen).pairs
    assert looked(program(line(0, 1)), seen=seen, novel_only=False).pairs


@pytest.mark.parametrize(("order", "accuracies"), [("asc", [0, 1 / 6, 2 / 6]), ("desc", [2 / 6, 1 / 6, 0])])
def test_the_order_is_that_of_the_accuracy(order: str, accuracies: list[float]) -> None:
    texts = [program(line(0, 1)), program(line(0, 7)), program(line(0, 1), line(1, 2))]
    found = looked(*texts, order=order)
    got = [float((pair.image == LINES.image).mean()) for pair in found.pairs]
    assert got == pytest.approx(accuracies)
    assert found.best(LINES.image)[0] == pytest.approx(2 / 6)


def test_without_relabelling_every_program_answers_for_the_target() -> None:
    found = looked(program(line(0, 1)), program(line(0, 7)), relabel=False)
    assert all(same_image(pair.image, LINES.image) for pair in found.pairs)
    assert len({image_key(pair.drawn) for pair in found.pairs}) == 2


def test_shuffled_pairs_all_have_another_programs_image() -> None:
    texts = [program(line(x, x + 1)) for x in range(6)]
    pairs = looked(*texts, shuffle_pairs=True).pairs
    assert len(pairs) == 6
    assert not any(same_image(pair.image, pair.drawn) for pair in pairs)
    assert {image_key(pair.image) for pair in pairs} == {image_key(pair.drawn) for pair in pairs}


@given(st.lists(st.integers(0, 200), min_size=1, max_size=12), st.sampled_from(["asc", "random", "desc"]))
def test_every_pair_draws_its_image(indices: list[int], order: Any) -> None:
    """Code → image holds for every training pair, whatever was sampled; on another canvas than the program was for."""
    texts = [drawing_at(7, index).program.to_source() for index in indices]
    found = looked(*texts, order=order)
    for pair in found.pairs:
        assert same_image(pair.program.run(LINES.blank), pair.image)
    assert len({image_key(pair.image) for pair in found.pairs}) == len(found.pairs)
    assert len(found.valid) + found.refused.total() == found.drawn == len(texts)


def test_an_epoch_without_a_valid_sample_comes_to_nothing() -> None:
    found = looked("x", "y")
    assert found.pairs == () and found.best(LINES.image) == (0.0, None)


def test_a_sampler_is_count_and_temperature() -> None:
    assert read_sampler("8@0.1") == (8, 0.1)
    assert read_sampler(" 8@.5 ") == (8, 0.5) and read_sampler("8@1e-2") == (8, 0.01)
    for text in (
        "8",
        "0@1",
        "8@0",
        "8@nan",
        "@1",
        "a@b",
        "8@inf",
        "-1@1",
        "\u0663@1",
        "8@1_0",
        "1_0@1",
        "8@1@2",
        "8@1e999",
    ):
        with pytest.raises(ValueError, match="COUNT@TEMPERATURE"):
            read_sampler(text)


def test_an_empty_program_has_no_call() -> None:
    assert np.array_equal(Program(()).run(LINES.blank), LINES.blank)


def test_what_was_written_is_kept_with_what_became_of_it() -> None:
    long = program(line(0, 5), line(0, 1))
    found = looked(long, "import os", "import sys", "x")
    (drawing,) = found.valid
    assert found.written[drawing].text == long and drawing.program.to_source() != long
    assert {reason: one.text for reason, one in found.spoiled.items()}.keys() == found.refused.keys()
    assert "import os" in {one.text for one in found.spoiled.values()} and found.tokens == 4
