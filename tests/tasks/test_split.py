from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.config import DataSection
from arcslim.errors import DataError, InputError, TaskError
from arcslim.tasks.content import canonical_key
from arcslim.tasks.mix import shares
from arcslim.tasks.split import Split, build_split
from arcslim.tasks.task import Task

DATA = Path(__file__).parents[1] / "data"
FAMILIES = "67a3c6ac,68b16354,25ff71a9,3c9b0459"
SETS = ("train", "select", "test", "test_families", "test_arc1")


def everything(task: Task) -> bool:
    return True


def small(task: Task) -> bool:
    return sum(p.input.cells.size + (0 if p.output is None else p.output.cells.size) for p in task.train) < 300


def build(seed: int = 0, fits: Any = everything, **values: Any) -> Split:
    values.setdefault("sources", (f"rearc:{FAMILIES}",))
    values.setdefault("tasks", 40)
    values.setdefault("holdout_select", 0)
    return build_split(DataSection(**values), seed, fits)


def write_tasks(folder: Path, number: int, seed: int = 0) -> Path:
    rng = random.Random(seed)

    def grid() -> list[list[int]]:
        return [[rng.randrange(10) for _ in range(4)] for _ in range(4)]

    for i in range(number):
        pairs = [{"input": grid(), "output": grid()} for _ in range(3)]
        (folder / f"{seed}_{i:03}.json").write_text(json.dumps({"train": pairs[:2], "test": pairs[2:]}))
    return folder


def held_out(split: Split) -> list[Task]:
    return [task for name in SETS[1:] for task in getattr(split, name)]


def ids(tasks: tuple[Task, ...]) -> list[str]:
    return [task.task_id for task in tasks]


def assert_no_leak(split: Split) -> None:
    keys = {name: {canonical_key(task) for task in getattr(split, name)} for name in SETS}
    for i, one in enumerate(SETS):
        assert len(keys[one]) == len(getattr(split, one))
        for other in SETS[i + 1 :]:
            assert not keys[one] & keys[other], (one, other)
    secret = {task.test[0].key() for task in held_out(split)}
    assert not any(pair.key() in secret for task in split.train for pair in task.train + task.test)


def assert_all_accounted_for(split: Split) -> None:
    for name, counts in split.counts.items():
        assert counts["read"] == sum(number for reason, number in counts.items() if reason != "read"), name
        assert all(number >= 0 for number in counts.values())
    kept = sum(counts["kept"] for counts in split.counts.values())
    assert kept == len(split.train) + len(held_out(split))


def test_rearc_alone() -> None:
    split = build(holdout_select=12, holdout_test=8)
    assert [len(getattr(split, name)) for name in SETS] == [40, 12, 8, 0, 0]
    assert {task.family for task in split.train} == set(FAMILIES.split(","))
    assert {task.family for task in held_out(split)} <= {task.family for task in split.train}
    assert_no_leak(split)
    assert_all_accounted_for(split)
    assert split.refusals[f"rearc:{FAMILIES}"]["side_under_min"] > 0


def test_the_same_seed_gives_the_same_split_and_another_another() -> None:
    values: dict[str, Any] = {"holdout_select": 6, "holdout_test": 6}
    assert build(**values) == build(**values)
    assert ids(build(1, **values).test) != ids(build(**values).test)


def test_holdouts_do_not_depend_on_the_number_of_training_tasks() -> None:
    few, many = build(tasks=5, holdout_select=6, holdout_test=6), build(tasks=60, holdout_select=6, holdout_test=6)
    assert (few.select, few.test) == (many.select, many.test)
    assert few.train == many.train[:5]


