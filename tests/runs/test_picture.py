"""Pictures are drawn from a run folder alone, and their numbers are the run's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.errors import InputError
from arcslim.runs.folder import RunFolder
from arcslim.runs.picture import PASS, _mean_lines, draw_comparison, draw_run, read_series, resolved_floor, smoothed

PNG = b"\x89PNG\r\n\x1a\n"


def make_run(path: Path, shift: float = 0.0, steps: int = 40) -> Path:
    with RunFolder.create(path) as folder:
        for step in range(steps + 1):
            if step:
                values = {
                    "reward/total": shift + step / 100,
                    "reward/grid": 0.2,
                    "thinking/tokens_mean": 40.0 - step / 4,
                }
                folder.metrics(step, "train", values)
            if step % 10 == 0:
                folder.metrics(step, "eval", {"eval/pass@1": shift + step / 100, "eval/thinking_tokens_mean": 40.0})
    return path


def test_one_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    picture = draw_run(run, tmp_path / "run.png", floor=20)
    assert picture.read_bytes().startswith(PNG)
    assert not list(tmp_path.glob(".*"))
    svg = draw_run(run, tmp_path / "run.svg").read_text()
    assert svg.startswith("<?xml")


def test_several_runs(tmp_path: Path) -> None:
    groups = {
        "floor": [make_run(tmp_path / f"a{seed}", seed / 10) for seed in range(3)],
        "none": [make_run(tmp_path / "b")],
    }
    assert draw_comparison(groups, tmp_path / "all.png", title="t").read_bytes().startswith(PNG)


def test_a_run_that_only_began(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        folder.metrics(0, "eval", {"eval/pass@1": 0.0})
    assert draw_run(folder.path, tmp_path / "p.png").read_bytes().startswith(PNG)


def test_the_mean_takes_the_steps_that_all_seeds_have(tmp_path: Path) -> None:
    runs = [
        read_series(make_run(tmp_path / str(seed), seed / 10, steps)) for seed, steps in ((0, 40), (1, 30), (3, 50))
    ]
    (line,) = _mean_lines(PASS, "floor", runs, "#000000")
    assert [step for step, _ in line.points] == [0, 10, 20, 30]
    assert line.points[0][1] == pytest.approx((0 + 0.1 + 0.3) / 3)
    assert line.spread is not None
    assert line.spread[0] == pytest.approx((0.0, 0.3))


def test_smoothing_keeps_steps_ends_and_a_straight_line() -> None:
    points = [(step, 2.0 * step) for step in range(100)]
    smooth = smoothed(points)
    assert [step for step, _ in smooth] == list(range(100))
    assert smooth[50][1] == pytest.approx(100.0)
    assert smoothed(points[:5]) == points[:5]


def test_the_floor_comes_from_the_resolved_file(tmp_path: Path) -> None:
    assert resolved_floor(tmp_path) is None
    for mode, floor in (("floor", 22.0), ("none", None)):
        (tmp_path / "resolved.toml").write_text(f'[reward.min_thinking]\nmode = "{mode}"\nmin_tokens = 22\n')
        assert resolved_floor(tmp_path) == floor


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no metrics"):
        draw_run(tmp_path, tmp_path / "p.png")


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, arcslim.runs.picture; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
