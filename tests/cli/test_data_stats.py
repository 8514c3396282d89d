from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recipes.made import arcslim, write_preset


def test_counts_lengths_and_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("data", "stats", "--preset", write_preset(tmp_path), "--tasks", "20") == 0
    said = capsys.readouterr().out
    assert "compact grids" in said and "spaced grids" in said
    assert len(re.findall(r"rearc +20 +\d+ +\d+ +20 +20 +20 +20", said)) == 2
    assert "100%" in said and "█" in said
    (read, kept) = re.search(r"read (\d+), kept (\d+)", said).groups()  # type: ignore[union-attr]
    assert int(kept) == 20 <= int(read)
    assert "trivial, by rule" in said


def test_rows_and_tasks_are_measured_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"prompt": "7?", "completion": "<think>\\nso\\n</think>\\n7"}\n')
    assert arcslim("data", "stats", "rearc:67a3c6ac", file) == 2
    assert "two commands" in capsys.readouterr().err
    assert arcslim("data", "stats", file) == 0
    assert "gets loss" in capsys.readouterr().out
