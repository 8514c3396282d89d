from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arcslim.tasks.grid import Grid
from arcslim.tasks.leaks import HeldOut, Seen
from arcslim.tasks.task import Pair, Task


def made(number: int, tests: int = 1, source: str = "file") -> Task:
    rng = np.random.default_rng(number)
    pairs = tuple(Pair(*(Grid(rng.integers(0, 10, (3, 4)).astype("int8")) for _ in range(2))) for _ in range(3 + tests))
    return Task(f"made-{number}", source, f"made-{number}", pairs[:3], pairs[3:])


def turned(pair: Pair) -> Pair:
    assert pair.output is not None
    return Pair(*(Grid((grid.cells[::-1] + 1) % 10) for grid in (pair.input, pair.output)))


def disguised(task: Task) -> Task:
    """Turned, recoloured, under another id and in another order."""
    train, test = tuple(map(turned, task.train)), tuple(map(turned, task.test))
    return Task("other", "elsewhere", "other", train[::-1], test)


def with_pair(task: Task, pair: Pair) -> Task:
    return replace(task, train=(*task.train[:2], pair))


def test_a_disguised_task_names_the_one_that_it_is() -> None:
    held = HeldOut()
    assert [held.hold(made(number)) for number in range(5)] == [0, 1, 2, 3, 4]
    leak = held.find(disguised(made(3)))
    assert leak is not None and (leak.reason, leak.number) == ("held_out", 3)
    assert held.find(made(7)) is None
    assert len(held) == 5


def test_one_test_of_a_held_task_is_held_and_so_is_a_task_that_has_one_more() -> None:
    held = HeldOut()
    held.hold(two := made(1, tests=2))
    for one in two.for_each_test():
        assert held.holds(disguised(one))
    held = HeldOut()
    held.hold(next(iter(two.for_each_test())))
    assert held.holds(disguised(two))


@pytest.mark.parametrize("place", range(4))
def test_any_pair_of_a_task_from_a_file_is_known_in_disguise(place: int) -> None:
    held, task = HeldOut(), made(1)
    held.hold(task)
    leak = held.find(with_pair(made(2), turned((*task.train, *task.test)[place])))
    assert leak is not None and leak.reason == "shows_held_out_pair"


def test_of_a_generated_task_the_test_pair_is_known_as_it_stands() -> None:
    held, task = HeldOut(), made(1, source="rearc")
    held.hold(task)
    assert held.asks(task.test[0]) and not held.asks(task.train[0])
    leak = held.find(with_pair(made(2), task.test[0]))
    assert leak is not None and leak.reason == "shows_held_out_pair"
    assert held.find(with_pair(made(2), turned(task.test[0]))) is None
    assert held.find(with_pair(made(2), task.train[0])) is None
    assert held.holds(disguised(task)), "as a whole it is known in any disguise"


def test_a_task_whose_answer_is_hidden_is_known_by_its_examples() -> None:
    task = made(1)
    hidden = replace(task, test=(Pair(task.test[0].input, None),))
    held = HeldOut()
    held.hold(hidden)
    leak = held.find(disguised(task))
    assert leak is not None and leak.reason == "shows_held_out_pair"


def test_the_same_is_neither_held_nor_trained_on_twice() -> None:
    seen, task = Seen(), made(1, source="rearc")
    assert seen.refuse_held(task) is None
    assert seen.refuse_held(disguised(task)) == "duplicate"
    assert seen.refuse_held(replace(made(2), test=task.test)) == "duplicate"
    assert seen.refuse_trained(disguised(task)) == "held_out"
    assert seen.refuse_trained(made(3)) is None
    assert seen.refuse_trained(disguised(made(3))) == "duplicate"
    seen.common.add(made(4).test[0].key())
    assert seen.refuse_held(made(4)) == "common_pair"
