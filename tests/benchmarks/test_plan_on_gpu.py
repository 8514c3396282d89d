"""The trial of the plan on a card, as far as it goes without one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from arcslim.cards import find_gpu, find_model
from benchmarks.plan_on_gpu import STEP, accepted, draw, main, summary


def test_settings_lie_at_the_edge_of_what_the_plan_accepts() -> None:
    gpu = find_gpu("24")
    settings = list(islice(draw(0, gpu), 20))
    for one in settings:
        plan = one.size(gpu).plan
        assert accepted(plan) and not accepted(replace(one, row=one.row + STEP).size(gpu).plan), one
        assert one.row <= find_model(one.model).max_position_embeddings
        assert plan.request.setup.row == one.row and plan.request.setup.rollout_rows == one.rollout_rows
    assert {one.recipe for one in settings} == {"grpo", "sft"} and {one.four_bit for one in settings} == {True, False}
    assert len({one.model for one in settings}) > 4
    assert settings == list(islice(draw(0, gpu), 20)) != list(islice(draw(1, gpu), 20))


def test_a_list_needs_no_gpu_and_a_trial_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--list", "--gib", "24", "--count", "3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 3 and all(max(line["planned"].values()) < 24 * 2**30 for line in lines)


def row(**more: Any) -> dict[str, Any]:
    return {"unused": 0.1} | more


def test_the_goal() -> None:
    assert summary([row(), row(unused=0.12), row(unused=0.9)]) == (
        True, "3 settings: 0 ran out of memory, 0 failed otherwise; median unused 12.0% (goal 12%)"
    )  # fmt: skip
    assert summary([row(), row(unused=0.13), row(unused=0.9)])[0] is False, "too careful a plan"
    assert summary([row(), {"failed": "out of memory in the update"}])[0] is False
    assert summary([row(), {"error": "no such model"}])[0] is False
    assert summary([])[0] is False


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_in_small_it_runs_and_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.json"
    assert main(["--small", "--count", "2", "--minutes", "0", "--out", str(out)]) == 0
    assert "the time is up" in capsys.readouterr().out and not out.exists()
    assert main(["--small", "--count", "1", "--out", str(out)]) == 0
    (first,) = json.loads(out.read_text())
    assert 0 < first["unused"] < 1 and first["peaks"]["update"] > 0 and first["planned"]["update"] > 0
    assert first["drawn"] == asdict(next(draw(0, find_gpu("cpu"), small=True)))
    assert main(["--small", "--count", "1", "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == [first]
