"""The console's view of a run: a live one in a terminal, plain lines elsewhere. Both are a ``Sink``.

Nothing here reads standard input, and nothing that a model or a library wrote acts on the terminal (``visible.py``).
A console that goes away (a closed pipe, a lost connection) never ends a run: the view falls silent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Protocol, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arcslim.runs.figures import Fact, curve, facts, outlook_words
from arcslim.runs.grid_view import GAP, draw_panels
from arcslim.runs.plain import PlainView, drawing_panels, sample_panels, score_words
from arcslim.runs.view_state import EventView, ViewState
from arcslim.runs.visible import tail, visible

COLUMN = 39  # columns that one figure with its curve wants at least
LABEL, VALUE = 16, 10
CURVE = 24  # at most
ALARMING = ("warning", "oom", "skipped_step", "rollback", "stopped")


class View(Protocol):
    """What ``open_view`` gives: a ``Sink`` to enter as a context, with ``stopping`` for ``StopRequest(notify=…)``."""

    def metrics(self, step: int, kind: Any, values: Mapping[str, Any]) -> None: ...
    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None: ...
    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None: ...
    def event(self, step: int, event: Any, detail: str) -> None: ...
    def progress(self, step: int, total: int, **facts: Any) -> None: ...
    def stopping(self, text: str) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *details: Any) -> None: ...


def open_view(
    title: str,
    *,
    price_per_hour: float | None = None,
    max_hours: float | None = None,
    stream: IO[str] | None = None,
    live: bool | None = None,
) -> View:
    """The view that fits ``stream`` (standard output): live in a terminal that can redraw, else plain lines.

    Args:
        title: a line that names the run: recipe, preset, folder.
        price_per_hour: what the machine costs; None or 0 leaves the bill out.
        max_hours: when the run will be stopped, counted from now.
        live: None decides by the stream.
    """
    stream = sys.stdout if stream is None else stream
    safe = SafeStream(stream)
    state = ViewState(price_per_hour=price_per_hour, max_hours=max_hours)
    if live is None:
        terminal = os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
        live = terminal and safe.isatty() and "utf" in safe.encoding.lower()
    return LiveView(state, title, safe) if live else PlainView(state, title, safe)


class SafeStream:
    """A text stream that never raises: after the first failure it swallows what is written. None is a closed one."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "ascii"

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
            except (OSError, ValueError):  # a broken pipe, a lost terminal, a closed file
                self._stream = None
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:  # closed
            return False

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("the stream is gone")
        return self._stream.fileno()


