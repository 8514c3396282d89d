from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.recipes.made import arcslim, write_preset

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
def test_a_preview_in_the_terminal_as_html_and_as_pictures(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset, page, folder = write_preset(tmp_path), tmp_path / "page.html", tmp_path / "pictures"
    words = ("--preset", str(preset), "--recipe", recipe, "-n", "2", "--html", str(page), "--png", str(folder))
    assert arcslim("data", "preview", *words) == 0
    said = capsys.readouterr().out
    assert "train-0" in said and "train-1" in said and "train-2" not in said
    assert "⟦<think>⏎" in said, "the prefill is marked without colours too"
    assert ("⟪" in said) == (recipe == "sft"), "and so is what gets loss"
    (tokens,) = re.findall(r"(\d+) token ids", said)[:1]
    assert int(tokens) > 50
    assert "read, no loss:" in said and "the prefill:" in said
    html = page.read_text()
    assert html.startswith("<!DOCTYPE html>") and html.count("<section>") == 2 and "<svg" in html
    assert f"{tokens} token ids" in html
    pictures = sorted(folder.iterdir())
    assert len(pictures) == 2 and all(file.read_bytes().startswith(PNG) for file in pictures)


def test_a_source_that_is_not_there_and_a_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert arcslim("data", "preview", "barc:no-such.jsonl") == 2
    assert "no-such.jsonl" in capsys.readouterr().err
    preset = write_preset(tmp_path)
    assert arcslim("data", "preview", "--preset", str(preset), "--html", str(tmp_path / "no" / "page.html")) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_the_largest_grids_are_not_cropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = [[cell % 9 + 1 for cell in range(30)]] * 30
    pairs = [{"input": wide, "output": [[*row[:-1], number] for row in wide]} for number in range(3)]
    other = [{"input": [[number]], "output": [[number, 1]]} for number in range(3)]
    for name, some in (("wide", pairs), ("other", other)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"train": some[:2], "test": some[2:]}))
    assert arcslim("data", "preview", tmp_path, "--set", "data.holdout_select=0") == 0
    said = capsys.readouterr().out
    assert "in 30×30" in said and "…" not in said.split("<|im_start|>")[0]
