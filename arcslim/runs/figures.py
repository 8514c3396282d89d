"""Numbers for people: which figures of a run a view shows, in which words, and small curves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from arcslim.runs.view_state import Outlook, ViewState

BARS = "▁▂▃▄▅▆▇█"
PASS = "eval/pass@1"
EVAL_LOSS = "eval/loss"
EVAL_THINKING = "eval/thinking_tokens_mean"


@dataclass(frozen=True)
class Fact:
    """One figure of the view: ``label value``, and the values that led to it (empty: no curve)."""

    label: str
    value: str
    past: tuple[float, ...] = ()


def _share(value: float) -> str:
    return f"{value:.0%}"


def _tokens(value: float) -> str:
    return f"{value:.0f}"


def _gib(value: float) -> str:
    return f"{value / 2**30:.1f} GiB"


# Stand under `reward/` and are no parts of it.
NO_PARTS = ("reward/total", "reward/solved_rate", "reward/nan_rows")

# Metric -> label and form, in the order of the view; the parts of the reward come after its total.
SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "her/best_pixel_accuracy": ("best drawing", "{:.1%}".format),
    "her/epoch_pixel_accuracy": ("of this epoch", "{:.1%}".format),
    "her/generations_total": ("programs drawn", "{:.0f}".format),
    "her/unique_rate": ("unique", _share),
    "her/novel_rate": ("new", _share),
    "her/code_lines_mean": ("lines of code", "{:.1f}".format),
    "reward/solved_rate": ("solved", _share),
    "thinking/tokens_mean": ("thinking", _tokens),
    "completion/tokens_mean": ("completion", _tokens),
    "completion/cut_off_rate": ("cut off", _share),
    "completion/token_accuracy": ("token accuracy", "{:.1%}".format),
    "group/correct_spread_rate": ("teaching groups", _share),
    "policy/entropy": ("entropy", "{:.3f}".format),
    "policy/kl": ("KL", "{:.4f}".format),
    "memory/gpu_peak_bytes": ("GPU peak", _gib),
    "memory/host_peak_bytes": ("host peak", _gib),
}


def facts(state: ViewState) -> list[Fact]:
    """The figures that are known so far, most telling first."""
    found = []
    passed = [(step, values[PASS]) for step, values in state.evaluations if PASS in values]
    if passed:
        found.append(Fact("pass@1", pass_words(passed), tuple(value for _, value in passed)))
    thought = [values[EVAL_THINKING] for _, values in state.evaluations if EVAL_THINKING in values]
    if thought:
        found.append(Fact("thinking, eval", _tokens(thought[-1]), tuple(thought)))
    for name in ["reward/total", *reward_parts(state.latest)] if "reward/total" in state.latest else []:
        label = "reward" if name == "reward/total" else f"  {name.removeprefix('reward/')}"
        found.append(Fact(label, f"{state.latest[name]:.3f}", tuple(state.history[name])))
    losses = [values[EVAL_LOSS] for _, values in state.evaluations if EVAL_LOSS in values]
    if losses:
        found.append(Fact("loss, eval", f"{losses[-1]:.4f}", tuple(losses)))
    if "loss" in state.latest and "reward/total" not in state.latest:  # GRPO's loss says nothing
        found.append(Fact("loss", f"{state.latest['loss']:.4f}", tuple(state.history["loss"])))
    for name, (label, form) in SHOWN.items():
        # A GPU run's host memory is no worry; without a GPU there is no other.
        if name == "memory/host_peak_bytes" and state.latest.get("memory/gpu_peak_bytes", 0) > 0:
            continue
        if name in state.latest and not (name == "memory/gpu_peak_bytes" and state.latest[name] <= 0):
            curve = () if name.startswith("memory/") else tuple(state.history[name])
            found.append(Fact(label, form(state.latest[name]), curve))
    return found


def pass_words(passed: Sequence[tuple[int, float]]) -> str:
    """``23.5% +6.4``: the last evaluation, and the points gained since the starting policy's."""
    (first_step, first), (_, last) = passed[0], passed[-1]
    if len(passed) == 1 or first_step != 0:
        return f"{last:.1%}"
    return f"{last:.1%} {100 * (last - first):+.1f}"


def reward_parts(names: Iterable[str]) -> list[str]:
    """Of metric names those of the reward's parts, by their order in the alphabet."""
    return sorted(name for name in names if name.startswith("reward/") and name not in NO_PARTS)


def curve(values: Sequence[float], width: int) -> str:
    """The last values as bars of eight heights between their least and greatest; means of neighbours where they are
    more than ``width``."""
    if len(values) < 2 or width < 2:
        return ""
    if len(values) > width:
        edges = [round(index * len(values) / width) for index in range(width + 1)]
        values = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges) if high > low]
    low, high = min(values), max(values)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        return BARS[0] * len(values)
    return "".join(BARS[min(int((value - low) / (high - low) * len(BARS)), len(BARS) - 1)] for value in values)


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``."""
    seconds = max(int(seconds + 0.5), 0)
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def outlook_words(outlook: Outlook, *, short: bool = False) -> list[str]:
    """Time run, time left, the end and the bill, each a few words, as far as known."""
    words = [] if short else [f"{duration(outlook.elapsed)} run"]
    if outlook.left and outlook.end is not None:
        form = "%H:%M" if outlook.left < 20 * 3600 else "%a %H:%M"
        words += [f"{duration(outlook.left)} left", f"ends {outlook.end.strftime(form)}"]
        if outlook.last_step is not None:
            words.append(f"max_hours stops it near step {outlook.last_step}")
    if outlook.cost is not None:
        cost = f"{outlook.cost:.2f}"
        words.append(f"cost {cost}" if outlook.cost_total is None else f"cost {cost} of about {outlook.cost_total:.2f}")
    return words
