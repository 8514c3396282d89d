"""What ``arcslim bench`` measured, as Markdown: a table, and in sentences what it was measured on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GIB = 1024**3
SPEEDS = ("prefill", "decode", "update")


def markdown(report: Mapping[str, Any]) -> str:
    """The whole of ``bench.md``."""
    lines = [f"# {title(report)}", "", *(f"- {line}" for line in facts(report)), "", table(report), ""]
    lines += [f"Batch {row['batch']}: {row['failed']}.\n" for row in report["sizes"] if "failed" in row]
    return "\n".join(lines)


def title(report: Mapping[str, Any]) -> str:
    bits = "NF4" if report["four_bit"] else "16 bits"
    return f"{report['recipe']} of {report['model']} ({bits}) on {report['gpu'] or 'a CPU'}"


def facts(report: Mapping[str, Any]) -> list[str]:
    """What was measured, a sentence each."""
    if report["recipe"] == "grpo":
        rows = f"rows of {report['prompt_tokens']:,} prompt and {report['completion_tokens']:,} completion tokens"
    else:
        rows = f"rows of {report['row_tokens']:,} tokens, half of them trained"
    median = f"medians of {report['steps']} steps after one to warm up"
    memory = "PyTorch's allocator" if report["gpu"] else "the process's RAM, libraries included"
    return [f"preset {report['preset'] or 'none'}; {rows}", median, f"peak memory: {memory}"]


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
    body = [_cells(row, speeds, with_shares=with_shares) for row in report["sizes"]]
    rule = ["---:"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *body))


def _cells(row: Mapping[str, Any], speeds: list[str], *, with_shares: bool) -> list[str]:
    planned = f"{row['planned_bytes'] / GIB:.2f}"
    if "failed" in row:
        more = len(speeds) if with_shares else 0
        return [str(row["batch"]), row["failed"], *[""] * len(speeds), "", planned, "", *[""] * more]
    cells = [str(row["batch"]), f"{row['samples_per_second']:.3g}"]
    cells += [_number(row["tokens_per_second"].get(name)) for name in speeds]
    cells += [f"{row['measured_bytes'] / GIB:.2f}", planned, f"{row['planned_share']:.0%}"]
    if with_shares:
        cells += [f"{row['shares'][name]:.0%}" if name in row["shares"] else "" for name in speeds]
    return cells


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
