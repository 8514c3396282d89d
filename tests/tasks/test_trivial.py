from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.config import DataSection
from arcslim.tasks.grid import Grid
from arcslim.tasks.rearc import RearcLimits, generate
from arcslim.tasks.split import build_split
from arcslim.tasks.task import Pair, Task
from arcslim.tasks.trivial import NAMES, trivial_rules, why_trivial

A, B, C = [[1, 2, 0], [3, 4, 0]], [[5, 0, 6], [7, 8, 0]], [[9, 1, 1], [0, 0, 2]]


def task(*pairs: tuple[list[list[int]], list[list[int]] | None], tests: int = 1) -> Task:
    made = tuple(Pair(Grid(before), None if after is None else Grid(after)) for before, after in pairs)
    return Task("t", "made", "t", made[:-tests], made[-tests:])


def tiled(rows: list[list[int]], down: int, right: int) -> list[list[int]]:
    return np.tile(np.array(rows), (down, right)).tolist()


def enlarged(rows: list[list[int]], down: int, right: int) -> list[list[int]]:
    return np.array(rows).repeat(down, axis=0).repeat(right, axis=1).tolist()


@pytest.mark.parametrize(
    ("rule", "trivial"),
    [
        ("output_is_input", task((A, A), (B, B), (C, C))),
        ("one_fixed_colour", task((A, [[4, 4]]), (B, [[4], [4], [4]]), (C, [[4]]))),
        ("same_output", task((A, [[1, 2]]), (B, [[1, 2]]), (C, [[1, 2]]))),
        ("input_repeated", task((A, tiled(A, 1, 2)), (B, tiled(B, 1, 2)), (C, tiled(C, 1, 2)))),
        ("input_repeated", task((A, tiled(A, 3, 2)), ([[1, 2]], tiled([[1, 2]], 3, 2)))),
        ("input_enlarged", task((A, enlarged(A, 2, 2)), (B, enlarged(B, 2, 2)))),
        ("input_enlarged", task((A, enlarged(A, 1, 3)), ([[0, 7]], enlarged([[0, 7]], 1, 3)))),
        ("copies_train_output", task((A, [[1, 2]]), (B, [[3, 4]]), (C, [[3, 4]]))),
    ],
)
def test_each_rule_finds_its_kind(rule: str, trivial: Task) -> None:
    assert rule in trivial_rules(trivial)
    assert rule in NAMES
    assert why_trivial(trivial) == f"trivial_{trivial_rules(trivial)[0]}"


@pytest.mark.parametrize(
    "sound",
    [
        task((A, A), (B, B), (C, [[9, 1, 1], [0, 0, 3]])),  # one cell of one pair
        task((A, [[4, 4]]), (B, [[4], [4]]), (C, [[5]])),  # which colour is the puzzle
        task((A, [[1, 2]]), (B, [[3, 2]]), (C, [[2, 1]])),
        task((A, tiled(A, 1, 2)), (B, tiled(B, 2, 1)), (C, tiled(C, 1, 2))),  # which way is the puzzle
        task((A, enlarged(A, 2, 2)), (B, enlarged(B, 3, 3))),  # how far is the puzzle
        task((A, [A[0] * 2, A[1][::-1] + A[1]]), (B, tiled(B, 1, 2))),  # same size, something mirrored
        task((A, [[1]]), (B, [[2]])),
    ],
)
def test_what_needs_a_rule_is_kept(sound: Task) -> None:
    assert trivial_rules(sound) == ()
    assert why_trivial(sound) is None


def test_an_answer_that_is_not_known_says_nothing() -> None:
    assert trivial_rules(task((A, C), (B, A), (C, None))) == ()
    assert trivial_rules(task((A, A), (B, B), (C, None))) == ("output_is_input",)


def test_a_task_of_two_tests_is_a_copy_only_where_both_answers_are() -> None:
    shown, other = [[1, 2]], [[3, 4]]
    assert trivial_rules(task((A, shown), (B, [[5, 5]]), (C, shown), (C[::-1], other), tests=2)) == ()
    assert trivial_rules(task((A, shown), (B, other), (C, shown), (C[::-1], other), tests=2)) == (
        "copies_train_output",
    )


grids = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 9), min_size=width, max_size=width), min_size=1, max_size=6)
)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(grids, min_size=2, max_size=5), st.integers(1, 4), st.integers(1, 4))
def test_any_input_tiled_or_enlarged_is_found(inputs: list[list[list[int]]], down: int, right: int) -> None:
    once = down * right == 1
    assert ("input_repeated" in trivial_rules(task(*((g, tiled(g, down, right)) for g in inputs)))) is not once
    assert ("input_enlarged" in trivial_rules(task(*((g, enlarged(g, down, right)) for g in inputs)))) is not once
    assert ("output_is_input" in trivial_rules(task(*((g, tiled(g, down, right)) for g in inputs)))) is once


def test_a_generator_that_turns_the_grid_makes_no_trivial_tasks() -> None:
    limits = RearcLimits(pairs=3, difficulty_min=0.1, difficulty_max=0.2, min_side=3, max_side=12)
    made = [generate("67a3c6ac", index, 0, limits) for index in range(20)]
    assert all(task is not None and why_trivial(task) is None for task in made)


def test_drop_trivial_leaves_them_out_of_training_and_of_what_is_held_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(8):
        for name, step in (("turned", -1), ("copied", 1)):
            grids = rng.integers(0, 10, (3, 4, 4)).tolist()
            pairs = [{"input": grid, "output": grid[::step]} for grid in grids]
            (tmp_path / f"{name}{number}.json").write_text(json.dumps({"train": pairs[:2], "test": pairs[2:]}))
    data = DataSection(sources=(str(tmp_path),), tasks=8, holdout_select=2)

    everything = build_split(data, 0, lambda task: True)
    assert any(task.task_id.startswith("copied") for task in everything.train + everything.select)

    sound = build_split(data.model_copy(update={"drop_trivial": True}), 0, lambda task: True)
    assert all(task.task_id.startswith("turned") for task in sound.train + sound.select)
    (counts,) = sound.counts.values()
    assert counts["trivial_output_is_input"] > 0
    assert counts["read"] == sum(number for name, number in counts.items() if name != "read")
