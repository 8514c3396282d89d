from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.config import DataSection
from arcslim.tasks.augment import Change, draw_change
from arcslim.tasks.content import canonical_key
from arcslim.tasks.grid import Grid
from arcslim.tasks.split import Split, build_split
from arcslim.tasks.task import Pair, Task

FAMILIES = "67a3c6ac,68b16354,25ff71a9,3c9b0459"
NONE: dict[str, Any] = {"augment_symmetry": False, "augment_colors": "none", "augment_order": False}


def section(**values: Any) -> DataSection:
    return DataSection(**(NONE | values))


def made(number: int = 0) -> Task:
    rng = np.random.default_rng(number)
    pairs = [Pair(*(Grid(rng.integers(0, 10, size).astype("int8")) for size in ((3, 4), (2, 5)))) for _ in range(4)]
    return Task(f"t{number}", "made", "f", tuple(pairs[:3]), (Pair(pairs[3].input, None), pairs[3]))


@given(st.integers(0, 7), st.permutations(range(10)), st.permutations(range(3)))
def test_a_changed_task_is_the_same_content(turn: int, colours: list[int], order: list[int]) -> None:
    task = made()
    changed = Change(turn, tuple(colours), tuple(order)).apply(task)
    assert canonical_key(changed) == canonical_key(task)
    assert (changed.source, changed.family) == (task.source, task.family)


def test_the_same_is_done_to_every_grid() -> None:
    """Of a mirrored task every grid is mirrored, the test's as well; a hidden truth stays hidden."""
    task = made()
    changed = Change(2, (0, 2, 1, *range(3, 10)), (2, 0, 1)).apply(task)
    swap = np.array([0, 2, 1, *range(3, 10)])
    before = [task.train[2], task.train[0], task.train[1], *task.test]
    for old, new in zip(before, (*changed.train, *changed.test), strict=True):
        assert new.input == Grid(swap[old.input.cells[:, ::-1]].astype("int8"))
        assert (new.output is None) == (old.output is None)
        if old.output is not None and new.output is not None:
            assert new.output == Grid(swap[old.output.cells[:, ::-1]].astype("int8"))
    assert changed.task_id == "t0~t2~c0213456789~o"


def test_nothing_is_done_where_nothing_is_asked_for() -> None:
    assert draw_change(made(), section(), 0).apply(made()) == made()


@pytest.mark.parametrize("colors", ["keep0", "all"])
def test_0_is_kept_or_not(colors: str) -> None:
    changes = [draw_change(made(n), section(augment_colors=colors), 0) for n in range(60)]
    assert all(sorted(change.colours) == list(range(10)) for change in changes)
    assert {change.turn for change in changes} == {0}
    assert len({change.colours for change in changes}) == 60
    assert ({change.colours[0] for change in changes} == {0}) == (colors == "keep0")


def test_all_8_symmetries_and_all_orders_come_up() -> None:
    changes = [draw_change(made(n), section(augment_symmetry=True, augment_order=True), 0) for n in range(300)]
    assert {(change.turn, change.order) for change in changes} == set(
        product(range(8), [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
    )


def build(**values: Any) -> Split:
    data = section(sources=(f"rearc:{FAMILIES}",), tasks=60, holdout_select=10, **values)
    return build_split(data, 3, lambda task: True)


EVERYTHING: dict[str, Any] = {"augment_symmetry": True, "augment_colors": "all", "augment_order": True}


def test_training_tasks_alone_are_changed_and_stay_what_they_are() -> None:
    plain, changed = build(), build(**EVERYTHING)
    assert changed.select == plain.select
    assert changed.counts == plain.counts
    assert [canonical_key(task) for task in changed.train] == [canonical_key(task) for task in plain.train]
    assert sum(one.train != other.train for one, other in zip(changed.train, plain.train, strict=True)) > 55
    assert build(**EVERYTHING) == changed


def test_no_changed_task_shows_a_held_out_pair() -> None:
    split = build(**EVERYTHING)
    secret = {task.test[0].key() for task in split.select}
    assert not any(pair.key() in secret for task in split.train for pair in (*task.train, *task.test))


def test_a_task_that_fits_in_no_other_way_stays_as_it_was() -> None:
    plain = build()
    known = {task.train[0].input for task in plain.train}
    data = section(sources=(f"rearc:{FAMILIES}",), tasks=60, holdout_select=0, augment_colors="all")
    split = build_split(data, 3, lambda task: task.train[0].input in known)
    assert all(task.train[0].input in known for task in split.train)
    assert "stay as they were" in split.notes[-1]
