"""Up to how many rows 4-bit weights are read as they are: by card, as the installed Unsloth has it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from arcslim.cards import GpuCard, find_gpu, gpu_cards
from arcslim.cli.plan import plan_for
from arcslim.memory.decode import FUSED_ROWS, ceiling, fused_rows
from arcslim.memory.setup import Request
from arcslim.presets import load_config


def request(gpu: str) -> Request:
    return plan_for(load_config("4090").config, "grpo", find_gpu(gpu)).request


def test_the_table_is_that_of_the_installed_unsloth() -> None:
    found = importlib.util.find_spec("unsloth")
    if found is None or not found.submodule_search_locations:
        pytest.skip("unsloth is not installed")
    text = (Path(found.submodule_search_locations[0]) / "kernels" / "utils.py").read_text(encoding="utf-8")
    (table,) = re.findall(r"^_GEMV_ROWS_BY_ARCH = (\{.*\})$", text, re.MULTILINE)
    theirs = {f"{one}.{two}": int(rows) for one, two, rows in re.findall(r"\((\d+), (\d+)\): (\d+)", table)}
    (fused,) = re.findall(r"^_BNB_GEMM_4BIT_MAX_ROWS = (\d+)$", text, re.MULTILINE)
    assert "_BNB_GEMM_4BIT_ARCHS = {(7, 5)}" in text and "_BNB_GEMM_4BIT_DTYPES = (torch.float16,)" in text
    assert theirs | {"7.5": int(fused)} == FUSED_ROWS


@pytest.mark.parametrize(
    ("gpu", "rows"),
    [
        ("4090", 4),
        ("l40s", 4),
        ("5090", 4),
        ("a100", 2),
        ("3090", 1),
        ("a6000", 1),
        ("h100", 1),
        ("b200", 1),
        ("t4", 16),
    ],
)
def test_above_so_many_rows_weights_are_unpacked(gpu: str, rows: int) -> None:
    asked = request(gpu)
    assert fused_rows(asked.gpu) == rows
    assert ceiling(asked, rows, 2048) == ceiling(asked, rows, 2048, unpacks=False)
    assert ceiling(asked, rows + 1, 2048) == ceiling(asked, rows + 1, 2048, unpacks=True)
    assert ceiling(asked, rows + 1, 2048) < ceiling(asked, rows + 1, 2048, unpacks=False)


def test_every_card_says_its_capability_and_another_is_taken_for_the_least() -> None:
    for card in gpu_cards():
        assert re.fullmatch(r"(7|8|9|10|12)\.\d", card.capability or ""), card.name
    assert fused_rows(GpuCard("another", 24)) == 1
