"""The study's records, tables and picture, on made-up cells."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import grpo_report
from benchmarks.grpo_record import summary
from benchmarks.grpo_report import Mean, differing, gains, goals, read, report, short
from benchmarks.grpo_study import Cell, Study, parse_cell, run_all, to_do, whole_grid


def made_cell(arm: str, seed: int, *, start: float, end: float, thinking: float = 50.0, **more: Any) -> dict[str, Any]:
    """A record whose test pass@1 goes from ``start`` to ``end``, and whose thinking ends at ``thinking`` (from 50)."""

    def at(pass1: float, tokens: float, **step: int) -> dict[str, float]:
        figures = {"pass@1": pass1, "pass@8": min(1.0, 2 * pass1), "thinking_tokens_mean": tokens, "n": 400.0}
        return figures | {"thinking_tokens_solved": tokens + 2} | step

    curve = [at(start, 50.0, step=0), at(end, (50 + thinking) / 2, step=25), at(end, thinking, step=50)]
    pair = {"start": at(start, 50.0), "end": at(end, thinking)}
    train = {"reward/grid": 0.3, "advantage/share_unsolved": 0.1}
    return {
        "cell": f"{arm}-{seed}",
        "arm": arm,
        "seed": seed,
        "figures": {"test": pair, "eval": {"start": curve[0], "end": curve[-1], "best": curve[1]}},
        "curve": curve,
        "train": {"first": train, "last": train},
        "steps": 50,
        "min_tokens": 0 if arm in ("none", "control") else 26,
        "config": {"run": {"seed": seed}, "optim": {"learning_rate": 2e-4}},
        "commit": "abc",
        "machine": "2 cores, a processor",
        "seconds": 600.0,
        "cpu_seconds": 300.0,
        **more,
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    cells = [made_cell("floor", seed, start=0.30, end=0.42 + seed / 100, thinking=49.0) for seed in range(3)]
    cells += [made_cell("none", seed, start=0.30, end=0.44, thinking=20.0 + seed) for seed in range(3)]
    cells += [made_cell("control", 0, start=0.30, end=0.35)]
    cells += [{"cell": "gate-1", "arm": "gate", "seed": 1, "why": "exit code 1", "last_lines": []}]
    for cell in cells:
        suffix = ".failed.json" if "why" in cell else ".json"
        (tmp_path / f"{cell['cell']}{suffix}").write_text(json.dumps(cell))
    return tmp_path


def test_the_interval_is_students() -> None:
    # 1, 2, 3: mean 2, standard deviation 1, t(2) = 4.303, so half = 4.303 / sqrt(3)
    mean = Mean.of([1.0, 2.0, 3.0])
    assert mean.value == 2.0
    assert mean.half == pytest.approx(2.4843, abs=1e-4)
    assert short("0123456789abcdef+changes") == "0123456789+changes"
    assert math.isinf(Mean.of([1.0]).half)
    assert Mean.of([1.0]).words() == "+1.0 (one seed)"


def test_goals_are_judged_by_mean_and_lower_end(results: Path) -> None:
    arms, _ = read(results)
    assert gains(arms["floor"], "test", "pass@1") == pytest.approx([0.12, 0.13, 0.14])
    lines = goals(arms)
    assert lines[0].startswith("met: floor: test pass@1 +13.0 (+10.5 to +15.5) points")
    assert lines[2].startswith("met: floor: thinking of the last evaluation 98%")
    assert lines[3].startswith("MISSED: control: test pass@1 +5.0 (one seed)")

    spread = {"floor": [made_cell("floor", seed, start=0.3, end=0.4 + seed / 20) for seed in range(3)]}
    assert goals(spread)[0].startswith("MISSED: floor: test pass@1 +15.0 (+2.6 to")  # the mean alone does not do
    assert goals({"floor": spread["floor"][:1]})[0].startswith("open: floor")  # one seed has no interval
    under = {"floor": [made_cell("floor", 0, start=0.3, end=0.5, thinking=25.0)]}
    assert goals(under)[2].startswith("MISSED") and "under the floor" in goals(under)[2]


def test_the_report_says_what_was_not_run_and_what_failed(results: Path) -> None:
    text = report(*read(results))
    assert "Not run: control-1, control-2, bonus-0, gate-0," in text
    assert "floor-0" not in text.split("Not run: ")[1].split(".")[0]
    assert "Failed: gate-1 (exit code 1)." in text
    assert "| floor | 3 | 30.0 → 43.0 | +13.0 (+10.5 to +15.5) |" in text
    # 49 - (20, 21, 22): seed by seed
    assert "| floor | 3 | -1.0 (-3.5 to +1.5) | +28.0 (+25.5 to +30.5) |" in text
    assert "ARC-1" not in text  # no such set in these cells


def test_cells_of_different_settings_are_not_compared_in_silence(results: Path) -> None:
    other = made_cell("floor", 3, start=0.3, end=0.4, config={"run": {"seed": 3}, "optim": {"learning_rate": 1e-3}})
    (results / "floor-3.json").write_text(json.dumps(other))
    arms, failed = read(results)
    assert differing([one for some in arms.values() for one in some]) == ["optim.learning_rate"]
    assert "also differ in optim.learning_rate" in report(arms, failed)


def test_the_picture_is_drawn(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "images" / "thinking.png"
    monkeypatch.setattr(sys, "argv", ["grpo_report", "--results", str(results), "--picture", str(picture)])
    assert grpo_report.main() == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "### Thinking, mean tokens" in capsys.readouterr().out
    assert [path.name for path in picture.parent.iterdir()] == ["thinking.png"]


def test_cells_and_their_order() -> None:
    cells = whole_grid()
    assert len(cells) == len(set(cells)) == 23
    assert cells[:3] == [Cell("floor", 0), Cell("none", 0), Cell("control", 0)]
    assert parse_cell("gate:2") == Cell("gate", 2)
    for wrong in ("gate", "gate:x", "roof:1"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_cell(wrong)


def run_folder(path: Path) -> Path:
    """A finished run, as its folder has it."""
    path.mkdir(parents=True)
    rows: list[dict[str, Any]] = [
        {"step": 0, "kind": "eval", "values": {"eval/pass@1": 0.2, "test/pass@1": 0.25, "test_families/pass@1": 0.1}},
        {"step": 1, "kind": "train", "values": {"reward/grid": 0.2}},
        {"step": 2, "kind": "train", "values": {"reward/grid": 0.4}},
        {"step": 2, "kind": "eval", "values": {"eval/pass@1": 0.3}},
        {"step": 4, "kind": "eval", "values": {"eval/pass@1": 0.3}},
        {"step": 4, "kind": "eval", "values": {"test/pass@1": 0.35, "test_families/pass@1": 0.15}},
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    (path / "resolved.toml").write_text('[run]\ndir = "/somewhere"\nseed = 1\n[reward.min_thinking]\nmin_tokens = 26\n')
    environment = {"arcslim_commit": "abc", "cpu": {"threads": 2, "model": "a processor"}, "packages": {}}
    (path / "environment.json").write_text(json.dumps(environment))
    return path


def test_the_summary_of_a_run(tmp_path: Path) -> None:
    kept = summary(run_folder(tmp_path / "run"))
    assert kept["figures"]["test"] == {"start": {"pass@1": 0.25}, "end": {"pass@1": 0.35}}
    assert kept["figures"]["test_families"]["end"] == {"pass@1": 0.15}
    assert "test_arc1" not in kept["figures"]
    assert (kept["best_step"], kept["steps"], kept["min_tokens"]) == (2, 2, 26)
    assert kept["figures"]["eval"]["end"]["step"] == 4
    assert kept["train"]["first"]["reward/grid"] == pytest.approx(0.3)
    assert "dir" not in kept["config"]["run"]  # a place on one machine


def test_a_failing_cell_is_recorded_and_the_grid_goes_on(tmp_path: Path) -> None:
    """Real processes: the configuration is refused before anything heavy is imported."""
    study = Study(tmp_path / "work", tmp_path / "results", ("--set", "grpo.learnign_rate=1"))
    study.work.mkdir()
    study.results.mkdir()
    assert run_all(study, [Cell("floor", 0), Cell("control", 0)], jobs=1)
    assert study.failed == [Cell("floor", 0), Cell("control", 0)]
    record = json.loads((study.results / "floor-0.failed.json").read_text())
    assert record["why"] == "exit code 2"
    assert any("learnign_rate" in line for line in record["last_lines"])
    assert str(tmp_path) not in json.dumps(record)
    assert to_do(study, [Cell("floor", 0)]) == [Cell("floor", 0)]  # tried again next time


def test_a_run_that_another_command_began_is_not_gone_on_with(tmp_path: Path) -> None:
    begun, now = (Study(tmp_path, tmp_path, extra) for extra in (("--max-steps", "2"), ()))
    cell = Cell("none", 0)
    begun.folder(cell).mkdir()
    begun.log(cell).write_text("step 2/2\n")
    (tmp_path / "none-0.command").write_text(begun.command(cell))
    now.start(cell)
    assert now.failed == [cell] and not now.running
    assert "another command" in json.loads(now.failure(cell).read_text())["why"]


def test_a_done_cell_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(tmp_path, tmp_path, ())
    study.record(Cell("none", 1)).write_text(json.dumps({"command": study.command(Cell("none", 1))}))
    assert to_do(study, [Cell("none", 1), Cell("none", 2)]) == [Cell("none", 2)]
    other = Study(tmp_path, tmp_path, ("--max-steps", "3"))
    assert to_do(other, [Cell("none", 1)]) == []
    assert "by another command" in capsys.readouterr().out
