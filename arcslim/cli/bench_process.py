"""One batch size of ``arcslim bench`` from outside: its process is started, watched, and read once it has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from arcslim.config import Config
from arcslim.errors import ArcslimError
from arcslim.presets import to_toml
from arcslim.runs.writing import write_text_atomic

WORKER = (sys.executable, "-m", "arcslim.cli.bench_worker")
SAID = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc",
        "cublas_status_alloc_failed", "enough gpu ram")  # fmt: skip
"""What PyTorch, CUDA's libraries, bitsandbytes and the C++ library say where memory runs out, in small letters."""
LAST_LINES = 5  # of a log that are searched for it: bitsandbytes prints such a line and ends the process
POLL_SECONDS = 0.3


class Stop(Protocol):
    def check(self) -> None: ...


def run_size(
    config: Config,
    batch: int,
    recipe: str,
    wish: Mapping[str, Any],
    folder: Path,
    stop: Stop,
    phase: Callable[[str], None],
    worker: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What was measured, or ``failed`` where memory ran out. ``phase`` is told each phase as it begins.

    ``wish``: the fields of ``recipes.bench.Wish``. ``worker``: a command in the place of ``bench_worker``.

    Raises ArcslimError where the process ends for anything but memory; its log then stays in ``folder``.
    """
    name = folder / f"batch-{batch}"
    settings, result, log = files = tuple(name.with_suffix(ending) for ending in (".toml", ".json", ".log"))
    result.unlink(missing_ok=True)
    write_text_atomic(settings, to_toml(config))
    line = [*(worker or WORKER), str(settings), recipe, json.dumps(wish), str(result)]
    with log.open("wb") as said:
        # A session of its own: a Ctrl-C is for this process, which then ends that one.
        process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait(process, result, stop, phase)
        finally:
            if process.poll() is None:  # a stop
                process.kill()
                process.wait()
                for path in files:
                    path.unlink(missing_ok=True)
    told = _read(result)
    if told.pop("done", False):
        for path in files:
            path.unlink()
        return told
    return {"failed": why(told, process.returncode, batch, log)}


def _wait(process: subprocess.Popen[bytes], result: Path, stop: Stop, phase: Callable[[str], None]) -> None:
    last = None
    while process.poll() is None:
        stop.check()
        now = _read(result).get("phase")
        if now != last and now is not None:
            phase(str(now))
            last = now
        try:
            process.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def _read(result: Path) -> dict[str, Any]:
    """The result so far. It is replaced whole, so what can be read can be parsed."""
    try:
        told: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return told


def why(told: Mapping[str, Any], code: int, batch: int, log: Path) -> str:
    """How memory ran out, in words. Raises ArcslimError where it is something else that went wrong."""
    phase = told.get("phase", "starting")
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
    ends_so = code != 0 and "message" not in told and says_memory("\n".join(lines[-LAST_LINES:]))
    if "ran_out" in told or ends_so:
        return f"out of memory in {phase}"
    if code == -9:
        return f"killed in {phase}: most likely the system's memory ran out"
    if "message" in told:
        error = ArcslimError(f"batch {batch}: {told['message']}", told["hint"])
        error.exit_code = int(told["exit_code"])
        raise error
    raise ArcslimError(f"batch {batch} failed in {phase}: {lines[-1]}", f"the whole of it: {log}")


def says_memory(text: str) -> bool:
    """Whether an error's text says that memory ran out."""
    return any(words in text.lower() for words in SAID)