class LiveView:
    """A view that redraws itself at the bottom of a terminal; what others print scrolls by above it."""

    # Once a second: a drawing costs 5-15 ms of a core that may be training.
    def __init__(self, state: ViewState, title: str, stream: SafeStream, *, console: Console | None = None) -> None:
        self.state = state
        self._title = title
        self._notice = ""
        self.console = console or Console(file=cast(IO[str], stream), highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self.console, get_renderable=self.render, refresh_per_second=1, vertical_overflow="crop"
        )

    def metrics(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        self.state.metrics(step, kind, values)

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.state.samples(rows)

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.state.task_rows(rows)

    def event(self, step: int, event: str, detail: str) -> None:
        self.state.event(step, event, detail)

    def progress(self, step: int, total: int, **facts: Any) -> None:
        self.state.progress(step, total, facts)

    def stopping(self, text: str) -> None:
        """Show a notice. An assignment and no lock: it is called inside a signal handler."""
        self._notice = text

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *details: Any) -> None:
        self._live.stop()

    # Drawing -----------------------------------------------------------------------------------------------------

    def render(self) -> RenderableType:
        """The whole view, no higher than the terminal: the sample takes the lines that the figures leave."""
        columns, lines = self.console.size
        columns = max(columns - 1, 20)
        with self.state.lock:
            head = [*self._head(columns), Text()]
            events = self._events(columns, 3 if lines >= 20 else 1)
            figures = self._figures(columns, max(lines - 1 - len(head) - len(events), 1))
            free = lines - 1 - len(head) - figures.row_count - len(events)
            sample = self._sample(columns, min(free - 2, 26))
        parts: list[RenderableType] = [*head, figures]
        if sample:
            parts += [Text(), *sample]
        if events:
            parts += [*([Text()] if free > len(sample) + 2 else []), *events]
        return Group(*parts)

    def _head(self, columns: int) -> list[RenderableType]:
        state = self.state
        bar = Table.grid(padding=(0, 2), expand=False)
        for _ in range(3):
            bar.add_column(no_wrap=True, overflow="ellipsis")
        words = f"step {state.step}/{state.total}"
        phase = f"{state.phase} {state.done}/{state.of}" if state.of else state.phase
        bar.add_row(
            ProgressBar(max(state.total, 1), state.step, width=max(min(columns - 40, 60), 10)), words, _dim(phase)
        )
        outlook = Text(" · ".join(outlook_words(state.outlook())), style="dim", no_wrap=True, overflow="ellipsis")
        title = Text(visible(self._title), style="bold", no_wrap=True, overflow="ellipsis")
        return [title, bar, outlook]

    def _figures(self, columns: int, room: int) -> Table:
        found = facts(self.state)
        across = max(min(columns // COLUMN, 3), 1)
        down = -(-len(found) // across)
        curves = min(columns // across - LABEL - VALUE - 8, CURVE)
        table = Table.grid(padding=(0, 2), pad_edge=False)
        for _ in range(across):
            table.add_column(no_wrap=True, width=LABEL, overflow="ellipsis")
            table.add_column(no_wrap=True, min_width=VALUE, justify="right")
            table.add_column(no_wrap=True)
        for line in range(min(down, room)):
            cells: list[Text] = []
            for fact in found[line::down]:
                cells += _fact_cells(fact, curves)
            table.add_row(*cells)
        return table

    def _sample(self, columns: int, lines: int) -> list[RenderableType]:
        sample = self.state.sample
        if sample is None or lines < 5:
            return []
        if self.state.drawings:
            return self._drawings(columns, lines)
        rule = Text("newest sample", style="bold")
        rule.append(f"  {score_words(sample)}", style="not bold dim")
        said = tail(sample.thinking or sample.completion, (columns - 10) * (2 if lines > 14 else 1))
        words = Text("thinking: " if sample.thinking else "text: ", style="dim")
        words.append(said or "(none)", style="not dim")
        wrapped = words.wrap(self.console, columns)[:2]
        colour = self.console.color_system is not None and not self.console.no_color
        panels = draw_panels(sample_panels(sample), columns, lines - 1 - len(wrapped), colour=colour)
        rule.no_wrap, rule.overflow = True, "ellipsis"
        return [rule, *panels, *wrapped]

    def _drawings(self, columns: int, lines: int) -> list[RenderableType]:
        """The way of a HER run: the target, and the drawings that came nearer and nearer, as many as there is room."""
        panels = drawing_panels(self.state)
        widest = max(panel.width for panel in panels)
        share = max(2 * widest if 2 * widest * 2 <= columns else widest, len(panels[-1].caption) + 7) + GAP
        room = max(columns // share, 2)
        colour = self.console.color_system is not None and not self.console.no_color
        chosen = [panels[0], *panels[1:][-(room - 1) :]]
        rule = Text("the nearest drawings", style="bold")
        return [rule, *draw_panels(chosen, columns, lines - 1, colour=colour)]

    def _events(self, columns: int, room: int) -> list[RenderableType]:
        shown = [_event_line(event, columns) for event in list(self.state.events)[-room:]]
        if self._notice:
            shown.append(Text(visible(self._notice), style="bold yellow", no_wrap=True, overflow="ellipsis"))
        return list(shown)


class Tee:
    """One ``Sink`` of several: each record goes to all, in their order (the folder first: it must not be missed)."""

    def __init__(self, sinks: Sequence[Any]) -> None:
        self.sinks = list(sinks)

    def metrics(self, step: int, kind: Any, values: Mapping[str, Any]) -> None:
        for sink in self.sinks:
            sink.metrics(step, kind, values)

    def samples(self, rows: Iterable[Any]) -> None:
        rows = list(rows)
        for sink in self.sinks:
            sink.samples(rows)

    def task_rows(self, rows: Iterable[Any]) -> None:
        rows = list(rows)
        for sink in self.sinks:
            sink.task_rows(rows)

    def event(self, step: int, event: Any, detail: str) -> None:
        for sink in self.sinks:
            sink.event(step, event, detail)

    def progress(self, step: int, total: int, **facts: Any) -> None:
        for sink in self.sinks:
            sink.progress(step, total, **facts)


def _fact_cells(fact: Fact, width: int) -> list[Text]:
    return [Text(visible(fact.label), style="dim"), Text(fact.value), Text(curve(fact.past, width), style="cyan")]


def _event_line(event: EventView, columns: int) -> Text:
    line = Text(f"{event.time:%H:%M} step {event.step} ", style="dim", no_wrap=True, overflow="ellipsis")
    times = f" ({event.count} times)" if event.count > 1 else ""
    style = "not dim yellow" if event.event in ALARMING else "not dim"
    line.append(f"{visible(event.event)}{times}: {visible(event.detail)}", style=style)
    return line


def _dim(text: str) -> Text:
    return Text(visible(text), style="dim", no_wrap=True, overflow="ellipsis")
