"""The picture of ``arcslim bench``: samples a second, tokens a second, and memory against the plan, by batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arcslim.errors import InputError
from arcslim.runs.bench_report import GIB, SPEEDS, title
from arcslim.runs.picture import COLOURS, FAINT, INK
from arcslim.runs.writing import sync_folder

Curve = tuple[str, list[float], str, str]  # label, a value a batch size, colour, line style


def draw(report: Mapping[str, Any], output: Path) -> Path:
    """Draw to ``output`` (PNG, SVG or PDF by its name). Raises InputError where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("drawing needs matplotlib, which is not installed", "pip install matplotlib") from error
    rows = [row for row in report["sizes"] if "failed" not in row]
    speeds = [
        (name, [row["tokens_per_second"][name] for row in rows], colour, "-")
        for name, colour in zip(SPEEDS, COLOURS, strict=False)
        if all(row["tokens_per_second"].get(name) for row in rows)
    ]
    memory = [
        ("measured", [row["measured_bytes"] / GIB for row in rows], COLOURS[0], "-"),
        ("planned", [row["planned_bytes"] / GIB for row in rows], INK, "--"),
    ]
    panels: list[tuple[str, list[Curve], bool]] = [
        ("samples a second", [("", [row["samples_per_second"] for row in rows], COLOURS[0], "-")], False),
        ("tokens a second", speeds, len(speeds) > 1),
        ("peak memory, GiB", memory, False),
    ]
    figure = Figure(figsize=(10.5, 3.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.09)
    for number, (heading, curves, log) in enumerate(panels, 1):
        _panel(figure.add_subplot(1, len(panels), number), heading, curves, [row["batch"] for row in rows], log=log)
    figure.suptitle(title(report), x=0.012, ha="left", fontsize=11, color=INK, fontweight="bold")
    ended = [f"batch {row['batch']}: {row['failed']}" for row in report["sizes"] if "failed" in row]
    if ended:
        figure.supxlabel("; ".join(ended), x=0.012, ha="left", fontsize=8.5, color=COLOURS[1])
    temporary = output.with_name(f".{output.stem}.tmp{output.suffix or '.png'}")
    figure.savefig(temporary)
    temporary.replace(output)
    sync_folder(output.parent)
    return output


def _panel(axes: Any, heading: str, curves: Sequence[Curve], batches: Sequence[int], *, log: bool) -> None:
    places = range(len(batches))  # evenly: sizes usually double
    for label, values, colour, style in curves:
        axes.plot(places, values, style, color=colour, linewidth=1.6, marker="o", markersize=3.5, label=label)
    axes.set_title(heading + (", logarithmic" if log else ""), loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel("batch size (rows at once)", fontsize=8, color=INK)
    axes.set_xticks(list(places), [str(batch) for batch in batches])
    axes.margins(x=0.08)
    if log:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        shown = [value for _, values, _, _ in curves for value in values]
        axes.set_yscale("log")
        axes.set_ylim(10 ** math.floor(math.log10(min(shown))), 10 ** math.ceil(math.log10(max(shown) * 1.05)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(max(values) for _, values, _, _ in curves) * 1.1)
    axes.tick_params(colors=INK, labelsize=8, length=3, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)
