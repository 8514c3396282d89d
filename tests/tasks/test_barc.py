from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.config import DataSection
from arcslim.errors import InputError, TaskError
from arcslim.tasks.arc import Refused
from arcslim.tasks.barc import parse_puzzle, read_barc
from arcslim.tasks.jsonfile import parse_json
from arcslim.tasks.split import build_split
from arcslim.tasks.task import Task
from tests.tasks.barc_made import puzzle, write_lines

SHARED = Path(__file__).parents[3] / "shared" / "data"


def parse(row: Any, pairs: int = 4) -> tuple[Task, Counter[str]]:
    passed_over = Counter[str]()
    return parse_puzzle(row, pairs, passed_over), passed_over


def with_sides(*sides: int) -> dict[str, Any]:
    return {"examples": [[[[n % 10] * side], [[n % 10] * side]] for n, side in enumerate(sides)]}


def test_four_pairs_are_three_examples_and_a_test() -> None:
    """Case 9: published puzzles often have four pairs, where data.pairs asks for four and a test."""
    row = puzzle(1)
    task, passed_over = parse(row)
    assert [pair.input.rows() for pair in (*task.train, *task.test)] == [pair[0] for pair in row["examples"]]
    assert (len(task.train), len(task.test), task.source) == (3, 1, "barc")
    assert not passed_over


def test_of_many_pairs_as_many_as_are_asked_for() -> None:
    task, _ = parse(puzzle(1, pairs=9), pairs=5)
    assert len(task.train) == 5
    assert task.test[0].input.rows() == puzzle(1, pairs=9)["examples"][5][0]


def test_a_pair_over_30_is_left_out_and_counted() -> None:
    """Case 9: BARC's own files hold grids larger than 30."""
    task, passed_over = parse(with_sides(3, 31, 4, 5))
    assert [pair.input.width for pair in (*task.train, *task.test)] == [3, 4, 5]
    assert passed_over == {"pair_too_large": 1}


def test_a_repeated_pair_would_show_the_answer() -> None:
    row = puzzle(1)
    row["examples"].append(row["examples"][0])
    task, passed_over = parse(row)
    assert len(task.train) == 3
    assert passed_over == {"repeated_pair": 1}


@pytest.mark.parametrize(
    ("row", "reason", "words"),
    [
        (with_sides(31, 31, 4, 5), "too_large", "2 usable pairs of 4, 2 over 30"),
        (with_sides(3, 4), "too_few_pairs", "3 are needed"),
        ({"examples": []}, "too_few_pairs", "0 usable pairs"),
        ({"examples": [[[[1]], [[1]]]] * 65}, "too_many_pairs", "65 pairs"),
        ({"examples": [[[[1]], [[1]]], [[[1]], [[2]]], [[[3]], [[1]]]]}, "contradiction", "example 2"),
        ({"examples": [[[[1]], [[1]], [[1]]]]}, "not_a_task", "not a list of 3"),
        ({"examples": [{"input": [[1]], "output": [[1]]}]}, "not_a_task", "not an object"),
        ({"examples": {}}, "not_a_task", "not an object"),
        ({"messages": []}, "missing_key", "'messages'"),
        ([], "not_a_task", "not a list"),
        ({"examples": [[[[1, 2], [3]], [[1]]]]}, "ragged", "example 1, input: row 2"),
        ({"examples": [[[[1]], [["1"]]]]}, "not_an_integer", "example 1, output"),
        ({"examples": [[[[10]], [[1]]]]}, "bad_colour", "example 1, input"),
        ({"examples": [[[], [[1]]]]}, "empty", "example 1, input"),
        ({"examples": [["0 1", [[1]]]]}, "not_a_grid", "example 1, input"),
    ],
)
def test_a_puzzle_that_cannot_be_used_says_why(row: Any, reason: str, words: str) -> None:
    with pytest.raises(TaskError) as caught:
        parse(row)
    assert caught.value.reason == reason
    assert words in caught.value.message


