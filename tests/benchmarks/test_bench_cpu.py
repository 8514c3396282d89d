"""The tables of docs/bench.md are the ones that were measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from arcslim.runs.bench_report import table
from benchmarks.bench_cpu import CELLS, RESULTS

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "bench.md"


@pytest.mark.parametrize("name", CELLS)
def test_a_table_of_the_document_is_its_result(name: str) -> None:
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    report = json.loads(text)
    assert table(report) in DOCUMENT.read_text(encoding="utf-8")
    assert report["bench_arguments"] == f"{CELLS[name]} --steps 5" and report["steps"] == 5
    sizes = [str(row["batch"]) for row in report["sizes"]]
    assert f"--batch-sizes {','.join(sizes)} " in f"{CELLS[name]} "
    assert re.search(r'"/|hf_|working_directory', text) is None, "where it ran is nobody's business"
