"""The tables and the picture of the study that ``grpo_study.py`` runs, from its records alone.

    python -m benchmarks.grpo_report [--results benchmarks/results/grpo] [--picture docs/images/grpo_thinking.png]

Prints Markdown. An interval is the 95% t-interval of the mean over seeds: it says how far another seed may lie, which
is more than how exactly one run was measured. Arms are compared seed by seed: a seed draws the same tasks in each.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.grpo_study import ARMS, RESULTS, ROOT, whole_grid

PICTURE = ROOT / "docs" / "images" / "grpo_thinking.png"
# Two-sided 95% quantiles of Student's t by degrees of freedom (any table of it).
T95 = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
SETS = {
    "test": "New tasks of the trained generators",
    "test_families": "Generators never trained on",
    "test_arc1": "Small ARC-1 tasks",
}
DRIVERS = {
    "reward/grid": "grid", "reward/min_thinking": "min_thinking", "reward/solved_rate": "solved",
    "advantage/share_grid": "share of grid", "advantage/share_min_thinking": "share of min_thinking",
    "advantage/share_unsolved": "share of unsolved groups", "group/correct_spread_rate": "groups that teach",
    "policy/entropy": "entropy", "thinking/price": "price",
}  # fmt: skip
Record = Mapping[str, Any]
Table = list[list[str]]


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its interval; ``half`` is infinite where there are fewer than two."""

    value: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        count = len(values)
        if count < 2:
            return cls(values[0], math.inf)
        t95 = T95[min(count - 1, len(T95) - 1)]
        return cls(statistics.fmean(values), t95 * statistics.stdev(values) / math.sqrt(count))

    @property
    def low(self) -> float:
        return self.value - self.half

    def words(self, scale: float = 1.0) -> str:
        """``+12.3 (+9.9 to +14.7)``."""
        value = f"{scale * self.value:+.1f}"
        if math.isinf(self.half):
            return f"{value} (one seed)"
        return f"{value} ({scale * self.low:+.1f} to {scale * (self.value + self.half):+.1f})"


