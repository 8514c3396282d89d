"""Must show 3 of the data issue, as a user would meet it: a held-out task, turned and recoloured, put into training."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from arcslim.tasks.arc import load_file
from arcslim.tasks.built import read_built
from arcslim.tasks.task import Pair, Task
from tests.recipes.made import arcslim

TINY = ("--preset", "cpu", "--model", "tiny")
NO_MORE = ("data.holdout_select=0", "data.holdout_test=0", "data.holdout_arc1=0", "data.holdout_families=[]")
SETS = [word for knob in NO_MORE for word in ("--set", knob)]


def write_tasks(path: Path, *tasks: dict[str, Any]) -> Path:
    path.write_text(json.dumps({f"task{number}": task for number, task in enumerate(tasks)}))
    return path


def mirrored(number: int) -> dict[str, Any]:
    """A task that honest thinking explains, so that SFT has a row of it."""
    rng = random.Random(number)
    grids = [[[rng.randrange(10) for _ in range(4)] for _ in range(3)] for _ in range(3)]
    pairs = [{"input": grid, "output": [row[::-1] for row in grid]} for grid in grids]
    return {"train": pairs[:2], "test": pairs[2:]}


def disguised(task: dict[str, Any]) -> dict[str, Any]:
    """Upside down, its colours moved on by one, its examples in another order."""

    def grid(rows: list[list[int]]) -> list[list[int]]:
        return [[(cell + 1) % 10 for cell in row] for row in rows[::-1]]

    pairs = [{part: grid(rows) for part, rows in pair.items()} for pair in (*task["train"], *task["test"])]
    return {"train": pairs[1::-1], "test": pairs[2:]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """What is held out, and what is to be trained on: one task of it is a held-out one in disguise."""
    held = write_tasks(tmp_path / "held.json", mirrored(6), mirrored(7))
    return held, write_tasks(tmp_path / "mine.json", mirrored(8), disguised(mirrored(7)), *map(mirrored, range(9, 19)))


def test_check_finds_it(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    held, mine = files
    assert arcslim("data", "check", mine, "--held-out", held) == 0
    said = capsys.readouterr().out
    assert "leak: mine.json: task1: is held out as held.json: task1: recoloured" in said
    assert f"{mine}: read 12, kept 11, dropped: leak 1" in said
    assert arcslim("data", "check", mine, "--held-out", held, "--strict") == 1


def test_build_and_filter_leave_it_out(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held, mine = files
    for command in (("build", "--data", mine), ("filter", mine, "--drop-trivial")):
        out = tmp_path / command[0]
        assert arcslim("data", *command, "--held-out", held, "--out", out, *SETS) == 0
        said = capsys.readouterr().out
        assert re.search(rf"{mine}: read 12, kept 11,.* held.out 1", said)
        assert "data.keep_out: 2 tasks are never trained on" in said
        built = read_built(out)
        assert {task.task_id for task in built.sets["train"]} == {
            "task0",
            *(f"task{number}" for number in range(2, 12)),
        }
        assert built.manifest["counts"][str(mine)]["held_out"] == 1
        assert built.manifest["keep_out"][0]["sha256"]


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
def test_training_leaves_it_out(
    recipe: str, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, mine = files
    monkeypatch.chdir(mine.parent)  # a long path does not fit the table
    words = (recipe, *TINY, "--data", mine.name, *SETS, "--set", f'data.keep_out=["{held.name}"]', "--dry-run")
    assert arcslim(*words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"mine\.json: read 12, kept 11,.* held.out 1", said)
    assert "data.keep_out: 2 tasks are never trained on" in said


@pytest.mark.parametrize("built_first", [True, False])
def test_the_holdout_of_a_built_folder_is_found_wherever_it_stands(
    built_first: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built, more = tmp_path / "built", tmp_path / "more.json"
    file = write_tasks(tmp_path / "some.json", *map(mirrored, range(1, 9)))
    assert arcslim("data", "build", "--data", file, "--set", "data.holdout_select=2", "--out", built) == 0
    held = read_built(built).sets["select"][0]
    write_tasks(more, disguised(as_json(held)), mirrored(9))
    sources = (built, more) if built_first else (more, built)
    capsys.readouterr()
    assert arcslim("data", "check", *sources) == 0
    assert f"leak: more.json: task0: is held out as {built}/select: {held.task_id}" in capsys.readouterr().out
    again = tmp_path / "again"
    assert arcslim("data", "build", *(word for one in sources for word in ("--data", one)), "--out", again) == 0
    assert re.search(rf"{more}: read 2, kept 1,.* held.out 1", capsys.readouterr().out)


def test_what_cannot_be_read_of_it_is_told(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held, mine = files
    (held.parent / "spoilt.json").write_text(json.dumps({"a": mirrored(7), "b": {"train": 3}}))
    spoilt = tmp_path / "spoilt.json"
    assert arcslim("data", "build", "--data", mine, "--held-out", spoilt, "--out", tmp_path / "built", *SETS) == 0
    said = capsys.readouterr().out
    assert "data.keep_out: 1 of its tasks cannot be read, so they are not kept out" in said
    assert "spoilt.json: b: not_a_task" in said


def as_json(task: Task) -> dict[str, Any]:
    def rows(pairs: tuple[Pair, ...]) -> list[dict[str, Any]]:
        return [{"input": p.input.rows(), "output": p.output.rows() if p.output else None} for p in pairs]

    return {"train": rows(task.train), "test": rows(task.test)}


def test_the_disguise_is_one(files: tuple[Path, Path]) -> None:
    """No grid of the task in disguise is a grid of the task."""
    held, mine = (load_file(path, path.name).tasks[1] for path in files)
    grids = [{pair.input for pair in (*task.train, *task.test)} for task in (held, mine)]
    assert not grids[0] & grids[1]
