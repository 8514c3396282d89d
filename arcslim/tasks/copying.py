"""How far answering the test input back would get: what a model is paid for no thought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arcslim.tasks.task import Task


def copy_rates(sets: Mapping[str, Sequence[Task]]) -> dict[str, float]:
    """For each set that is not empty the share of tasks for which the test input itself is the right answer, and
    under ``SET/cells`` the mean share of cells that it gets right."""
    rates: dict[str, float] = {}
    for name, tasks in sets.items():
        if tasks:
            scores = [_copied(task) for task in tasks]
            rates[name] = sum(score == 1.0 for score in scores) / len(scores)
            rates[f"{name}/cells"] = sum(scores) / len(scores)
    return rates


def _copied(task: Task) -> float:
    """The share of the output's cells that the test input gets right; 0 where the sizes differ."""
    pair = task.test[0]
    if pair.output is None or pair.input.shape != pair.output.shape:
        return 0.0
    return float((pair.input.cells == pair.output.cells).mean())