def read(results: Path) -> tuple[dict[str, list[Record]], list[Record]]:
    """The records by arm, in the order of the seeds, and those of cells that failed."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))]
    failed = [record for record in records if "why" in record]
    arms: dict[str, list[Record]] = {arm: [] for arm in ARMS}
    for record in sorted((record for record in records if "why" not in record), key=lambda record: record["seed"]):
        arms[record["arm"]].append(record)
    return {arm: some for arm, some in arms.items() if some}, failed


def values(records: Iterable[Record], name: str, figure: str, when: str) -> list[float]:
    """One figure of each record; those that lack it (nothing was solved) are left out."""
    found = (record["figures"].get(name, {}).get(when, {}).get(figure) for record in records)
    return [value for value in found if value is not None]


def gains(records: Iterable[Record], name: str, figure: str) -> list[float]:
    pairs = [(values([one], name, figure, "start"), values([one], name, figure, "end")) for one in records]
    return [end[0] - start[0] for start, end in pairs if start and end]


def pass_at_many(records: Iterable[Record], name: str) -> str | None:
    """``pass@8``: the figure of a set with more than one sample, None where there is none."""
    figures = {key for one in records for key in one["figures"].get(name, {}).get("end", {}) if key[:5] == "pass@"}
    return max(figures - {"pass@1"}, key=lambda key: int(key[5:]), default=None)


def markdown(heading: Sequence[str], rows: Table) -> str:
    ruler = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (heading, ruler, *rows))


def from_to(records: Sequence[Record], name: str, figure: str, form: Callable[[float], str]) -> str:
    start, end = (values(records, name, figure, when) for when in ("start", "end"))
    return f"{form(statistics.fmean(start))} → {form(statistics.fmean(end))}" if start and end else "–"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def tokens(value: float) -> str:
    return f"{value:.1f}"


# Tables -------------------------------------------------------------------------------------------------------------


def passes(arms: Mapping[str, Sequence[Record]], name: str) -> str | None:
    """pass@1 and pass@k of one set, in per cent and points."""
    known = {arm: [one for one in some if name in one["figures"]] for arm, some in arms.items()}
    rows: Table = []
    many = pass_at_many((one for some in known.values() for one in some), name)
    for arm, some in known.items():
        if not some:
            continue
        row = [arm, str(len(some)), from_to(some, name, "pass@1", percent)]
        row.append(Mean.of(gains(some, name, "pass@1")).words(100))
        if many is not None:
            row += [from_to(some, name, many, percent), Mean.of(gains(some, name, many)).words(100)]
        rows.append(row)
    if not rows:
        return None
    heading = ["arm", "seeds", "pass@1, %", "points (95%)", *([f"{many}, %", "points (95%)"] if many else [])]
    return markdown(heading, rows)


def thinking(arms: Mapping[str, Sequence[Record]]) -> str:
    """Thinking tokens on the test, and of the last evaluation (the last policy, not the best) against the start."""
    rows: Table = []
    for arm, some in arms.items():
        kept = [share_kept(one) for one in some]
        floors = [one["min_tokens"] for one in some]
        rows.append(
            [
                arm,
                from_to(some, "test", "thinking_tokens_mean", tokens),
                Mean.of(gains(some, "test", "thinking_tokens_mean")).words(),
                from_to(some, "test", "thinking_tokens_solved", tokens),
                from_to(some, "eval", "thinking_tokens_mean", tokens),
                f"{100 * statistics.fmean(kept):.0f}% (least {100 * min(kept):.0f}%)",
                "–" if not any(floors) else "–".join(str(floor) for floor in sorted({min(floors), max(floors)})),
            ]
        )
    heading = ["arm", "test, all", "difference (95%)", "test, of solved", "last evaluation", "of the start's", "floor"]
    return markdown(heading, rows)


def share_kept(record: Record) -> float:
    figures = record["figures"]["eval"]
    return float(figures["end"]["thinking_tokens_mean"] / figures["start"]["thinking_tokens_mean"])


def against(arms: Mapping[str, Sequence[Record]], base: str) -> str | None:
    """Each arm's end against ``base``'s, seed by seed."""
    if base not in arms:
        return None
    rows: Table = []
    there = {one["seed"]: one for one in arms[base]}
    for arm, some in arms.items():
        pairs = [(one, there[one["seed"]]) for one in some if one["seed"] in there]
        if arm == base or not pairs:
            continue
        row = [arm, str(len(pairs))]
        for name, figure, scale in (
            ("test", "pass@1", 100),
            ("test", "thinking_tokens_mean", 1),
            ("eval", "pass@1", 100),
            ("eval", "thinking_tokens_mean", 1),
        ):
            ends = [[one["figures"][name]["end"][figure] for one in pair] for pair in pairs]
            row.append(Mean.of([ours - theirs for ours, theirs in ends]).words(scale))
        rows.append(row)
    heading = ["arm", "seeds", "test pass@1, points", "test thinking, tokens", "last pass@1, points", "last thinking"]
    return markdown(heading, rows) if rows else None


def drivers(arms: Mapping[str, Sequence[Record]]) -> str:
    """What the training rollouts looked like over the first and the last steps."""
    rows: Table = []
    for name, label in DRIVERS.items():
        row = [label]
        for some in arms.values():
            ends = [
                [one["train"][when][name] for one in some if name in one["train"][when]] for when in ("first", "last")
            ]
            row.append(" → ".join(f"{statistics.fmean(end):.3f}" for end in ends) if all(ends) else "–")
        rows.append(row)
    return markdown(["training rollouts", *arms], rows)


def goals(arms: Mapping[str, Sequence[Record]]) -> list[str]:
    """What the demo is to show, and whether it does."""
    lines = []
    if "floor" in arms:
        gain = Mean.of(gains(arms["floor"], "test", "pass@1"))
        met = gain.value >= 0.10 and gain.low >= 0.06
        verdict = "open:" if math.isinf(gain.half) else _met(met)  # no interval from one seed
        lines.append(f"{verdict} floor: test pass@1 {gain.words(100)} points; goal +10, lower end +6")
        many = pass_at_many(arms["floor"], "test")
        if many is not None:
            more = Mean.of(gains(arms["floor"], "test", many))
            lines.append(f"{_met(more.value >= 0)} floor: test {many} {more.words(100)} points; goal: not lower")
        kept = [share_kept(one) for one in arms["floor"]]
        over = all(one["figures"]["eval"]["end"]["thinking_tokens_mean"] >= one["min_tokens"] for one in arms["floor"])
        met = statistics.fmean(kept) >= 0.8 and over
        where = "over the floor" if over else "under the floor in some seed"
        lines.append(
            f"{_met(met)} floor: thinking of the last evaluation {statistics.fmean(kept):.0%} of the start's, {where}; "
            "goal: 80%, over it"
        )
    if "control" in arms:
        gain = Mean.of(gains(arms["control"], "test", "pass@1"))
        lines.append(f"{_met(gain.value <= 0.03)} control: test pass@1 {gain.words(100)} points; goal: at most +3")
    return lines


def _met(met: bool) -> str:
    return "met:" if met else "MISSED:"


def honesty(arms: Mapping[str, Sequence[Record]], failed: Sequence[Record]) -> list[str]:
    """What was not run, what failed, and whether the cells can be compared at all."""
    records = [one for some in arms.values() for one in some]
    done = {one["cell"] for one in records}
    missing = [cell.name for cell in whole_grid() if cell.name not in done]
    lines = [f"Not run: {', '.join(missing) or 'nothing'}."]
    lines += [f"Failed: {one['cell']} ({one['why']})." for one in failed if one["cell"] not in done]
    commits = sorted({short(str(one["commit"])) for one in records})
    machines = sorted({one["machine"] for one in records})
    lines.append(f"Commits: {', '.join(commits)}. Machine: {'; '.join(machines)}, one thread a run.")
    varied = differing(records)
    if varied:
        lines.append(f"The cells also differ in {', '.join(varied)}: do not compare them.")
    seconds, cpu = (statistics.fmean(one[name] for one in records) for name in ("seconds", "cpu_seconds"))
    lines.append(f"A run of {records[0]['steps']} steps: {seconds / 60:.1f} min, {cpu / 60:.1f} min of CPU time, mean.")
    return lines


def short(commit: str) -> str:
    """A commit's first digits; ``+changes`` says that the tree had more than the commit."""
    digits, _, changes = commit.partition("+")
    return digits[:10] + ("+changes" if changes else "")