LEAVES = st.none() | st.booleans() | st.integers(-2, 40) | st.floats() | st.text(max_size=3)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner))


@given(st.fixed_dictionaries({"examples": st.lists(st.lists(JSON, max_size=3) | JSON, max_size=6)}) | JSON)
def test_any_row_is_a_task_or_a_reason(row: Any) -> None:
    try:
        task, _ = parse(parse_json(json.dumps(row)))
    except TaskError:
        pass
    else:
        assert len(task.train) >= 2


@given(st.lists(st.sampled_from([3, 30, 31, 40]), min_size=1, max_size=9, unique=False), st.integers(1, 6))
def test_no_pair_over_30_comes_through(sides: list[int], pairs: int) -> None:
    fit = sum(side <= 30 for side in sides)
    row = {"examples": [[[[n % 10] * side] * (1 + n // 10), [[1] * side]] for n, side in enumerate(sides)]}
    if fit < 3:
        with pytest.raises(TaskError):
            parse(row, pairs)
    else:
        task, passed_over = parse(row, pairs)
        assert len(task.train) == min(pairs, fit - 1)
        assert passed_over["pair_too_large"] == len(sides) - fit


def test_each_line_has_its_place(tmp_path: Path) -> None:
    rows = [
        puzzle(1),
        "",
        '{"examples": [',
        "[" * 100_000,
        '{"examples": NaN}',
        '{"a": 1, "a": 2}',
        "\ufeff[]",
        puzzle(2),
    ]
    path = write_lines(tmp_path / "some.jsonl", rows)
    read = list(read_barc(path, 4, Counter()))
    places = [(row.where, row.reason) if isinstance(row, Refused) else (row[0], "") for row in read]
    assert places == [
        ("some.jsonl:1", ""),
        ("some.jsonl:3", "not_json"),
        ("some.jsonl:4", "too_deep"),
        ("some.jsonl:5", "not_finite"),
        ("some.jsonl:6", "repeated_key"),
        ("some.jsonl:7", "not_a_task"),
        ("some.jsonl:8", ""),
    ]


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    whole = gzip.compress("".join(json.dumps(puzzle(n)) + "\n" for n in range(50)).encode())
    for name, cut in (("cut.jsonl.gz", whole[: len(whole) // 2]), ("broken.jsonl.gz", b"\x1f\x8b" + whole[2:300] * 2)):
        path = tmp_path / name
        path.write_bytes(cut)
        *tasks, last = read_barc(path, 4, Counter())
        assert isinstance(last, Refused)
        assert last.reason == "unreadable"
        assert all(not isinstance(row, Refused) or row.reason in ("not_json", "unreadable") for row in tasks)


@pytest.mark.parametrize("name", ["", "nothing.jsonl", "nothing.jsonl.gz"])
def test_a_file_without_rows_or_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    if name:
        write_lines(tmp_path / name, [])
    with pytest.raises(TaskError):
        list(read_barc(tmp_path / name, 4, Counter()))


def test_every_row_is_accounted_for(tmp_path: Path) -> None:
    """Case 9: kept and dropped make what was read."""
    turned = {"examples": [[pair[1], pair[0]] for pair in puzzle(3)["examples"]]}
    rows = [*(puzzle(n) for n in range(20)), puzzle(3), turned, with_sides(31, 31, 4, 5), "{}", "nonsense"]
    path = write_lines(tmp_path / "some.jsonl.gz", rows)
    split = build_split(DataSection(sources=(f"barc:{path}",), tasks=10, holdout_select=4), 0, lambda task: True)
    counts = split.counts[f"barc:{path}"]
    assert counts == {
        "read": 25,
        "kept": 14,
        "duplicate": 2,  # the turned one is the same, read backwards: both mirror
        "missing_key": 1,
        "not_drawn": 6,
        "not_json": 1,
        "too_large": 1,
    }
    assert (len(split.train), len(split.select)) == (10, 4)
    assert "22 of 22 puzzles have fewer examples than data.pairs 4" in split.notes[0]
    assert {item.where for item in split.refused} == {"some.jsonl.gz:23", "some.jsonl.gz:24", "some.jsonl.gz:25"}


def test_a_large_file_gives_the_same_tasks_as_if_all_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "some.jsonl", (puzzle(n % 280, side=3) for n in range(300)))
    data = DataSection(sources=(f"barc:{path}",), tasks=20, holdout_select=5)
    everything = build_split(data, 7, lambda task: True)
    monkeypatch.setattr("arcslim.tasks.sources.SPARE", 0)
    bounded = build_split(data, 7, lambda task: True)
    assert (bounded.train, bounded.select) == (everything.train, everything.select)
    counts = bounded.counts[f"barc:{path}"]
    assert counts["read"] == 300 == sum(counts.values()) - 300


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    one = write_lines(tmp_path / "one.jsonl", (puzzle(n) for n in range(30)))
    two = write_lines(tmp_path / "two.jsonl", (puzzle(29 - n) for n in range(30)))
    splits = [
        build_split(DataSection(sources=(f"barc:{path}",), tasks=9, holdout_select=3), 1, lambda task: True)
        for path in (one, two)
    ]
    assert splits[0].train == splits[1].train
    assert splits[0].select == splits[1].select


def test_no_network_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def no_network(*arguments: object, **named: object) -> None:
        assert named["streaming"] is True
        raise ConnectionError("Couldn't reach the Hub\nin any way")

    monkeypatch.setattr(datasets, "load_dataset", no_network)
    with pytest.raises(InputError) as caught:
        build_split(DataSection(sources=("barc",)), 0, lambda task: True)
    assert "Couldn't reach the Hub" in caught.value.message
    assert "barc:FILE.jsonl" in str(caught.value.hint)


def test_from_the_hub_no_more_is_read_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    read = []

    def rows() -> Any:
        for number in range(100_000):
            read.append(number)
            yield puzzle(number, side=3)

    monkeypatch.setattr(datasets, "load_dataset", lambda *arguments, **named: rows())
    split = build_split(DataSection(sources=("barc",), tasks=30, holdout_select=10), 0, lambda task: True)
    assert (len(split.train), len(split.select)) == (30, 10)
    assert len(read) == 44 == split.counts["barc"]["read"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not on this machine")
def test_the_real_files_load_with_every_row_accounted_for() -> None:
    """Must show 1 of the data issue: 200 real BARC puzzles, ARC-AGI-2's evaluation, ARC-AGI-1."""
    barc, arc2 = f"barc:{SHARED / 'barc-sample.jsonl.gz'}", f"arc2:{SHARED / 'arc-agi-2-evaluation'}"
    data = DataSection(sources=(barc, arc2, "arc1"), tasks=10_000, holdout_select=50)
    split = build_split(data, 0, lambda task: True)
    for name, counts in split.counts.items():
        assert counts["read"] == sum(number for reason, number in counts.items() if reason != "read"), name
    assert split.counts[barc] == {"read": 200, "kept": 195, "too_large": 5}
    assert split.refusals[barc] == {"pair_too_large": 3}
    assert split.counts[arc2]["read"] == 167  # tests of 120 tasks


def test_sources_are_fused_by_weight_evenly_and_the_same_each_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "some.jsonl", (puzzle(n) for n in range(60)))
    data = DataSection(sources=("rearc:67a3c6ac,68b16354=0.5", f"barc:{path}=0.5"), tasks=60, holdout_select=0)
    train = build_split(data, 0, lambda task: True).train
    sources = [task.source for task in train]
    assert sources == ["rearc", "barc"] * 30
    assert build_split(data, 0, lambda task: True).train == train
    other = data.model_copy(update={"sources": ("rearc:67a3c6ac,68b16354=3", f"barc:{path}")})
    sources = [task.source for task in build_split(other, 0, lambda task: True).train]
    assert all(sources[start : start + 4].count("barc") == 1 for start in range(0, 60, 4))
