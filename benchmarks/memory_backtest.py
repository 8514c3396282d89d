"""The memory planner's formulas against figures that others published: each row's error, and whether it is a test.

    python -m benchmarks.memory_backtest                      # the tables, as in docs/memory.md
    python -m benchmarks.memory_backtest --write docs/memory.md

The rows are made in memory_published.py, which says of what kinds they are.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from arcslim.cards import gpu_named_in
from arcslim.cli.plan import plan_for
from arcslim.memory import formulas as f
from arcslim.memory.packing import copies
from arcslim.presets import list_presets, load_config
from benchmarks.memory_published import ARITHMETIC, BAND, FITTED, OTHER, PREDICTED, Row, all_rows

__all__ = ["ARITHMETIC", "FITTED", "OTHER", "PREDICTED", "Row", "all_rows", "errors", "table", "written"]

GIB = f.GIB
MADE, END = "<!-- {}: made by benchmarks/memory_backtest.py -->", "<!-- end -->"


def errors(*kinds: str) -> list[float]:
    """The sizes of the errors of rows of these kinds, smallest first."""
    return sorted(abs(row.error) for row in all_rows() if row.kind in kinds)


def table() -> str:
    rows = all_rows()
    sources = list(dict.fromkeys(row.source for row in rows))
    remarks = list(dict.fromkeys((row.group, row.remark) for row in rows if row.remark))
    lines = [
        "| published by | what | kind | published | ours | error | verdict | source |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        whole = row.unit == "tokens"
        published, ours = (f"{value:,.0f}" if whole else f"{value:.4g}" for value in (row.published, row.ours))
        lines.append(
            f"| {row.group} | {row.what} | {row.kind} | {published} {row.unit} | {ours} | {row.error:+.1%} | "
            f"{row.verdict} | {sources.index(row.source) + 1} |"
        )
    lines.append("")
    for name, kinds in (("predicted", (PREDICTED,)), ("other trainer", (OTHER,)), ("both", (PREDICTED, OTHER))):
        found = errors(*kinds)
        within = sum(error <= BAND for error in found)
        median, largest = statistics.median(found), found[-1]
        lines.append(
            f"- {name}: {len(found)} rows, median error **{median:.1%}**, {within} within {BAND:.0%}, "
            f"the largest {largest:.0%}."
        )
    lines += ["", *(f"- {group}: {remark}." for group, remark in remarks)]
    lines += ["", "Sources: " + "; ".join(f"{number} {name}" for number, name in enumerate(sources, 1)) + "."]
    return "\n".join(lines)


def presets_table() -> str:
    """Each preset that names a card, on it: peaks without the reserve, in GiB, and the verdict."""
    lines = [
        "| preset | recipe | card | rollout or evaluation | update | peak with reserve | of | verdict | host RAM |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for preset in list_presets():
        gpu = gpu_named_in(preset.entry("Made for"))
        recipes = ("sft",) if "arcslim sft" in preset.entry("Run") else ("grpo", "sft")
        for recipe in recipes if gpu is not None else ():
            plan = plan_for(load_config(preset.name, recipe=recipe).config, recipe, gpu)
            drawing = [phase.gpu_peak / GIB for phase in plan.phases if phase.name in ("rollout", "evaluation")]
            lines.append(
                f"| `{preset.name}` | {recipe} | {gpu.name} | {f'{max(drawing):.1f}' if drawing else '–'} | "
                f"{plan.phase('update').gpu_peak / GIB:.1f} | {plan.peak / GIB:.1f} | {gpu.usable_gib:g} | "
                f"{plan.verdict} | {plan.host_peak / GIB:.0f} |"
            )
    return "\n".join(lines)


def copies_table() -> str:
    """Unsloth's packed copies of which something was found: what they keep in 16 bits."""
    lines = [
        "| copy | maps kept in 16 bits | weights, GiB | packed throughout, GiB | known by |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for copy in copies():
        if copy.weights is None:
            continue
        card = copy.model
        plain, held = (sum(f.held_weights(card, four_bit=True, kept=kept)) / GIB for kept in (0, copy.weights))
        share = copy.weights / card.linear_parameters
        known = "the list of its modules" if copy.kept is not None else f"its files, {copy.gb:g} GB"
        lines.append(f"| `{copy.name}` | {share:.1%} | {held:.2f} | {plain:.2f} | {known} |")
    return "\n".join(lines)


TABLES = {"back-tests": table, "presets": presets_table, "packed copies": copies_table}


def written(text: str) -> str:
    """A document with its tables as they are now."""
    for name, make in TABLES.items():
        before, begin, rest = text.partition(MADE.format(name))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"the document has no place for the table of {name}: {MADE.format(name)} … {END}")
        text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="a document whose tables are replaced")
    arguments = parser.parse_args()
    if arguments.write is None:
        print("\n\n".join(make() for make in TABLES.values()))
    else:
        arguments.write.write_text(written(arguments.write.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