def differing(records: Sequence[Record]) -> list[str]:
    """Knobs, besides those that make an arm and the seed, that are not the same in all cells."""
    expected = {"run.seed", "reward.min_thinking.mode", "reward.min_thinking.min_tokens", "reward.extra"}
    expected.add("reward.grid.weight")
    found: dict[str, set[str]] = {}
    for record in records:
        for section, content in record["config"].items():
            for name, value in flat(section, content):
                found.setdefault(name, set()).add(json.dumps(value))
    return sorted(name for name, some in found.items() if len(some) > 1 and name not in expected)


def flat(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, inner in value.items():
        yield from flat(f"{name}.{key}", inner)


def report(arms: Mapping[str, Sequence[Record]], failed: Sequence[Record]) -> str:
    parts = ["\n".join(f"- {line}" for line in (*goals(arms), *honesty(arms, failed)))]
    for name, title in SETS.items():
        table = passes(arms, name)
        if table is not None:
            counts = {f"{one['figures'][name]['end']['n']:g}" for some in arms.values() for one in some}
            parts += [f"### {title} ({'/'.join(sorted(counts))} tasks a seed)", table]
    parts += ["### Thinking, mean tokens", thinking(arms)]
    table = against(arms, "none")
    if table is not None:
        parts += ["### Against none, seed by seed: end minus end (95%)", table]
    parts += ["### Who drives the gradient: first → last ten steps, mean over seeds", drivers(arms)]
    return "\n\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes; `-` for none")
    parser.add_argument("--arms", nargs="+", default=["none", "floor"], help="the arms in the picture")
    options = parser.parse_args()
    arms, failed = read(options.results)
    if not arms:
        print(f"{options.results} holds no finished cell: run benchmarks/grpo_study.py first", file=sys.stderr)
        return 2
    print(report(arms, failed))
    shown = {arm: arms[arm] for arm in options.arms if arm in arms}
    if str(options.picture) != "-" and shown:
        from benchmarks.grpo_picture import draw

        draw(shown, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
