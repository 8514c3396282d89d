"""One batch size of ``arcslim bench``, in a process of its own: its peaks are its own, and memory that runs out ends
it alone.

``python -m arcslim.cli.bench_worker SETTINGS.toml RECIPE STEPS RESULT.json``: the result holds the phase that runs, and
in the end the figures, or ``ran_out``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from arcslim.errors import ArcslimError
from arcslim.presets import load_config
from arcslim.runs.writing import write_json_atomic


def work(settings: Path, recipe: str, steps: int, result: Path) -> int:
    """Measure, and write ``result``. The exit code."""
    now: dict[str, Any] = {"phase": "starting"}

    def tell(phase: str) -> None:
        now["phase"] = phase
        write_json_atomic(result, now)

    tell("starting")
    from arcslim.policy.load import start_unsloth

    with tempfile.TemporaryDirectory(prefix="arcslim-bench-") as folder:
        start_unsloth(Path(folder) / "cache")
        from arcslim.recipes.bench import measure, ran_out

        try:
            config = load_config(str(settings), recipe=recipe).config
            figures = measure(config, recipe, steps=steps, folder=Path(folder), tell=tell)
        except ArcslimError as error:
            now |= {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
            write_json_atomic(result, now)
            return error.exit_code
        except Exception as error:
            if not ran_out(error):
                raise
            now["ran_out"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            write_json_atomic(result, now)
            return 0
        write_json_atomic(result, figures | {"done": True})
    return 0


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
