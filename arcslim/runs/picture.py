"""The picture of a run, or of several ways of training against one another, from ``metrics.jsonl``: one idea a panel.

matplotlib is imported when a picture is drawn, and draws without a display.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.errors import InputError
from arcslim.runs.figures import reward_parts
from arcslim.runs.writing import as_number, read_rows, sync_folder

# Okabe and Ito's colours: told apart by people who are colour-blind, and in grey.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
INK, FAINT = "#333333", "#bbbbbb"
WINDOW = 15  # train figures are averaged over about this share (one in N) of the run's steps
Series = list[tuple[int, float]]


@dataclass(frozen=True)
class Line:
    """One curve: ``spread`` holds (lowest, highest) at each point where it is a mean over several runs."""

    label: str
    points: Series
    colour: str
    dots: bool = False
    spread: list[tuple[float, float]] | None = None


@dataclass(frozen=True)
class PanelPlan:
    """What a panel shows: title, metrics of ``(kind, name, label)``, whether its values are shares."""

    title: str
    metrics: tuple[tuple[str, str, str], ...]
    share: bool = False
    smooth: bool = True


PASS = PanelPlan("pass@1 on held-out tasks", (("eval", "eval/pass@1", "pass@1"),), share=True, smooth=False)
THINKING = PanelPlan(
    "thinking, mean tokens",
    (("train", "thinking/tokens_mean", "rollouts"), ("eval", "eval/thinking_tokens_mean", "held-out")),
)
ENTROPY = PanelPlan("entropy of the policy", (("train", "policy/entropy", "entropy"),))
CUT_OFF = PanelPlan("completions cut off", (("train", "completion/cut_off_rate", "cut off"),), share=True)
TEACHING = PanelPlan(
    "groups in which some are right and some wrong", (("train", "group/correct_spread_rate", "groups"),), share=True
)
LOSS = PanelPlan("loss, nats a trained token", (("train", "loss", "training"), ("eval", "eval/loss", "held-out")))
REWARD = "reward, by part"


def read_series(folder: Path) -> dict[tuple[str, str], Series]:
    """(kind, name) -> (step, value) of a run folder, in the order of its rows.

    Raises:
        InputError: the folder has no metrics.
    """
    series: dict[tuple[str, str], Series] = {}
    for row in read_rows(folder / "metrics.jsonl"):
        values = row.get("values")
        for name, value in values.items() if isinstance(values, Mapping) else ():
            number = as_number(value)
            if number is not None and isinstance(row.get("step"), int):
                series.setdefault((str(row.get("kind")), name), []).append((row["step"], number))
    if not series:
        raise InputError(f"{folder} holds no metrics to draw", "Name a run folder: it has a metrics.jsonl.")
    return series


def draw_run(folder: Path, output: Path, *, floor: float | None = None, title: str | None = None) -> Path:
    """Draw one run to ``output`` (PNG, SVG or PDF by its name): pass@1, reward by part, thinking with its floor, groups
    that teach, entropy and cut-off rate, as far as the run has them.

    Args:
        floor: the least thinking that was asked for, a line beside the thinking; by default that of ``resolved.toml``.

    Raises:
        InputError: no metrics, or matplotlib is not installed.
    """
    series = read_series(folder)
    total = [name for kind, name in series if (kind, name) == ("train", "reward/total")]
    names = total + reward_parts(name for kind, name in series if kind == "train")
    reward = PanelPlan(REWARD, tuple(("train", name, _part(name)) for name in names))
    plans = (PASS, reward, THINKING, TEACHING, ENTROPY, CUT_OFF) if names else (PASS, LOSS, THINKING)
    panels = [(plan, _run_lines(plan, series)) for plan in plans]
    return _draw(panels, output, title or folder.resolve().name, resolved_floor(folder) if floor is None else floor)


def draw_comparison(
    groups: Mapping[str, Sequence[Path]], output: Path, *, floor: float | None = None, title: str = ""
) -> Path:
    """Draw several ways of training against one another: for each label the mean over its run folders (its seeds),
    with the range from the lowest to the highest shaded.

    Raises:
        InputError: no metrics, or matplotlib is not installed.
    """
    read = {label: [read_series(folder) for folder in folders] for label, folders in groups.items()}
    reward = PanelPlan("reward, total", (("train", "reward/total", ""),))
    thinking = PanelPlan("thinking on held-out tasks, mean tokens", THINKING.metrics[1:], smooth=False)
    panels = []
    for plan in (PASS, thinking, reward, TEACHING, ENTROPY, CUT_OFF):
        lines = []
        for (label, runs), colour in zip(read.items(), _colours(len(read)), strict=True):
            lines += _mean_lines(plan, label, runs, colour)
        panels.append((plan, lines))
    return _draw(panels, output, title, floor)


def resolved_floor(folder: Path) -> float | None:
    """``reward.min_thinking.min_tokens`` of a run, None where nothing was asked for."""
    try:
        resolved = tomllib.loads((folder / "resolved.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    section = resolved.get("reward", {}).get("min_thinking", {})
    return None if section.get("mode") == "none" else as_number(section.get("min_tokens")) or None


def smoothed(points: Series, share: int = WINDOW) -> Series:
    """A centred moving mean over about one in ``share`` of the points; ends use what there is."""
    half = len(points) // share // 2
    if half < 1:
        return points
    values = [value for _, value in points]
    return [
        (step, statistics.fmean(values[max(index - half, 0) : index + half + 1]))
        for index, (step, _) in enumerate(points)
    ]


def _run_lines(plan: PanelPlan, series: Mapping[tuple[str, str], Series]) -> list[Line]:
    known = [(kind, name, label) for kind, name, label in plan.metrics if (kind, name) in series]
    lines = []
    for (kind, name, label), colour in zip(known, _colours(len(known)), strict=True):
        points = series[kind, name]
        lines.append(Line(label, points if kind == "eval" else smoothed(points), colour, dots=kind == "eval"))
    return lines


def _mean_lines(
    plan: PanelPlan, label: str, runs: Sequence[Mapping[tuple[str, str], Series]], colour: str
) -> list[Line]:
    kind, name, _ = plan.metrics[0]
    each = [dict(smoothed(run[kind, name]) if plan.smooth else run[kind, name]) for run in runs if (kind, name) in run]
    if not each:
        return []
    # A mean over other seeds at some steps than at others would jump: only steps that all of them have.
    steps = sorted(set.intersection(*(set(values) for values in each)))
    at = [[values[step] for values in each] for step in steps]
    points = [(step, statistics.fmean(values)) for step, values in zip(steps, at, strict=True)]
    spread = [(min(values), max(values)) for values in at] if len(each) > 1 else None
    return [Line(label, points, colour, dots=kind == "eval", spread=spread)] if points else []


def _draw(panels: Sequence[tuple[PanelPlan, list[Line]]], output: Path, title: str, floor: float | None) -> Path:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("drawing needs matplotlib, which is not installed", "pip install matplotlib") from error
    drawn = [(plan, lines) for plan, lines in panels if lines]
    last = max((point[0] for _, lines in drawn for line in lines for point in line.points), default=1)
    rows = -(-len(drawn) // 2) if len(drawn) > 1 else 1
    figure = Figure(figsize=(10.5, 0.7 + 2.5 * rows), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.09)
    for number, (plan, lines) in enumerate(drawn):
        axes = figure.add_subplot(rows, 2 if len(drawn) > 1 else 1, number + 1)
        _draw_panel(axes, plan, lines, last, floor if "thinking" in plan.title else None)
        if number >= len(drawn) - 2:  # the lowest of each column speaks for those above
            axes.set_xlabel("optimizer step", fontsize=8, color=INK)
    if title:
        figure.suptitle(title, x=0.012, ha="left", fontsize=11, color=INK, fontweight="bold")
    # The form follows the final name, but the bytes come under another one first: no half picture is ever seen.
    temporary = output.with_name(f".{output.stem}.tmp{output.suffix or '.png'}")
    figure.savefig(temporary)
    temporary.replace(output)
    sync_folder(output.parent)
    return output


def _draw_panel(axes: Any, plan: PanelPlan, lines: Sequence[Line], last: int, floor: float | None) -> None:
    for line in lines:
        steps, values = zip(*line.points, strict=True)
        axes.plot(
            steps,
            values,
            color=line.colour,
            linewidth=1.6,
            marker="o" if line.dots else None,
            markersize=3,
            clip_on=False,
            zorder=3,
        )
        if line.spread is not None:
            low, high = zip(*line.spread, strict=True)
            axes.fill_between(steps, low, high, color=line.colour, alpha=0.15, linewidth=0)
    if floor:
        axes.axhline(floor, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_title(plan.title, loc="left", fontsize=9.5, color=INK)
    axes.set_xlim(0, max(last, 1))
    _frame_values(axes, plan, lines, floor)
    axes.tick_params(colors=INK, labelsize=8, length=3, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    axes.yaxis.get_major_locator().set_params(nbins=5)
    ends = [(line.points[-1][1], line.label, line.colour) for line in lines if len(lines) > 1]
    if floor:
        ends.append((floor, "floor", INK))
    for place, (value, label, colour) in zip(_apart(axes, [end[0] for end in ends]), ends, strict=True):
        axes.annotate(
            label, (1.0, value), xytext=(1.015, place), xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"), color=colour, fontsize=8, va="center", annotation_clip=False,
        )  # fmt: skip


def _frame_values(axes: Any, plan: PanelPlan, lines: Sequence[Line], floor: float | None) -> None:
    """Counts and shares start at 0, so that a fall looks as deep as it is; a share's axis reads in per cent."""
    values = [value for line in lines for _, value in line.points]
    values += [value for line in lines for pair in line.spread or () for value in pair]
    low, high = min(*values, 0.0, floor or 0.0), max(*values, 0.0, floor or 0.0)
    room = (high - low) * 0.06 or (0.01 if plan.share else 1.0)
    axes.set_ylim(low - (room if low < 0 else 0), high + room)
    if plan.share:
        from matplotlib.ticker import PercentFormatter

        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if high > 0.04 else 1))


def _apart(axes: Any, values: Sequence[float]) -> list[float]:
    """Where to write labels that belong to ``values``: there, or around their mean where they would touch."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.095
    groups: list[list[int]] = []  # indices, from the lowest label to the highest

    def span(group: list[int]) -> tuple[float, float]:
        middle = statistics.fmean(values[index] for index in group)
        return middle - gap * (len(group) - 1) / 2, middle + gap * (len(group) - 1) / 2

    for index in sorted(range(len(values)), key=lambda index: values[index]):
        groups.append([index])
        while len(groups) > 1 and span(groups[-1])[0] < span(groups[-2])[1] + gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [0.0] * len(values)
    for group in groups:
        for number, index in enumerate(group):
            places[index] = span(group)[0] + gap * number
    return places


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _part(name: str) -> str:
    return name.removeprefix("reward/").replace("_", " ")
