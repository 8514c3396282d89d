"""Checkpoints and rows as a run makes them, in small."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file


def make_checkpoint(folder: Path, step: int, extra: tuple[str, ...] = ()) -> Path:
    """``checkpoint-STEP`` with the files that the trainer writes; torch's files are zip archives."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file({"lora_A": np.full((2, 3), step, np.float32)}, path / "adapter_model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        with zipfile.ZipFile(path / name, "w") as archive:
            archive.writestr("data.pkl", b"\0" * 100)
    for name in extra:
        (path / name).write_text("{}")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def sample_row(step: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "step": step,
        "group": 0,
        "prompt_id": "p0",
        "task_id": "t0",
        "completion": "turn it</think><answer>\n21\n</answer>",
        "thinking": "turn it",
        "answer": [[2, 1]],
        "reason": None,
        "cut_off": False,
        "thinking_tokens": 2,
        "completion_tokens": 9,
        "score": {"total": 1.0, "parts": {"grid": 1.0}, "weights": {"grid": 1.0}},
        "advantage": 0.5,
    }
    return row | changes


def task_row(prompt_id: str = "p0", **changes: Any) -> dict[str, Any]:
    pair = {"input": [[1, 2]], "output": [[2, 1]]}
    row = {
        "prompt_id": prompt_id,
        "task_id": "t0",
        "source": "rearc",
        "family": "67a3c6ac",
        "prompt": "…<think>\n",
        "task": {"train": [pair], "test": [pair]},
    }
    return row | changes


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []


def feed(view: Any, text: str = "turn it", grid: list[list[int]] | None = None) -> None:
    """A few records of a run; ``text`` stands wherever somebody else may have written."""
    grid = [[1, 2], [3, 0]] if grid is None else grid
    pair = {"input": grid, "output": grid}
    view.progress(0, 10, phase="rollout", done=1, of=8)
    view.task_rows([task_row(task_id=text, task={"train": [pair], "test": [pair]})])
    view.metrics(0, "eval", {"eval/pass@1": 0.1, "eval/thinking_tokens_mean": 40})
    view.metrics(1, "train", {"reward/total": 0.5, f"reward/{text}": 0.25, "thinking/tokens_mean": 41.0})
    view.samples([sample_row(1, thinking=text, task_id=text, answer=grid), sample_row(1, thinking=text, answer=None)])
    view.metrics(2, "eval", {"eval/pass@1": 0.25, "eval/n": 200})
    view.event(2, "warning", text)
    view.progress(2, 10, phase=text)


RTX_4090 = "NVIDIA GeForce RTX 4090, 24564 MiB, 580.95, 8.9, 450.00 W, 412 MiB, GPU-0a1b, [N/A]"


def fake_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *cards: str, script: str | None = None) -> None:
    """An ``nvidia-smi`` first on the PATH that lists ``cards``, or is the shell ``script``."""
    program = folder / "nvidia-smi"
    listed = "; ".join(f"echo '{card}'" for card in cards)
    program.write_text(f"#!/bin/sh\n{listed if script is None else script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
