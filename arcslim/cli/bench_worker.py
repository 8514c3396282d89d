"""One batch size of ``arcslim bench``, in a process of its own: its peaks are its own, and memory that runs out ends
it alone.

``python -m arcslim.cli.bench_worker SETTINGS.toml RECIPE WISH RESULT.json``: the wish holds the fields of
``recipes.bench.Wish`` as JSON; the result holds the phase that runs, and in the end the figures, or ``ran_out``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arcslim.cli.bench_process import says_memory
from arcslim.errors import ArcslimError
from arcslim.presets import load_config
from arcslim.runs.writing import write_json_atomic

PR_SET_PDEATHSIG = 1


def work(settings: Path, recipe: str, wish: Mapping[str, Any], result: Path) -> int:
    """Measure, and write ``result``. The exit code."""
    now: dict[str, Any] = {"phase": "starting"}

    def tell(phase: str) -> None:
        now["phase"] = phase
        write_json_atomic(result, now)

    tell("starting")
    with tempfile.TemporaryDirectory(prefix="arcslim-bench-", ignore_cleanup_errors=True) as folder:
        try:
            config = load_config(str(settings), recipe=recipe).config
            from arcslim.policy.load import start_unsloth

            start_unsloth(Path(folder) / "cache", standby=config.model.standby and config.model.fast_inference)
            from arcslim.recipes.bench import Wish, measure

            figures = measure(config, recipe, Wish(**wish), folder=Path(folder), tell=tell)
        except Exception as error:
            if ran_out(error):
                now["ran_out"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            elif isinstance(error, ArcslimError):
                now |= {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
            else:
                raise
            write_json_atomic(result, now)
            return 0 if "ran_out" in now else int(now["exit_code"])
        write_json_atomic(result, figures | {"done": True})
    return 0


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or in RAM."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError | OSError | ArcslimError) and says_memory(str(error))


def end_with_the_parent() -> None:
    """Be killed where ``arcslim bench`` is: what it would leave behind would hold the GPU's memory. Linux alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(settings: str, recipe: str, wish: str, result: str) -> int:
    end_with_the_parent()
    return work(Path(settings), recipe, json.loads(wish), Path(result))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
