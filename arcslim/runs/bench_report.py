"""What ``arcslim bench`` measured, as Markdown: a table, and in sentences what it was measured on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GIB = 1024**3
SPEEDS = ("prefill", "decode", "update")
PHASES = ("load", "rollout", "update")


def markdown(report: Mapping[str, Any]) -> str:
    """The whole of ``bench.md``."""
    lines = [f"# {title(report)}", "", *(f"- {line}" for line in facts(report)), "", table(report), ""]
    phases = phase_table(report)
    if phases:
        lines += ["Peak by phase, GiB, measured / planned:", "", phases, ""]
    lines += [f"Batch {row['batch']}: {row['failed']}.\n" for row in report["sizes"] if "failed" in row]
    return "\n".join(lines)


def title(report: Mapping[str, Any]) -> str:
    bits = "NF4" if report["four_bit"] else "16 bits"
    return f"{report['recipe']} of {report['model']} ({bits}) on {report['gpu'] or 'a CPU'}"


def facts(report: Mapping[str, Any]) -> list[str]:
    """What was measured, a sentence each, and what differs from what was asked for."""
    if report["recipe"] == "grpo":
        rows = f"rows of {report['prompt_tokens']:,} prompt and {report['completion_tokens']:,} completion tokens"
        if report["drawn_tokens"] != report["completion_tokens"]:
            rows += f", of which {report['drawn_tokens']:,} are drawn and the rest is made up"
    else:
        rows = f"rows of {report['row_tokens']:,} tokens, half of them trained"
    counts = {row.get("steps", report["steps"]) for row in report["sizes"]} or {report["steps"]}
    steps = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    median = f"medians of {steps} steps after one to warm up" if counts != {1} else "one step after one to warm up"
    memory = "PyTorch's allocator" if report["gpu"] else "the process's RAM, libraries included"
    notes = dict.fromkeys(note for row in report["sizes"] for note in row.get("notes", ()))
    return [f"preset {report['preset'] or 'none'}; {rows}", median, f"peak memory: {memory}", *notes]


def table(report: Mapping[str, Any]) -> str:
    """A row a batch size, as Markdown."""
    speeds = [name for name in SPEEDS if any(row.get("tokens_per_second", {}).get(name) for row in report["sizes"])]
    with_shares = any(row.get("shares") for row in report["sizes"])
    head = [
        "batch",
        "samples/s",
        *(f"{name} tokens/s" for name in speeds),
        "peak GiB",
        "planned GiB",
        "measured/planned",
    ]
    if with_shares:
        head += [f"{name}, of its ceiling" for name in speeds]
    return as_table(head, [_cells(row, speeds, with_shares=with_shares) for row in report["sizes"]])


def _cells(row: Mapping[str, Any], speeds: list[str], *, with_shares: bool) -> list[str]:
    planned = f"{row['planned_bytes'] / GIB:.2f}"
    if "failed" in row:
        more = len(speeds) if with_shares else 0
        return [_batch(row), row["failed"], *[""] * len(speeds), "", planned, "", *[""] * more]
    cells = [_batch(row), f"{row['samples_per_second']:.3g}"]
    cells += [_number(row["tokens_per_second"].get(name)) for name in speeds]
    cells += [f"{row['measured_bytes'] / GIB:.2f}", planned, f"{row['planned_share']:.0%}"]
    if with_shares:
        cells += [_share(row["shares"].get(name)) for name in speeds]
    return cells


def _batch(row: Mapping[str, Any]) -> str:
    """Rows of a micro-batch, and of a rollout where it draws other ones at once."""
    drawn = row.get("drawn_at_once", row["batch"])
    return str(row["batch"]) if drawn == row["batch"] else f"{row['batch']}, {drawn} drawn"


def phase_table(report: Mapping[str, Any]) -> str:
    """Of a GPU: the peak of each phase beside its plan; empty where phases are not told apart."""
    rows = [row for row in report["sizes"] if row.get("planned_peaks")]
    phases = [name for name in PHASES if any(name in row["planned_peaks"] for row in rows)]
    cells = [[_batch(row), *(_phase(row, name) for name in phases)] for row in rows]
    return as_table(["batch", *phases], cells) if rows else ""


def _phase(row: Mapping[str, Any], name: str) -> str:
    # Reading the prompts was measured once more by itself; the plan counts it to the rollout.
    names = ("prefill", "rollout") if name == "rollout" else (name,)
    peaks = [row["peaks"][one] for one in names if one in row["peaks"]]
    planned = row["planned_peaks"].get(name)
    if not peaks or not planned:
        return ""
    return f"{max(peaks) / GIB:.2f} / {planned / GIB:.2f} ({max(peaks) / planned:.0%})"


def as_table(head: list[str], body: list[list[str]]) -> str:
    """Markdown; all columns to the right."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---:"] * len(head), *body))


def _share(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
