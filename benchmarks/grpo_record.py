"""What the study keeps of a finished run: enough for the tables and the picture, small enough for the repository."""

from __future__ import annotations

import json
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arcslim.runs.writing import read_rows

SETS = ("test", "test_families", "test_arc1")  # prefixes of the sets that are looked at once, at the start and the end
WINDOW = 10  # train figures are noisy: means over this many first and last steps
TRAIN_PREFIXES = ("reward/", "advantage/", "group/", "thinking/", "completion/", "policy/", "seconds/")


def summary(folder: Path) -> dict[str, Any]:
    """The figures of a finished run, from its folder.

    Returns ``figures`` (per set its values at the ``start`` and the ``end``; of ``eval`` also ``best``), ``curve`` (the
    evaluations by step), ``train`` (means over the ``first`` and ``last`` steps), ``steps``, ``best_step``,
    ``min_tokens``, ``config`` and the machine.

    Raises:
        ValueError: the run has no final figures.
    """
    rows = [row for row in read_rows(folder / "metrics.jsonl") if isinstance(row.get("values"), dict)]
    evaluations = [row for row in rows if row["kind"] in ("eval", "test")]
    train = [row for row in rows if row["kind"] == "train"]
    config = tomllib.loads((folder / "resolved.toml").read_text(encoding="utf-8"))
    config.get("run", {}).pop("dir", None)
    environment = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    figures = {prefix: _start_and_end(evaluations, prefix) for prefix in SETS}
    curve = [{"step": row["step"], **_of(row, "eval")} for row in evaluations if _of(row, "eval")]
    if not train or not curve or figures["test"] is None:
        raise ValueError("the run folder holds no final figures: was the run stopped, or has it no held-out tasks?")
    best = max(curve[1:] or curve, key=lambda point: point["pass@1"])  # the earliest on a tie, as the run has it
    figures["eval"] = {"start": curve[0], "end": curve[-1], "best": best}
    return {
        "figures": {name: pair for name, pair in figures.items() if pair is not None},
        "curve": curve,
        "train": {"first": _means(train[:WINDOW]), "last": _means(train[-WINDOW:])},
        "steps": train[-1]["step"],
        "best_step": best["step"],
        "min_tokens": config["reward"]["min_thinking"]["min_tokens"],
        "config": config,
        "commit": environment["arcslim_commit"],
        "machine": f"{environment['cpu']['threads']} cores, {environment['cpu']['model']}",
        "packages": environment["packages"],
    }


def _of(row: Mapping[str, Any], prefix: str) -> dict[str, float]:
    return {name.removeprefix(f"{prefix}/"): value for name, value in row["values"].items() if _in(name, prefix)}


def _in(name: str, prefix: str) -> bool:
    return name.startswith(f"{prefix}/")


def _start_and_end(evaluations: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, Any] | None:
    found = [(row["step"], _of(row, prefix)) for row in evaluations if any(_in(name, prefix) for name in row["values"])]
    starts, ends = [values for step, values in found if step == 0], [values for step, values in found if step > 0]
    return {"start": starts[0], "end": ends[-1]} if starts and ends else None


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = sorted({name for row in rows for name in row["values"] if name.startswith(TRAIN_PREFIXES)})
    return {name: statistics.fmean(row["values"][name] for row in rows if name in row["values"]) for name in names}
