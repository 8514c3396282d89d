from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from arcslim.cli.main import main
from tests.tasks.barc_made import puzzle, write_lines


def arcslim(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def line(tmp_path: Path, out: Path) -> list[object]:
    file = write_lines(tmp_path / "some.jsonl.gz", (puzzle(n) for n in range(12)))
    return ["data", "build", "--data", f"barc:{file}", "--out", out, "--set", "data.holdout_select=2"]


def test_it_builds_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "built"
    assert arcslim(*line(tmp_path, out)) == 0
    said = capsys.readouterr().out
    assert "read 12, kept 12, dropped: none" in said
    assert "sets: train 10, select 2" in said
    assert f"arcslim grpo --data {out}" in said
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "select.parquet", "train.parquet"]
    assert [path.name for path in out.parent.iterdir()] == ["built"]


def test_what_is_there_stays_or_moves_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "built"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    assert arcslim(*line(tmp_path, out)) == 2
    assert "is there already" in capsys.readouterr().err
    assert arcslim(*line(tmp_path, out), "--force") == 0
    (aside,) = tmp_path.glob("built.before-*")
    assert (aside / "mine.txt").read_text() == "kept"
    assert (out / "train.parquet").is_file()


def test_an_empty_folder_is_no_obstacle_and_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    assert arcslim(*line(tmp_path, tmp_path / "empty")) == 0
    capsys.readouterr()
    monkeypatch.setattr("arcslim.tasks.split.build_split", None)
    (tmp_path / "file").write_text("")
    assert arcslim(*line(tmp_path, tmp_path / "file" / "built")) == 2
    assert "cannot be written to" in capsys.readouterr().err
    assert arcslim("data", "filter", "arc1", "--drop-trivial", "--out", tmp_path / "file" / "built") == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_a_preset_that_stops_early_builds_data_without_a_holdout_too(tmp_path: Path) -> None:
    """What a run needs is no matter of the data."""
    words = [*line(tmp_path, tmp_path / "built"), "--preset", "4090", "--set", "data.holdout_select=0"]
    assert arcslim(*words) == 0


def test_the_models_limit_is_kept_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "built"
    assert arcslim(*line(tmp_path, out), "--fit", "--model", "tiny", "--set", "prompt.max_tokens=50") == 2
    assert "too_long 12" in capsys.readouterr().err
    assert not out.exists()
    assert arcslim(*line(tmp_path, out), "--fit", "--model", "tiny", "--set", "prompt.max_tokens=500") == 0
    assert '"max_tokens": 500' in (out / "manifest.json").read_text()


def test_ctrl_c_ends_it_at_once_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    out = tmp_path / "built"
    words = ["data", "build", "--data", "rearc", "--out", str(out), "--set", "data.tasks=200000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "arcslim", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        # A shell that puts the tests into the background lets them, and what they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(6)
    assert process.poll() is None
    before = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert time.monotonic() - before < 3
    assert process.returncode == 130
    assert "Traceback" not in output
    assert not list(tmp_path.iterdir())


def test_building_and_checking_needs_no_torch(tmp_path: Path) -> None:
    out = tmp_path / "built"
    code = """
import sys
from arcslim.cli.main import main
for words in (sys.argv[1:], ["data", "check", sys.argv[sys.argv.index("--out") + 1]]):
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, ended.code
print("torch" in sys.modules, "transformers" in sys.modules)
"""
    words = [str(word) for word in line(tmp_path, out)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"
