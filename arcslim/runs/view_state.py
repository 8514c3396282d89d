"""What a view of a running job knows: the records that came in, and what follows from them about time and money."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from arcslim.runs.writing import as_number

HISTORY = 400  # values kept of each figure, for the small curves
DRAWN = "pixel_accuracy"  # the part of a score that says that a rollout is a drawing
DRAWINGS = 12  # of a HER run's way, the last ones
MARKS = 200  # steps over which the speed is averaged: enough to hold several evaluations
Cells = list[list[int]]


@dataclass(frozen=True)
class EventView:
    step: int
    event: str
    detail: str
    time: datetime
    count: int = 1


@dataclass(frozen=True)
class SampleView:
    """One rollout beside the task that it answers; ``input`` is None where its task is not known."""

    step: int
    task_id: str
    input: Cells | None
    truth: Cells | None
    answer: Cells | None
    reason: str | None
    thinking: str
    completion: str
    thinking_tokens: int
    total: float | None
    parts: dict[str, float]
    right: int  # rollouts of the same batch that are right
    of: int


@dataclass(frozen=True)
class DrawingView:
    """The drawing of an epoch that came nearest to the target."""

    step: int
    accuracy: float
    cells: Cells


@dataclass(frozen=True)
class Outlook:
    """Seconds and money, as far as they can be told yet."""

    elapsed: float
    left: float | None
    end: datetime | None
    cost: float | None
    cost_total: float | None
    last_step: int | None  # where ``max_hours`` will end it, None where it will not


class ViewState:
    """Collects what a ``Sink`` gets. ``lock`` guards it: a live view draws from another thread."""

    def __init__(
        self,
        *,
        price_per_hour: float | None = None,
        max_hours: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.lock = threading.RLock()
        self.price_per_hour = price_per_hour
        self.max_hours = max_hours
        self.clock, self.now = clock, now
        self.started = clock()
        self.step, self.total = 0, 0
        self.phase, self.done, self.of = "starting", 0, 0
        self.latest: dict[str, float] = {}
        self.history: dict[str, deque[float]] = {}
        self.evaluations: list[tuple[int, dict[str, float]]] = []
        self.events: deque[EventView] = deque(maxlen=50)
        self.sample: SampleView | None = None
        self.drawings: deque[DrawingView] = deque(maxlen=DRAWINGS)
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)

    def metrics(self, step: int, kind: str, values: Mapping[str, Any]) -> dict[str, float]:
        """Take a row in; its finite numbers."""
        numbers = {name: number for name, value in values.items() if (number := as_number(value)) is not None}
        with self.lock:
            if kind == "eval":
                self.evaluations.append((step, numbers))
            else:
                self.latest |= numbers
                for name, number in numbers.items():
                    self.history.setdefault(name, deque(maxlen=HISTORY)).append(number)
        return numbers

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        with self.lock:
            for row in rows:
                # Only what is shown: thousands of rendered prompts are not to be held a second time.
                self._tasks[row["prompt_id"]] = {"task_id": row["task_id"], "test": row["task"]["test"][0]}

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = list(rows)
        if not rows:
            return
        # The newest one, and of the newest batch rather one with a grid to look at; of drawings the nearest.
        row = next((row for row in reversed(rows) if row["answer"] is not None), rows[-1])
        if DRAWN in row["score"]["parts"]:
            row = max(rows, key=lambda one: as_number(one["score"]["total"]) or 0.0)
        right = sum(self._is_right(row) for row in rows)
        pair = self._pair(row)
        total = as_number(row["score"]["total"])
        parts = {
            name: number for name, part in row["score"]["parts"].items() if (number := as_number(part)) is not None
        }
        sample = SampleView(
            row["step"], row["task_id"], pair["input"], pair["output"], _cells(row["answer"]), row["reason"],
            row["thinking"], row["completion"], int(row["thinking_tokens"]), total, parts, right, len(rows),
        )  # fmt: skip
        with self.lock:
            self.sample = sample
            if DRAWN in parts and sample.answer is not None:
                self._take_drawing(DrawingView(sample.step, parts[DRAWN], sample.answer))

    def _take_drawing(self, drawing: DrawingView) -> None:
        """Those that come nearer than any before stay; the newest one stands at the end whatever it is."""
        kept = list(self.drawings)
        if len(kept) > 1 and kept[-1].accuracy <= kept[-2].accuracy:
            self.drawings.pop()
        self.drawings.append(drawing)

    def event(self, step: int, event: str, detail: str) -> EventView:
        with self.lock:
            new = EventView(step, event, detail, self.now())
            last = self.events[-1] if self.events else None
            if last is not None and (last.event, last.detail) == (event, detail):
                new = replace(new, count=last.count + 1)
                self.events.pop()
            self.events.append(new)
            return new

    def progress(self, step: int, total: int, facts: Mapping[str, Any]) -> None:
        with self.lock:
            self.phase = str(facts.get("phase", self.phase))
            self.done, self.of = int(facts.get("done", 0)), int(facts.get("of", 0))
            if total <= 0:  # an evaluation that knows its phase, and not the run's step
                return
            if not self._marks or step != self._marks[-1][1]:
                self._marks.append((self.clock(), step))
            self.step, self.total = step, total

    def seconds_per_step(self) -> float | None:
        """Averaged over the last steps, evaluations and saving included; None before the first step is done."""
        marks = list(self._marks)
        if len(marks) > 2:
            marks = marks[1:]  # the first step also waits for the evaluation of the start, and for compilation
        if len(marks) < 2 or marks[-1][1] <= marks[0][1]:
            return None
        return (marks[-1][0] - marks[0][0]) / (marks[-1][1] - marks[0][1])

    def outlook(self) -> Outlook:
        """Time and money now. ``max_hours`` counts from the start of this process."""
        with self.lock:
            now = self.clock()
            elapsed = now - self.started
            pace = self.seconds_per_step()
            left = None
            if pace is not None:
                left = max(pace * (self.total - self.step) - (now - self._marks[-1][0]), 0.0)
            last_step = None
            if self.max_hours is not None:
                until = max(self.max_hours * 3600 - elapsed, 0.0)
                if left is not None and pace is not None and until < left:
                    last_step = min(self.step + int(until / pace), self.total) if pace > 0 else self.total
                    left = until
            end = None if left is None else self.now() + timedelta(seconds=left)
            price = self.price_per_hour
            cost = None if not price else elapsed / 3600 * price
            total = None if cost is None or left is None or not price else cost + left / 3600 * price
            return Outlook(elapsed, left, end, cost, total, last_step)

    def _pair(self, row: Mapping[str, Any]) -> dict[str, Cells | None]:
        task = self._tasks.get(row["prompt_id"])
        pair = {} if task is None else task["test"]
        return {"input": _cells(pair.get("input")), "output": _cells(pair.get("output"))}

    def _is_right(self, row: Mapping[str, Any]) -> bool:
        truth = self._pair(row)["output"]
        return truth is not None and _cells(row["answer"]) == truth


def _cells(grid: Any) -> Cells | None:
    """Rows of a grid, or of lists; None stays None."""
    if grid is None:
        return None
    return [list(row) for row in (grid.rows() if hasattr(grid, "rows") else grid)]
