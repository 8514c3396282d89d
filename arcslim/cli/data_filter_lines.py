"""What ``arcslim data filter`` says: while it rolls out, and at the end."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from arcslim.config import Config

if TYPE_CHECKING:
    from arcslim.recipes.filter_report import Filtered

BAR = 40  # columns of the longest bar
LISTED = 4  # ids behind each rule
EVERY = 30.0  # seconds between two lines where there is no terminal
MUCH_CUT_OFF = 0.2


class Progress:
    """Tasks tried so far: a bar in a terminal, else a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("rolling out"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("tasks", total=None)
        self._said = time.monotonic()

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tried(self, done: int, total: int) -> None:
        """``done`` of ``total`` tasks are through."""
        self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= EVERY:
            self._said = now
            self._console.print(f"rolled out {done} of {total} tasks")


def report(filtered: Filtered, config: Config, console: Console, *, drop_trivial: bool) -> None:
    """What each rule dropped, the pass rates, and how many are kept."""
    if drop_trivial:
        number = sum(map(len, filtered.trivial.values()))
        console.print(f"\ntrivial: {number} of {len(filtered.tasks)} tasks", style="bold")
        console.print(_rules(filtered))
    if filtered.tried is not None:
        _report_rates(filtered, config, console)
    counts = filtered.counts()
    dropped = ", ".join(
        f"{name} {number}" for name, number in counts.items() if name not in ("read", "kept") and number
    )
    words = f"\nkept {counts['kept']} of {counts['read']} tasks; dropped: {dropped or 'none'}"
    console.print(words, style="bold", soft_wrap=True)


def _rules(filtered: Filtered) -> Table:
    from arcslim.tasks.trivial import NAMES

    table = Table(box=None, pad_edge=False, show_header=False)
    for name in NAMES:
        tasks = filtered.trivial.get(name, [])
        more = f", … {len(tasks) - LISTED} more" if len(tasks) > LISTED else ""
        table.add_row(name, str(len(tasks)), ", ".join(task.task_id for task in tasks[:LISTED]) + more)
    return table


def _report_rates(filtered: Filtered, config: Config, console: Console) -> None:
    from arcslim.recipes.filter_report import KEPT, TOO_EASY, TOO_HARD, by_source

    assert filtered.tried is not None and filtered.bounds is not None
    bounds, total = filtered.bounds, filtered.total()
    console.print(
        f"\npass rates: {len(filtered.tried)} tasks, {config.model.name}, {filtered.samples} rollouts each",
        style="bold",
        markup=False,
    )
    histogram = filtered.histogram()
    most = max((number for _, number in histogram), default=0)
    bars = Table(box=None, pad_edge=False, show_header=False)
    bars.add_column(justify="right")
    for rate, number in histogram:
        bar = "█" * round(BAR * number / most) if most else ""
        verdict = bounds.verdict(rate)
        style = "" if verdict == KEPT else "dim"
        bars.add_row(f"{rate:.1%}", bar or ("▏" if number else ""), str(number), verdict.replace("_", " "), style=style)
    console.print(bars)
    table = Table(box=None, pad_edge=False)
    table.add_column("source", no_wrap=True)
    for heading in ("tasks", "mean pass rate", "too hard", "kept", "too easy"):
        table.add_column(heading, justify="right")
    for source, tried in by_source(filtered).items():
        verdicts = [bounds.verdict(one.tally.rate) for one in tried]
        mean = sum(one.tally.rate for one in tried) / len(tried)
        numbers = [str(verdicts.count(name)) for name in (TOO_HARD, KEPT, TOO_EASY)]
        table.add_row(source, str(len(tried)), f"{mean:.1%}", *numbers)
    console.print(table)
    if total.samples and total.cut_off / total.samples > MUCH_CUT_OFF:
        console.print(
            f"{total.cut_off / total.samples:.0%} of the completions were cut off at "
            f"{config.generation.max_completion_length} tokens; one without an answer counts as wrong: "
            "raise generation.max_completion_length",
            style="yellow",
        )
