"""Measure the tables of docs/bench.md: ``arcslim bench`` of the tiny model and of a half billion random parameters.

Each size takes one thread. Where other work shares the machine, start it with a higher priority than that has
(``nice -n -20``, as root) and say so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from arcslim.runs.bench_picture import draw
from arcslim.runs.bench_report import table
from arcslim.runs.writing import write_json_atomic

RESULTS = Path(__file__).parent / "results" / "bench"
HALF_BILLION = "--preset cpu --model random:Qwen2.5-0.5B"
CELLS = {
    "grpo-tiny": "--preset cpu --recipe grpo --batch-sizes 1,2,4,8,16",
    "sft-tiny": "--preset cpu --recipe sft --batch-sizes 1,2,4,8,16",
    "grpo-qwen": f"{HALF_BILLION} --recipe grpo --batch-sizes 1,2,4 "
    "--set prompt.max_tokens=96 --set generation.max_completion_length=16",
    "sft-qwen": f"{HALF_BILLION} --recipe sft --batch-sizes 1,2,4,8 --set sft.max_length=128",
}
PRIVATE = ("working_directory", "command")  # where on this machine it ran is nobody's business


def measure(name: str, steps: int, out: Path) -> None:
    """One table: its JSON and picture go to ``out``."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*CELLS[name].split(), "--steps", str(steps), "--out", folder]
        line = [sys.executable, "-m", "arcslim", "bench", *words]
        subprocess.run(line, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        text = (Path(folder) / "bench.json").read_text(encoding="utf-8")
    report = json.loads(text.replace(str(Path.home()), "~"))
    report["environment"] = {key: value for key, value in report["environment"].items() if key not in PRIVATE}
    report["bench_arguments"] = f"{CELLS[name]} --steps {steps}"
    out.mkdir(parents=True, exist_ok=True)
    write_json_atomic(out / f"{name}.json", report)
    draw(report, out / f"{name}.png")
    print(f"{name}: arcslim bench {report['bench_arguments']}\n{table(report)}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TABLE", help=f"of {', '.join(CELLS)}; all without one")
    parser.add_argument("--steps", type=int, default=5, help="measured steps a size (default: 5)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for JSON and pictures")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in CELLS]
    if unknown:
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(CELLS)}")
    for name in arguments.names or CELLS:
        measure(name, arguments.steps, arguments.out)


if __name__ == "__main__":
    main()