def test_holdouts_of_files_do_not_depend_on_names_order_or_training_tasks(tmp_path: Path) -> None:
    folder = write_tasks(tmp_path, 20)
    before = build(sources=(str(folder),), tasks=4, holdout_select=5)
    for i, path in enumerate(sorted(folder.glob("*.json"), reverse=True)):
        path.rename(folder / f"renamed_{i:03}.json")
    after = build(sources=(str(folder),), tasks=400, holdout_select=5)
    assert [canonical_key(task) for task in before.select] == [canonical_key(task) for task in after.select]
    assert len(after.train) == 15
    assert "15 training tasks instead of data.tasks = 400" in after.notes[0]


def test_held_out_generators_are_never_trained_on() -> None:
    split = build(sources=(f"rearc:{FAMILIES}",), holdout_families=("b1948b0a", "0d3d703e"), holdout_family_tasks=7)
    assert len(split.test_families) == 7
    assert {task.family for task in split.test_families} == {"b1948b0a", "0d3d703e"}
    assert not {task.family for task in split.train} & {"b1948b0a", "0d3d703e"}
    assert_no_leak(split)
    assert_all_accounted_for(split)


def test_all_generators_are_without_the_held_out_ones() -> None:
    split = build(
        sources=("rearc",), tasks=420, holdout_families=("b1948b0a",), holdout_family_tasks=1, pairs=1, attempts=20
    )
    trained = {task.family for task in split.train}
    assert len(trained) > 200
    assert "b1948b0a" not in trained
    assert any("generators give nothing within the limits" in note for note in split.notes)


def test_arc1_is_tested_apart_where_it_fits() -> None:
    split = build(fits=small, holdout_arc1=30)
    assert len(split.test_arc1) == 30
    assert all(small(task) for task in split.test_arc1)
    counts = split.counts["arc1 (tested apart)"]
    assert counts["kept"] == 30
    assert counts["duplicate"] == 1
    assert counts["too_long"] > 200
    assert_all_accounted_for(split)


def test_arc1_tasks_that_are_tested_are_not_trained_on() -> None:
    split = build(sources=("arc1:eval",), tasks=1000, holdout_arc1=40, holdout_select=20)
    assert split.counts["arc1:eval"]["held_out"] > 0
    assert_no_leak(split)
    assert_all_accounted_for(split)


def test_sources_are_mixed_by_weight(tmp_path: Path) -> None:
    folder = write_tasks(tmp_path, 60)
    split = build(sources=(f"{folder}=1", f"rearc:{FAMILIES}=3"), tasks=40, holdout_select=8)
    for tasks, part in ((split.train, 10), (split.select, 2)):
        assert sum(task.source != "rearc" for task in tasks) == part
    first = split.train[:8]
    assert sum(task.source != "rearc" for task in first) == 2, "spread evenly, not one source after the other"


def test_a_small_file_beside_generators_is_not_held_out_whole(tmp_path: Path) -> None:
    folder = write_tasks(tmp_path, 4)
    split = build(sources=(str(folder), f"rearc:{FAMILIES}"), tasks=10, holdout_select=10)
    assert sum(task.source != "rearc" for task in split.select) == 2
    assert len(split.select) == 10
    assert sum(task.source != "rearc" for task in split.train) == 2
    assert len(split.train) == 10


def test_every_row_of_a_faulty_folder_is_accounted_for() -> None:
    split = build(sources=(str(DATA / "folder"),))
    assert split.counts[str(DATA / "folder")] == {
        "read": 18,
        "kept": 4,
        "bad_colour": 1,
        "duplicate": 1,
        "encoding": 1,
        "missing_key": 1,
        "no_pairs": 1,
        "no_truth": 1,
        "not_an_integer": 2,
        "not_finite": 1,
        "not_json": 1,
        "ragged": 1,
        "repeated_key": 1,
        "too_large": 1,
        "unknown_key": 1,
    }
    assert_all_accounted_for(split)
    assert len(split.refused) == 12


def test_long_prompts_are_left_out_and_counted() -> None:
    """Case 17: prompts over the limit are counted and left out."""
    split = build(sources=("arc1:train",), fits=small, tasks=1000)
    counts = split.counts["arc1:train"]
    assert counts["too_long"] > 100
    assert all(small(task) for task in split.train)
    assert_all_accounted_for(split)


