"""The planner against published figures: what docs/memory.md claims of them is held here."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from arcslim.memory.plan import ERROR_BAND
from benchmarks import memory_backtest as backtest
from benchmarks.memory_published import ARITHMETIC, FITTED, OTHER, PREDICTED, Row

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "memory.md"
ROWS = backtest.all_rows()


def row(what: str) -> Row:
    (found,) = [row for row in ROWS if what in f"{row.group}: {row.what}"]
    return found


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == FITTED], ids=lambda row: row.what)
def test_unsloths_8b_row_within_2_percent(row: Row) -> None:
    assert abs(row.error) < 0.02


def test_unsloths_70b_within_5_percent_at_80_gb_and_20_at_48() -> None:
    assert abs(row("Unsloth 70B: longest context on 80 GB").error) < 0.05
    assert abs(row("Unsloth 70B: longest context on 48 GB").error) < 0.20


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == ARITHMETIC], ids=lambda row: row.what)
def test_unsloths_grpo_account_within_2_percent(row: Row) -> None:
    assert abs(row.error) < 0.02


def test_the_median_prediction_is_within_15_percent() -> None:
    assert statistics.median(backtest.errors(PREDICTED, OTHER)) < 0.15
    assert statistics.median(backtest.errors(PREDICTED)) < 0.10
    assert len(backtest.errors(PREDICTED)) >= 10


def test_the_error_band_holds_every_prediction_of_trainers_like_ours() -> None:
    assert backtest.errors(PREDICTED)[-1] <= ERROR_BAND


def test_every_row_is_told_with_its_source_and_verdict() -> None:
    lines = [line for line in backtest.table().splitlines() if line.startswith("| ")][2:]
    assert len(lines) == len(ROWS)
    assert all(row.source and row.verdict for row in ROWS)
    assert {row.group for row in ROWS} >= {"Unsloth 8B", "torchtune", "LLaMA-Factory", "litgpt", "arc25"}


def test_the_document_holds_the_tables_as_they_are() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert backtest.written(text) == text, "python -m benchmarks.memory_backtest --write docs/memory.md"
