"""The pictures of a filter: the histogram of pass rates, and some of the tasks that each rule dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from arcslim.errors import InputError
from arcslim.runs.grid_picture import Strip, draw_strips
from arcslim.runs.picture import COLOURS, FAINT, INK
from arcslim.runs.writing import atomic_file
from arcslim.tasks.task import Task


def draw_trivial(dropped: Mapping[str, Sequence[Task]], output: Path, *, each: int, title: str = "") -> Path:
    """Draw the first ``each`` tasks that each rule dropped. Raises InputError where matplotlib is not installed."""
    strips = [
        Strip(f"{rule} · {task.task_id} · {number} of {len(tasks)}", task)
        for rule, tasks in dropped.items()
        for number, task in enumerate(tasks[:each], 1)
    ]
    return draw_strips(strips, output, title)


def draw_pass_rates(
    histogram: Sequence[tuple[float, int]], low: float, high: float, output: Path, title: str = ""
) -> Path:
    """Draw the histogram, as (pass rate, tasks), with what lies within ``low`` and ``high`` in a colour of its own.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise InputError("drawing needs matplotlib, which is not installed", "pip install matplotlib") from error
    figure = Figure(figsize=(6.4, 3.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    width = 0.85 / max(len(histogram) - 1, 1)
    for label, colour, inside in (("kept", COLOURS[0], True), ("left out", FAINT, False)):
        some = [(rate, number) for rate, number in histogram if (low <= rate <= high) is inside]
        axes.bar([rate for rate, _ in some], [number for _, number in some], width, color=colour, label=label)
    for rate, number in histogram:
        axes.text(rate, number, str(number), ha="center", va="bottom", fontsize=7, color=INK)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel("pass rate of a task", fontsize=8, color=INK)
    axes.set_ylabel("tasks", fontsize=8, color=INK)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(colors=INK, labelsize=8, length=3, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.legend(fontsize=8, frameon=False)
    with atomic_file(output) as file:
        figure.savefig(file, format="png")
    return output
