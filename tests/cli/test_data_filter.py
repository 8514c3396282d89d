from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from arcslim.cli.data_filter import read_keep
from arcslim.errors import InputError
from arcslim.tasks.built import read_built
from tests.recipes.made import arcslim

TRIVIAL = {"train": [{"input": [[7]], "output": [[7]]}], "test": [{"input": [[8]], "output": [[8]]}]}
SOUND = {"train": [{"input": [[7, 1]], "output": [[1, 7]]}], "test": [{"input": [[8, 2]], "output": [[2, 8]]}]}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, task in (("copied", TRIVIAL), ("mirrored", SOUND)):
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / f"{name}.json").write_text(json.dumps(task))
    return tmp_path / "tasks"


def test_trivial_tasks_are_left_out_named_drawn_and_what_is_kept_can_be_trained_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, pictures = tmp_path / "kept", tmp_path / "pictures"
    assert arcslim("data", "filter", folder, "--drop-trivial", "--out", out, "--png", pictures) == 0
    said = capsys.readouterr().out
    assert re.search(r"output_is_input +1 +copied", said) and re.search(r"input_repeated +0", said)
    assert "kept 1 of 2 tasks; dropped: trivial_output_is_input 1" in said
    assert (pictures / "trivial.png").read_bytes().startswith(PNG)
    built = read_built(out)
    assert [task.task_id for task in built.sets["train"]] == ["mirrored"]
    assert built.manifest["filter"]["counts"] == {"read": 2, "kept": 1, "trivial_output_is_input": 1}
    rows = [json.loads(line) for line in (out / "pass_rates.jsonl").read_text().splitlines()]
    assert {row["task_id"]: row["verdict"] for row in rows} == {"copied": "trivial_output_is_input", "mirrored": "kept"}

    assert arcslim("data", "filter", folder, "--drop-trivial", "--out", out) == 2
    assert "--force" in capsys.readouterr().err
    assert arcslim("data", "stats", out) == 0
    assert "read 1, kept 1" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_held_out_sets_that_a_built_folder_brings_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built, kept = tmp_path / "built", tmp_path / "kept"
    sets = ("--set", "data.tasks=6", "--set", "data.holdout_select=3")
    assert arcslim("data", "build", "--data", "rearc:67a3c6ac", *sets, "--out", built) == 0
    assert arcslim("data", "filter", built, "--drop-trivial", "--out", kept) == 0
    before, after = read_built(built).sets, read_built(kept).sets
    assert [task.task_id for task in after["select"]] == [task.task_id for task in before["select"]]
    assert len(after["train"]) == 6


@pytest.mark.parametrize("text", ["0.9:0.05", "0.1", "a:b", "0.1:1.5", "-1:0.5", "nan:1", "", ":"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="range of pass rates"):
        read_keep(text)


def test_nothing_to_filter_by(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_keep("0.05:0.9") == (0.05, 0.9) and read_keep("0:1") == (0.0, 1.0)
    assert arcslim("data", "filter", folder) == 2
    assert "--drop-trivial" in capsys.readouterr().err
    assert arcslim("data", "filter", folder, "--model", "no/../such") == 2


def test_tasks_are_filtered_as_they_are_though_a_run_would_turn_and_recolour_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, sets = tmp_path / "kept", ("augment_symmetry=true", "augment_colors=all", "augment_order=true")
    words = [word for knob in sets for word in ("--set", f"data.{knob}")]
    assert arcslim("data", "filter", folder, "--drop-trivial", *words, "--out", out) == 0
    (kept,) = read_built(out).sets["train"]
    assert [pair.input.rows() for pair in (*kept.train, *kept.test)] == [[[7, 1]], [[8, 2]]]
