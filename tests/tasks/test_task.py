from __future__ import annotations

from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

ONE, TWO, THREE = (Pair(Grid([[n]]), Grid([[n, n]])) for n in (1, 2, 3))
HIDDEN = Pair(Grid([[4]]), None)


def task(train: tuple[Pair, ...], test: tuple[Pair, ...], name: str = "t") -> Task:
    return Task(name, "here", "f", train, test)


def test_hash_forgets_the_id_and_the_order_but_not_the_role() -> None:
    assert task((ONE, TWO), (THREE,)).content_hash() == task((TWO, ONE), (THREE,), "other").content_hash()
    assert task((ONE, TWO), (THREE,)).content_hash() != task((ONE, THREE), (TWO,)).content_hash()
    assert task((ONE,), (HIDDEN,)).content_hash() != task((ONE,), (Pair(HIDDEN.input, Grid([[0]])),)).content_hash()


def test_for_each_test_asks_one_thing_at_a_time() -> None:
    whole = task((ONE,), (TWO, THREE, HIDDEN))
    parts = list(whole.for_each_test())
    assert [part.task_id for part in parts] == ["t#0", "t#1", "t#2"]
    assert [part.test for part in parts] == [(TWO,), (THREE,), (HIDDEN,)]
    assert all(part.train == whole.train and part.family == "f" and part.source == "here" for part in parts)


def test_a_task_with_one_test_keeps_its_id() -> None:
    single = task((ONE,), (TWO,))
    assert list(single.for_each_test()) == [single]
