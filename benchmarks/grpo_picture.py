"""The picture of the study: how much is solved and how much is thought, by step, with and without the floor."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arcslim.runs.picture import COLOURS, FAINT, INK

NAMES = {
    "floor": "with the floor",
    "none": "no thinking reward",
    "bonus": "bonus",
    "gate": "gate",
    "control": "random rewards",
}
PANELS = (
    ("pass@1", "Solved at the first try (pass@1), %", 100.0),
    ("thinking_tokens_mean", "Thinking, mean tokens", 1.0),
)
HUES = dict(zip(NAMES, (*COLOURS[:4], "#777777"), strict=True))
Record = Mapping[str, Any]


def draw(arms: Mapping[str, Sequence[Record]], output: Path) -> None:
    """Mean over seeds, the range shaded, each seed a thin line; the floor dashed. ``output`` is written whole."""
    # arcslim.runs.picture shows one or several run folders, six panels; this is drawn from the records, two panels
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.9), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(wspace=0.08, w_pad=0.12, h_pad=0.08)
    for axes, (figure_name, title, scale) in zip(figure.subplots(1, 2), PANELS, strict=True):
        ends = [_curve(axes, arm, some, figure_name, scale) for arm, some in arms.items()]
        floors = [one["min_tokens"] for some in arms.values() for one in some if one["min_tokens"]]
        if figure_name != "pass@1" and floors:
            floor = statistics.fmean(floors)
            axes.axhline(floor, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            ends.append((floor, "the floor", INK))
        _frame(axes, title)
        _label(axes, ends)
    seeds = sorted({one["seed"] for some in arms.values() for one in some})
    words = f"mean and range over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    figure.suptitle(
        f"GRPO on the tiny model, held-out tasks by optimizer step: {words}",
        x=0.012, ha="left", fontsize=11.5, color=INK, fontweight="bold",
    )  # fmt: skip
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.stem}.tmp{output.suffix or '.png'}")
    figure.savefig(temporary)
    temporary.replace(output)


def _curve(axes: Any, arm: str, records: Sequence[Record], name: str, scale: float) -> tuple[float, str, str]:
    """Draws one arm; returns where its mean ends, with its label and colour."""
    hue = HUES[arm]
    each = [{point["step"]: scale * point[name] for point in record["curve"]} for record in records]
    # A mean over other seeds at some steps than at others would jump: only steps that all of them have.
    steps = sorted(set.intersection(*(set(one) for one in each)))
    at = [[one[step] for one in each] for step in steps]
    mean = [statistics.fmean(some) for some in at]
    if len(each) > 1:
        axes.fill_between(steps, [min(some) for some in at], [max(some) for some in at], color=hue, alpha=0.14, lw=0)
        for one in each:
            axes.plot(steps, [one[step] for step in steps], color=hue, linewidth=0.7, alpha=0.4, zorder=2)
    axes.plot(steps, mean, color=hue, linewidth=2.2, marker="o", markersize=4, zorder=3, clip_on=False)
    return mean[-1], NAMES[arm], hue


def _frame(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel("optimizer step", fontsize=8.5, color=INK)
    axes.set_xlim(0, max(axes.dataLim.x1, 1))
    axes.set_ylim(0, axes.dataLim.y1 * 1.08)  # from 0, so that a fall looks as deep as it is
    axes.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=8.5, length=3, color=FAINT)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=7)


def _label(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names at the right end of the curves, pushed apart where they would touch."""
    gap, top = 0.07 * axes.get_ylim()[1], -1e9
    for value, label, hue in sorted(ends):
        top = max(value, top + gap)
        axes.annotate(
            label, (1.0, value), xytext=(1.02, top), xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"), color=hue, fontsize=9, va="center", annotation_clip=False,
        )  # fmt: skip
