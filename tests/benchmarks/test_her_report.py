"""The tables of the HER study."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HER = Path(__file__).parents[2] / "benchmarks" / "her"
RESULTS = HER.parent / "results" / "her"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("her_report", HER / "report.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((4, 5, 2, 9), 0.0909),  # exploit and explore against explore alone, as published
        ((3, 4, 1, 4), 0.4857),  # the lady tasting tea: 34 of 70 tables are no likelier
        ((10, 10, 0, 10), 2 / 184756),
        ((5, 5, 5, 5), 1.0),
        ((0, 3, 0, 9), 1.0),
    ],
)
def test_fishers_exact_test(table: tuple[int, int, int, int], p: float, module: ModuleType) -> None:
    assert module.fisher_exact(*table) == pytest.approx(p, rel=1e-3)
    a, of_a, b, of_b = table
    assert module.fisher_exact(b, of_b, a, of_a) == pytest.approx(p, rel=1e-3)


def test_the_study_shows_what_must_be_shown(module: ModuleType) -> None:
    """The committed cells: sampling alone fails at every temperature, HER solves, and the three controls fail."""
    cells = module.load(RESULTS)
    base = [one for name, one in cells.items() if name.startswith("base-")]
    assert len(base) == 4 and all(not one["solved"] and one["generations"] == 4096 for one in base)
    assert sum(one["solved"] for name, one in cells.items() if name.startswith("solve-")) >= 4
    for arm in ("no-training", "no-relabelling", "shuffled"):
        some = [one for name, one in cells.items() if name.startswith(f"ablation-{arm}-")]
        assert len(some) == 5 and not any(one["solved"] for one in some)
        assert all(one["generations"] == 1024 for one in some), "at equal generations"
    grpo = [one for name, one in cells.items() if name.startswith("grpo-")]
    assert grpo and all(one["solved"] or one["generations"] == 4096 for one in grpo), "at equal generations"


def test_every_table_has_rows(module: ModuleType) -> None:
    text = module.report(RESULTS)
    for title in ("Without learning", "Solved", "What each part is for", "The ladder", "GRPO"):
        table = text.partition(f"### {title}\n\n")[2].partition("\n\n")[0]
        assert len(table.splitlines()) > 3, title
    assert "Fisher's exact test, two-sided: p = " in text and "not run" not in text
