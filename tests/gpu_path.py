"""Unsloth's GPU path without a card: imported with ``UNSLOTH_ALLOW_CPU=1``, asked by a probe.

In a process of its own: it cannot live in one that has the CPU backend.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def ask_gpu_path(probe: str, folder: Path) -> dict[str, Any]:
    """What ``probe``, a program, writes as JSON into the file that it is given."""
    environment = os.environ | {
        "UNSLOTH_ALLOW_CPU": "1",
        "UNSLOTH_DISABLE_STATISTICS": "1",
        "UNSLOTH_COMPILE_LOCATION": str(folder / "compiled"),
    }
    command = [sys.executable, "-c", probe, str(folder / "answer.json")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return answer
