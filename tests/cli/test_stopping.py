"""Case 25 as a user meets it: a training command in a process of its own, stopped from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.recipes.made import CHANCE, Folder, write_preset


def start(output: Path, *words: object, **options: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "arcslim", "grpo", *map(str, words)]
    with output.open("w") as file:
        return subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT, text=True, **options)


def wait_for(found: Callable[[], bool], process: subprocess.Popen[str], output: Path, seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def test_case_25_and_28_ctrl_c_twice_ends_at_once_with_standard_input_closed(tmp_path: Path) -> None:
    """Case 25: a second Ctrl-C does not wait for the safe point; what was saved before stays whole and is gone on from.
    Case 28: standard input closed: nothing asks (trackers without a key: tests/runs/test_trackers.py)."""
    run = Folder(tmp_path / "run")
    # one long rollout drawn at once: no safe point for some seconds
    preset = write_preset(
        tmp_path,
        *CHANCE,
        "data.tasks=64",
        "optim.per_device_train_batch_size=192",
        "generation.rollout_batch=192",
        "generation.max_completion_length=96",
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    output = tmp_path / "output.txt"
    process = start(output, "--preset", preset, "--run-dir", run.path, stdin=subprocess.DEVNULL, env=environment)
    wait_for(lambda: any(row["kind"] == "eval" for row in run.rows("metrics")), process, output)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: "Ctrl-C again ends at once" in output.read_text(), process, output)
    time.sleep(0.6)  # closer together two signals count as one wish
    assert process.poll() is None, "it is in the rollout"
    process.send_signal(signal.SIGINT)
    process.wait(timeout=15)
    assert process.returncode == 130
    assert "stopped by" not in output.read_text(), "it did not wait for the safe point"
    assert "Traceback" not in output.read_text()
    assert "what came after the last checkpoint is not saved" in output.read_text()
    assert run.values("eval", 0)["eval/n"] == 4
    assert (run.path / "resolved.toml").is_file()
