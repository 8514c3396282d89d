"""The presets' headers and the documents' tables say what the planner says."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcslim.presets import Preset, list_presets
from benchmarks.preset_memory import DOCUMENTS, card_of, peak, planned, recipe_of, with_column, with_figures

ON_A_CARD = [preset for preset in list_presets() if card_of(preset)]


@pytest.mark.parametrize("preset", ON_A_CARD, ids=lambda preset: preset.name)
def test_a_header_says_what_is_planned(preset: Preset) -> None:
    """To write it anew: python -m benchmarks.preset_memory --write"""
    assert with_figures(preset) == preset.text
    assert preset.entry("Memory").startswith(f"planned {peak(planned(preset, recipe_of(preset)))} of the ")
    assert planned(preset, recipe_of(preset)).fits


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_table_says_what_is_planned(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert with_column(text) == text
    table = [line for line in text.splitlines() if line.startswith("| `")]
    for preset in ON_A_CARD:
        (row, *_) = [line for line in table if f"`{preset.name}`" in line]
        assert row.rstrip("| ").endswith(peak(planned(preset, recipe_of(preset))))


def test_a_header_that_is_out_of_date_is_found() -> None:
    preset = next(preset for preset in ON_A_CARD if preset.name == "4090")
    old = Preset(preset.name, preset.path, preset.text.replace("# Memory:   planned ", "# Memory:   planned 9"))
    assert with_figures(old) == preset.text != old.text
