"""A preview shows what training gets, because training's own functions make it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import Config
from arcslim.errors import DataError
from arcslim.presets import load_config
from arcslim.recipes.prepare import prepare
from arcslim.recipes.preview import in_turn, preview
from arcslim.recipes.sft import prefill
from arcslim.recipes.sft_prepare import prepare_sft
from arcslim.recipes.sft_rows import IGNORED, to_dataset
from tests.real_tokenizers import real_tokenizer
from tests.recipes.made import write_preset


def small(folder: Path, *sets: str) -> Config:
    two = ('data.sources=["rearc:b1948b0a,67a3c6ac"]', "data.tasks=12")
    return load_config(str(write_preset(folder, *two, *sets))).config


def test_grpo_prompts_are_the_first_of_the_whole_run(tmp_path: Path) -> None:
    """Only as many tasks are drawn as are shown: they are those that the whole run would begin with."""
    config = small(tmp_path)
    shown = preview(config, real_tokenizer("tiny"), "grpo", 3)
    whole = prepare(config, real_tokenizer("tiny"))
    assert [one.ids for one in shown.examples] == [asked.prompt.token_ids for asked in whole.train[:3]]
    assert [one.task for one in shown.examples] == [asked.task for asked in whole.train[:3]]
    assert "".join(piece.text for piece in shown.examples[0].pieces) == whole.train[0].prompt.text
    assert all(one.count("trained") == 0 and one.count("prefill") > 0 and one.follows for one in shown.examples)
    assert any("first 3 of 12" in note for note in shown.notes)


def test_sft_rows_are_those_that_the_trainer_is_given(tmp_path: Path) -> None:
    config = small(tmp_path)
    shown = preview(config, real_tokenizer("tiny"), "sft", 3)
    tokenizer = real_tokenizer("tiny")
    prefill(config, tokenizer)
    trained = to_dataset(prepare_sft(config, tokenizer).train)
    for one, row in zip(shown.examples, trained, strict=False):
        assert list(one.ids) == row["input_ids"]
        roles = [piece.role for piece in one.pieces for _ in piece.ids]
        assert [role == "trained" for role in roles] == [label != IGNORED for label in row["labels"]]
        assert not one.follows


def test_rows_of_a_file_and_tasks_are_shown_in_turn(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n}?", "completion": f"<think>\nIt is {n}.\n</think>\n\n{n}"} for n in range(9)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = small(tmp_path, f'data.sources=["rearc:b1948b0a", "{file}"]')
    shown = preview(config, real_tokenizer("tiny"), "sft", 4)
    assert [one.source for one in shown.examples] == ["rearc", str(file)] * 2
    text_row = shown.examples[1]
    assert text_row.task is None
    said = "".join(piece.text for piece in text_row.pieces if piece.role == "trained")
    assert said.startswith("It is ") and said.count("</think>") == 1


def test_what_would_stop_the_run_stops_the_preview(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        preview(small(tmp_path, "prompt.max_tokens=16"), real_tokenizer("tiny"), "grpo", 3)


def test_in_turn() -> None:
    items: list[Any] = ["a1", "a2", "a3", "b1", "c1", "c2"]
    assert in_turn(items, 5, lambda item: item[0]) == ["a1", "b1", "c1", "a2", "c2"]
    assert in_turn(items, 9, lambda item: item[0]) == ["a1", "b1", "c1", "a2", "c2", "a3"]
