"""Tables of the HER study, as Markdown, from its cells."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from math import comb
from pathlib import Path
from statistics import mean, median
from typing import Any

Records = dict[str, dict[str, Any]]


def fisher_exact(solved_a: int, of_a: int, solved_b: int, of_b: int) -> float:
    """Two-sided p of Fisher's exact test for two shares: the sum over tables no likelier than the one seen."""
    total, solved = of_a + of_b, solved_a + solved_b

    def chance(a: int) -> float:
        return comb(of_a, a) * comb(of_b, solved - a) / comb(total, solved)

    seen = chance(solved_a)
    low, high = max(0, solved - of_b), min(solved, of_a)
    return min(sum(p for a in range(low, high + 1) if (p := chance(a)) <= seen * (1 + 1e-9)), 1.0)


def load(folder: Path) -> Records:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _base(records: Records) -> str:
    rows = [
        [name.removeprefix("base-"), str(one["generations"]), "yes" if one["solved"] else "no", f"{one['best']:.0%}"]
        for name, one in records.items()
        if name.startswith("base-")
    ]
    return _table(("temperature", "programs", "solved", "best"), rows)


def _solve(records: Records) -> str:
    rows = [
        [
            str(one["seed"]),
            "yes" if one["solved"] else "no",
            str(one["epochs"]),
            str(one["generations"]),
            f"{one['seconds']:.0f}",
        ]
        for name, one in records.items()
        if name.startswith("solve-")
    ]
    return _table(("seed", "solved", "epochs", "programs", "seconds"), rows)


def _ladder(records: Records) -> str:
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for name, one in records.items():
        if name.startswith("ladder-"):
            target, _, number = name.removeprefix("ladder-").rpartition("-")
            found[target][int(number)] = (
                str(one["generations"]) if one["solved"] else f"({one['best']:.0%} after {one['generations']})"
            )
    numbers = sorted({number for row in found.values() for number in row})
    rows = [[target, *(row.get(number, "not run") for number in numbers)] for target, row in found.items()]
    return _table(("target", *(f"{number} an epoch" for number in numbers)), rows)


def _ablation(records: Records) -> str:
    arms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, one in records.items():
        if name.startswith("ablation-"):
            arms[name.removeprefix("ablation-").rpartition("-")[0]].append(one)
    rows = []
    for arm, some in sorted(arms.items(), key=lambda item: -sum(one["solved"] for one in item[1])):
        solved = [one["generations"] for one in some if one["solved"]]
        rows.append(
            [
                arm, f"{len(solved)} of {len(some)}", f"{median(solved):.0f}" if solved else "–",
                f"{mean(one['best'] for one in some):.0%}",
            ]
        )  # fmt: skip
    return _table(("arm", "solved", "programs, median of those solved", "best drawing, mean"), rows)


def _explore(records: Records, kind: str = "explore") -> str:
    arms = {
        arm: [one for name, one in records.items() if name.startswith(f"{kind}-{arm}-")] for arm in ("both", "explore")
    }
    rows = []
    for arm, some in arms.items():
        solved = [one["generations"] for one in some if one["solved"]]
        best = f"{mean(one['best'] for one in some):.0%}" if some else "–"
        rows.append([arm, f"{len(solved)} of {len(some)}", f"{median(solved):.0f}" if solved else "–", best])
    table = _table(("samplers", "solved", "programs, median of those solved", "best drawing, mean"), rows)
    both, explore = arms["both"], arms["explore"]
    if not both or not explore:
        return table
    p = fisher_exact(sum(one["solved"] for one in both), len(both), sum(one["solved"] for one in explore), len(explore))
    return f"{table}\n\nFisher's exact test, two-sided: p = {p:.3g}"


def _grpo(records: Records) -> str:
    rows = [
        [
            one["target"],
            str(one["seed"]),
            "yes" if one["solved"] else "no",
            str(one["generations"]),
            f"{one['best']:.0%}",
            f"{one['seconds']:.0f}",
        ]
        for name, one in records.items()
        if name.startswith("grpo-")
    ]
    return _table(("target", "seed", "solved", "programs", "best", "seconds"), rows)


def report(folder: Path) -> str:
    """All tables."""
    records = load(folder)
    parts = {
        "Without learning": _base,
        "Solved": _solve,
        "What each part is for": _ablation,
        "Exploring and exploiting, 64 an epoch": _explore,
        "Exploring and exploiting, 32 an epoch": lambda some: _explore(some, "explore32"),
        "The ladder": _ladder,
        "GRPO": _grpo,
    }
    return "\n\n".join(f"### {title}\n\n{made(records)}" for title, made in parts.items())
