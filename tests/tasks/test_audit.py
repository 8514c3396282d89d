from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.errors import TaskError
from arcslim.tasks.audit import Audit, Finding
from arcslim.tasks.content import symmetries
from arcslim.tasks.grid import Grid
from arcslim.tasks.sameness import how_alike, prints_of
from arcslim.tasks.spec import parse_spec
from arcslim.tasks.task import Pair, Task
from tests.tasks.barc_made import puzzle, write_lines

DATA = Path(__file__).parents[1] / "data"


def made(number: int, pairs: int = 4) -> Task:
    rng = np.random.default_rng(number)
    some = tuple(Pair(*(Grid(rng.integers(0, 10, (3, 4)).astype("int8")) for _ in range(2))) for _ in range(pairs))
    return Task(f"made-{number}", "made", f"made-{number}", some[:-1], some[-1:])


def changed(task: Task, turn: int, colours: list[int], order: list[int]) -> Task:
    table = np.array(colours, dtype="int8")

    def grid(one: Grid) -> Grid:
        return Grid(table[symmetries(one.cells)[turn]])

    pairs = [Pair(grid(p.input), grid(p.output)) for p in (*task.train, *task.test) if p.output is not None]
    moved = [pairs[i] for i in order]
    return Task("other", "other", "other", tuple(moved[: len(task.train)]), tuple(moved[len(task.train) :]))


def write(path: Path, *tasks: Task) -> Path:
    """A collection, as Kaggle's."""

    def rows(pairs: tuple[Pair, ...]) -> list[Any]:
        return [{"input": p.input.rows(), "output": p.output.rows() if p.output else None} for p in pairs]

    content = {f"{n}": {"train": rows(task.train), "test": rows(task.test)} for n, task in enumerate(tasks)}
    path.write_text(json.dumps(content))
    return path


def look(*specs: object, held: tuple[object, ...] = ()) -> tuple[Audit, list[Finding]]:
    audit, found = Audit(4), []
    for spec in held:
        found += audit.hold(parse_spec(str(spec)))
    for spec in specs:
        audit.hold_brought(parse_spec(str(spec)))
    for spec in specs:
        found += audit.look(parse_spec(str(spec)))
    for looked in audit.looked:
        counts = looked.as_dict()
        assert looked.drawn or counts.pop("read") == sum(counts.values())
    return audit, found


SAME = list(range(10))
SHIFTED = [*range(1, 10), 0]


@pytest.mark.parametrize(
    ("turn", "colours", "order", "how"),
    [
        (0, SAME, [0, 1, 2, 3], "the same pairs"),
        (0, SAME, [2, 3, 0, 1], "in another order"),
        (5, SAME, [0, 1, 2, 3], "turned or mirrored"),
        (3, SAME, [3, 2, 1, 0], "turned or mirrored"),
        (0, SHIFTED, [0, 1, 2, 3], "recoloured"),
        (6, SHIFTED, [1, 0, 3, 2], "recoloured"),
    ],
)
def test_it_finds_the_same_task_and_says_how(
    tmp_path: Path, turn: int, colours: list[int], order: list[int], how: str
) -> None:
    """Must show 3 of the data issue: a holdout task, turned and recoloured, put into training: found."""
    held = write(tmp_path / "held.json", made(1), made(2))
    mine = write(tmp_path / "mine.json", made(3), changed(made(2), turn, colours, order))
    audit, (leak,) = look(mine, held=(held,))
    assert (leak.what, leak.place) == ("leak", "mine.json: 1")
    assert leak.words == f"is held out as held.json: 1: {how}"
    assert (audit.looked[0].usable, audit.looked[0].leaks, len(audit.held)) == (1, 1, 2)
    audit, (twice,) = look(held, mine)
    assert (twice.what, twice.words) == ("duplicate", f"is held.json: 1: {how}")


@given(st.integers(0, 7), st.permutations(range(10)), st.permutations(range(4)))
def test_any_turned_recoloured_and_reordered_task_is_the_same(turn: int, colours: list[int], order: list[int]) -> None:
    one, other = prints_of(made(7)), prints_of(changed(made(7), turn, colours, order))
    assert one[0] == other[0] != prints_of(made(8))[0]
    assert how_alike(one, other) in ("recoloured", "turned or mirrored", "in another order", "the same pairs")


def test_a_held_out_pair_among_the_examples_is_found(tmp_path: Path) -> None:
    held, other = made(1), made(2)
    shows = Task("x", "x", "x", (other.train[0], held.test[0], other.train[1]), other.test)
    _, (leak,) = look(write(tmp_path / "mine.json", shows), held=(write(tmp_path / "held.json", held),))
    assert leak.words == "shows a pair of held.json: 0, which is held out"


def test_one_test_of_a_task_with_two_is_the_same_task(tmp_path: Path) -> None:
    one = made(1)
    two = Task("x", "x", "x", one.train, (*one.test, *made(2).test))
    _, (found,) = look(write(tmp_path / "two.json", two), write(tmp_path / "one.json", one))
    assert found.words == "is two.json: 0: a test of it or with it"


def test_what_cannot_be_read_has_its_place_and_reason(tmp_path: Path) -> None:
    lines = [puzzle(1), "nonsense", puzzle(1), {"examples": []}]
    audit, found = look(f"barc:{write_lines(tmp_path / 'some.jsonl', lines)}", DATA / "folder")
    assert [(item.what, item.place) for item in found[:3]] == [
        ("malformed", "some.jsonl:2"),
        ("duplicate", "some.jsonl:3"),
        ("malformed", "some.jsonl:4"),
    ]
    assert found[0].words.startswith("not_json: column 1")
    assert {item.place.rpartition("/")[2] for item in found if item.words.startswith("ragged")} == {"ragged.json"}
    assert audit.looked[1].malformed.total() == 12


def test_a_source_without_any_use_is_told_and_the_others_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    audit, found = look(tmp_path / "empty.json", write(tmp_path / "mine.json", made(1)))
    assert [(item.place, item.words) for item in found] == [(str(tmp_path / "empty.json"), "empty: an empty file")]
    assert [looked.usable for looked in audit.looked] == [0, 1]
    with pytest.raises(TaskError, match="no such"):
        look(tmp_path / "nowhere.json")


def test_rows_of_traces_are_looked_at_too(tmp_path: Path) -> None:
    row = {"prompt": "a", "completion": "b"}
    path = write_lines(tmp_path / "rows.jsonl", [row, "[1]", {"completion": "b", "prompt": "a"}, {"prompt": "c"}])
    audit, found = look(path)
    assert [(item.what, item.place) for item in found] == [
        ("malformed", "rows.jsonl:2"),
        ("duplicate", "rows.jsonl:3"),
    ]
    assert audit.looked[0].usable == 2


def test_a_generator_is_drawn_from_and_has_nothing_to_read() -> None:
    audit, found = look("rearc")
    assert (audit.looked[0].drawn, found) == (True, [])


def test_real_arc_leaks() -> None:
    """ARC-1's own parts share a task and a pair: known to nobody who goes by ids."""
    _, found = look("arc1:train", held=("arc1:eval",))
    assert {(item.place, item.words) for item in found} == {
        ("arc1:train: 40853293", "is held out as arc1:eval: 070dd51e: the same pairs"),
        ("arc1:train: caa06a1f", "shows a pair of arc1:eval: 50a16a69, which is held out"),
    }
