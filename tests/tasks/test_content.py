from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.tasks.arc import load_arc1, load_file
from arcslim.tasks.content import canonical_key, pair_key, symmetries
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

DATA = Path(__file__).parents[1] / "data"


def grids(side: int, colours: int) -> st.SearchStrategy[Grid]:
    return st.tuples(st.integers(1, side), st.integers(1, side)).flatmap(
        lambda shape: st.lists(
            st.lists(st.integers(0, colours - 1), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        ).map(Grid)
    )


def tasks(side: int, colours: int, pairs: int) -> st.SearchStrategy[Task]:
    pair = st.builds(Pair, grids(side, colours), st.none() | grids(side, colours))
    return st.lists(pair, min_size=1, max_size=pairs).map(lambda drawn: Task("t", "", "", tuple(drawn), ()))


def transformed(task: Task, seed: int) -> Task:
    """The same content in another guise."""
    rng = random.Random(seed)
    turn = rng.randrange(8)
    palette = np.array(rng.sample(range(10), 10), dtype=np.int8)

    def grid(before: Grid) -> Grid:
        return Grid(palette[symmetries(before.cells)[turn]])

    pairs = [
        Pair(grid(pair.input), None if pair.output is None else grid(pair.output)) for pair in task.train + task.test
    ]
    rng.shuffle(pairs)
    cut = rng.randint(0, len(pairs))
    return Task("other", "elsewhere", "f", tuple(pairs[:cut]), tuple(pairs[cut:]))


def same_by_brute_force(first: Task, second: Task) -> bool:
    """Tries every symmetry and order, and whether colours then match one to one."""
    if len(first.train) != len(second.train):
        return False
    for turn, order in itertools.product(range(8), itertools.permutations(second.train)):
        forth: dict[int, int] = {}
        back: dict[int, int] = {}
        if all(
            (a is None) == (b is None) and (a is None or b is None or _match(a, b, turn, forth, back))
            for one, two in zip(first.train, order, strict=True)
            for a, b in ((one.input, two.input), (one.output, two.output))
        ):
            return True
    return False


def _match(first: Grid, second: Grid, turn: int, forth: dict[int, int], back: dict[int, int]) -> bool:
    turned = symmetries(second.cells)[turn]
    if first.cells.shape != turned.shape:
        return False
    cells = zip(first.cells.ravel().tolist(), turned.ravel().tolist(), strict=True)
    return all(forth.setdefault(a, b) == b and back.setdefault(b, a) == a for a, b in cells)


@given(tasks(side=4, colours=10, pairs=5), st.integers(0, 2**32))
def test_a_guise_does_not_change_the_key(task: Task, seed: int) -> None:
    assert canonical_key(transformed(task, seed)) == canonical_key(task)


@settings(max_examples=300)
@given(tasks(side=2, colours=3, pairs=3), tasks(side=2, colours=3, pairs=3))
def test_keys_are_equal_exactly_when_brute_force_finds_a_way(first: Task, second: Task) -> None:
    assert (canonical_key(first) == canonical_key(second)) == same_by_brute_force(first, second)


@settings(max_examples=300)
@given(tasks(side=2, colours=4, pairs=4), st.integers(0, 2**32), st.integers(0, 2**32))
def test_one_changed_cell_in_a_guise_is_judged_as_brute_force_does(task: Task, seed: int, where: int) -> None:
    guise = transformed(Task("t", "", "", task.train, ()), seed)
    pairs = list(guise.train + guise.test)
    rng = random.Random(where)
    number = rng.randrange(len(pairs))
    cells = pairs[number].input.cells.copy()
    cells[rng.randrange(cells.shape[0]), rng.randrange(cells.shape[1])] = rng.randrange(10)
    pairs[number] = Pair(Grid(cells), pairs[number].output)
    other = Task("t", "", "", tuple(pairs), ())
    assert (canonical_key(task) == canonical_key(other)) == same_by_brute_force(task, other)


def test_the_same_symmetry_and_colours_hold_for_every_grid() -> None:
    def of(*inputs: list[list[int]]) -> bytes:
        return canonical_key(Task("t", "", "", tuple(Pair(Grid(rows), Grid([[0]])) for rows in inputs), ()))

    assert of([[1, 0]], [[2, 0]]) == of([[0, 1]], [[0, 2]])  # both flipped
    assert of([[1, 0]], [[2, 0]]) != of([[0, 1]], [[2, 0]])  # one flipped alone
    assert of([[1, 0]], [[2, 0]]) != of([[1, 0]], [[1, 0]])  # two colours made one


def test_a_hidden_output_is_not_any_output() -> None:
    known, hidden = Pair(Grid([[1]]), Grid([[1]])), Pair(Grid([[1]]), None)
    assert pair_key(known) != pair_key(hidden)


def test_a_turned_recoloured_task_with_its_test_pair_among_the_examples_is_found() -> None:
    (one,) = load_file(DATA / "folder" / "a_mirror.json", "x").tasks
    (two,) = load_file(DATA / "folder" / "b_same_but_turned.json", "x").tasks
    assert one.content_hash() != two.content_hash()
    assert canonical_key(one) == canonical_key(two)
    assert pair_key(one.test[0]) in {pair_key(pair) for pair in two.train}


def test_arc1_holds_one_task_twice() -> None:
    """The one pair of equal tasks among ARC-1's 800; any other collision would be a fault of the key."""
    tasks_ = [task for part in ("train", "eval") for task in load_arc1(part, part).tasks]
    by_key: dict[bytes, list[str]] = {}
    for task in tasks_:
        by_key.setdefault(canonical_key(task), []).append(task.task_id)
    assert [sorted(ids) for ids in by_key.values() if len(ids) > 1] == [["070dd51e", "40853293"]]


@pytest.mark.parametrize(
    "edges",
    [
        [(i, i) for i in range(10)],
        [(i, (i + 1) % 10) for i in range(10)],
        [(i, j) for i in range(10) for j in range(10)],
        [(i ^ flip, i) for i in range(10) for flip in (0, 1)],
        [(i, (i + 1) % 5) for i in range(5)]
        + [(i, i + 5) for i in range(5)]
        + [(5 + i, 5 + (i + 2) % 5) for i in range(5)],
    ],
)
def test_tasks_that_are_all_symmetry_take_no_time(edges: list[tuple[int, int]]) -> None:
    """Colours that can be exchanged freely leave up to 10! orders to look through, if none is passed over."""
    task = Task("t", "", "", tuple(Pair(Grid([[a]]), Grid([[b]])) for a, b in edges), ())
    start = time.perf_counter()
    key = canonical_key(task)
    assert time.perf_counter() - start < 2
    assert canonical_key(transformed(task, 1)) == key