def test_the_tests_of_one_task_stay_on_one_side(tmp_path: Path) -> None:
    rng = random.Random(0)

    def pair() -> dict[str, list[list[int]]]:
        return {side: [[rng.randrange(10) for _ in range(4)] for _ in range(4)] for side in ("input", "output")}

    for i in range(6):
        (tmp_path / f"{i}.json").write_text(json.dumps({"train": [pair()], "test": [pair() for _ in range(3)]}))
    split = build(sources=(str(tmp_path),), holdout_select=4)
    held = {task.family for task in split.select}
    assert len(held) == 2
    assert not held & {task.family for task in split.train}
    assert split.counts[str(tmp_path)] == {"read": 18, "kept": 16, "rest_of_a_task": 2}


def test_a_puzzle_with_other_examples_is_not_trained_on(tmp_path: Path) -> None:
    """A held-out test pair that is an example of another file's task is a leak; so is any pair in common."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    write_tasks(tmp_path / "a", 4, seed=1)
    extra = json.loads((write_tasks(tmp_path, 1, seed=2) / "2_000.json").read_text())["train"][0]
    for i, path in enumerate(sorted((tmp_path / "a").glob("*.json"))):
        task = json.loads(path.read_text())
        extra["output"][0] = [i, i, i + 1, i + 2]
        swapped = {"train": [task["test"][0], extra], "test": [task["train"][0]]}
        (tmp_path / "b" / path.name).write_text(json.dumps(swapped))
    split = build(sources=(str(tmp_path / "a"), str(tmp_path / "b")), holdout_select=2)
    assert_no_leak(split)
    assert_all_accounted_for(split)
    assert len(split.train) == 4
    assert sum(counts.get("shows_held_out_pair", 0) for counts in split.counts.values()) == 2


def test_the_same_task_in_two_sources_counts_once(tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_bytes((DATA / "folder" / "b_same_but_turned.json").read_bytes())
    split = build(sources=(str(DATA / "mirror.json"), str(tmp_path)))
    assert len(split.train) == 1
    assert split.counts[str(tmp_path)] == {"read": 1, "kept": 0, "duplicate": 1}


def test_too_many_held_out_is_an_error_with_the_numbers(tmp_path: Path) -> None:
    folder = write_tasks(tmp_path, 10)
    with pytest.raises(DataError, match=r"holdout_select asks for 11 tasks, but the sources give 10"):
        build(sources=(str(folder),), holdout_select=11)
    with pytest.raises(DataError, match=r"lower data\.holdout_select"):
        build(sources=(str(folder),), holdout_select=10)  # nothing would be left to train on
    assert len(build(sources=(str(folder),), holdout_select=9).train) == 1


def test_too_few_small_arc1_tasks_is_an_error_with_the_number() -> None:
    with pytest.raises(DataError, match=r"but 0 fit .*\n.*lower data.holdout_arc1 to 0"):
        build(fits=lambda task: task.source == "rearc", holdout_arc1=5)


def test_nothing_usable_is_an_error_with_the_reasons() -> None:
    """Case 11, in the data: a source of which no row has a truth is an error at the start, not a reward of 0."""
    with pytest.raises(DataError, match=r"no task to train on; .*no_truth 1"):
        build(sources=(str(DATA / "hidden.json"),))
    with pytest.raises(DataError, match=r"too_long"):
        build(sources=(str(DATA / "mirror.json"),), fits=lambda task: False)
    with pytest.raises(DataError, match=r"no task to train on"):
        build(fits=lambda task: False)


def test_a_generator_that_gives_nothing_does_not_hang() -> None:
    with pytest.raises(DataError, match="side_under_min"):
        build(min_side=29, max_side=30, difficulty_max=0.05, attempts=20)


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"sources": ("nowhere/tasks",)}, TaskError, "no such file or folder"),
        ({"sources": (str(DATA / "mirorr.json"),)}, TaskError, "mirror.json"),
        ({"sources": ("rearc:zzz",)}, InputError, "zzz"),
        ({"sources": ("arc1", "arc1=2")}, InputError, "given twice"),
        ({"sources": ("rearc", f"rearc:{FAMILIES}")}, InputError, "in two data sources"),
        ({"holdout_families": ("67a3c6ac",)}, InputError, "trained on .* and held out"),
        ({"holdout_families": ("zzz",)}, InputError, "zzz"),
        ({"sources": (str(DATA / "folder" / "ragged.json"),)}, TaskError, "ragged.json: train pair 2, input: row 3"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_words(values: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build(**values)


def test_how_far_copying_would_get(tmp_path: Path) -> None:
    pair = {"input": [[1, 2], [3, 4]], "output": [[4, 3], [2, 1]]}
    other = {"input": [[5, 5]], "output": [[5]]}
    tests = [
        {"input": [[1, 2]], "output": [[1, 2]]},  # the copy is right
        {"input": [[1, 2]], "output": [[1, 1]]},  # half of it is
        {"input": [[1, 2]], "output": [[1, 2, 3]]},  # the size is wrong
        {"input": [[3]], "output": [[7]]},  # nothing is right
    ]
    (tmp_path / "t.json").write_text(json.dumps({"train": [pair, other], "test": tests}))
    split = build(sources=(str(tmp_path),))
    assert split.copy_rate == {"train": 0.25, "train/cells": 0.375}


def test_identity_is_left_out_of_generated_tasks_only(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        json.dumps({"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[1, 2]], "output": [[1, 2]]}]})
    )
    split = build(sources=(str(tmp_path), f"rearc:{FAMILIES}"), tasks=10)
    assert sum(task.source != "rearc" for task in split.train) == 1
    assert split.copy_rate["train"] == 0.1


def weights_and_rooms() -> st.SearchStrategy[tuple[list[float], list[int | None]]]:
    return st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.lists(st.floats(0.01, 100), min_size=n, max_size=n),
            st.lists(st.none() | st.integers(0, 50), min_size=n, max_size=n),
        )
    )


@given(st.integers(0, 200), weights_and_rooms())
def test_shares_add_up_and_keep_within_their_rooms(number: int, sources: tuple[list[float], list[int | None]]) -> None:
    weights, rooms = sources
    given_ = shares(number, weights, rooms)
    assert all(part >= 0 and (room is None or part <= room) for part, room in zip(given_, rooms, strict=True))
    limit = number if None in rooms else min(number, sum(room or 0 for room in rooms))
    assert sum(given_) == limit
    if all(room is None for room in rooms):
        ideal = [number * weight / sum(weights) for weight in weights]
        assert all(abs(part - share) < 1 + 1e-6 for part, share in zip(given_, ideal, strict=True))


def test_what_is_to_be_tested_on_is_never_trained_on(tmp_path: Path) -> None:
    mine, turned = tmp_path / "mine", tmp_path / "turned"
    mine.mkdir()
    turned.mkdir()
    write_tasks(mine, 6)
    for path in sorted(mine.glob("*.json"))[:2]:
        content = json.loads(path.read_text())
        for pair in (*content["train"], *content["test"]):
            for part in pair:
                pair[part] = [[(cell + 1) % 10 for cell in row] for row in pair[part][::-1]]
        (turned / path.name).write_text(json.dumps(content))
    values: dict[str, Any] = {"sources": (str(mine),), "tasks": 10}
    assert len(build(**values).train) == 6
    split = build(keep_out=(str(turned),), **values)
    assert len(split.train) == 4
    assert split.counts[str(mine)]["held_out"] == 2
    with pytest.raises(InputError, match="keep_out"):
        build(keep_out=("rearc",), **values)
