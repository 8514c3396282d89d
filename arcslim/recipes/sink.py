"""What a recipe is handed: a ``Sink`` for its records and a ``StopSignal`` to obey. ``runs`` implements both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict

Kind = Literal["train", "eval", "test"]
Event = Literal["start", "checkpoint", "restart", "oom", "skipped_step", "rollback", "warning", "stopped", "end"]


class ScoreRow(TypedDict):
    """A ``Score`` as JSON: the total, each named part unweighted, and each part's weight."""

    total: float
    parts: dict[str, float]
    weights: dict[str, float]


class SampleRow(TypedDict):
    """One rollout, a row of ``samples.jsonl``.

    ``step`` is the first optimizer step that trains on the rollout (``global_step + 1`` where it is generated), so that
    resuming at checkpoint N keeps exactly the rows up to N. ``group`` numbers the groups within that rollout.
    """

    step: int
    group: int
    prompt_id: str
    task_id: str
    completion: str
    thinking: str
    answer: list[list[int]] | None
    reason: str | None
    cut_off: bool
    thinking_tokens: int
    completion_tokens: int
    score: ScoreRow
    advantage: float


class DrawingRow(SampleRow, total=False):
    """One program of HER's. ``program``: what was kept of the completion, absent where it came to nothing."""

    program: str


class PairRow(TypedDict):
    input: list[list[int]]
    output: list[list[int]] | None


class TaskGrids(TypedDict):
    """A task's grids as ARC's JSON has them, the truth included."""

    train: list[PairRow]
    test: list[PairRow]


class TaskRow(TypedDict):
    """One prompt, a row of ``tasks.jsonl``: the rendered text and the task that it asks about."""

    prompt_id: str
    task_id: str
    source: str
    family: str
    prompt: str
    task: TaskGrids


class Sink(Protocol):
    """Where a recipe's records go. Called by the first process only, from the thread that trains.

    A number that is not finite is allowed everywhere: it is left out and told as an event. numpy's and torch's scalars
    count as numbers.
    """

    def metrics(self, step: int, kind: Kind, values: Mapping[str, Any]) -> None:
        """One row of figures: call it once a step and kind, with all that belongs together. ``step`` counts finished
        optimizer steps; 0 is the starting policy."""
        ...

    def samples(self, rows: Iterable[SampleRow]) -> None:
        """The rollouts of one step."""
        ...

    def task_rows(self, rows: Iterable[TaskRow]) -> None:
        """The tasks behind ``prompt_id``; one that is known already is passed over. Call it before ``samples``."""
        ...

    def event(self, step: int, event: Event, detail: str) -> None:
        """Something that a reader of the run must know. ``checkpoint`` follows a finished checkpoint: everything
        written so far is then forced to the disk."""
        ...

    def progress(self, step: int, total: int, **facts: Any) -> None:
        """Where the run stands, for a live view; nothing is recorded. Known facts: ``phase`` (``rollout``,
        ``update``, ``evaluation``, ``saving``) and, within the phase, ``done`` and ``of``.
        ``total`` 0 says that the step is not known here: only the phase is shown."""
        ...


class StopSignal(Protocol):
    """A wish to stop (Ctrl-C, SIGTERM, time is up). Never raised on its own in the middle of a step."""

    @property
    def requested(self) -> bool:
        """True once a stop is asked for: save at the next safe point, then call ``check()``."""
        ...

    def check(self) -> None:
        """Raise ``arcslim.errors.Stopped`` if a stop is asked for. For places where nothing is to be saved yet."""
        ...


class RunStore(Protocol):
    """What a recipe asks of the run folder besides the sink."""

    @property
    def path(self) -> Path: ...

    def rewind(self) -> list[str]:
        """Move what lies past the checkpoint that the run goes on from; call it before training. What was moved."""
        ...

    def mark_best(self, step: int) -> None:
        """``checkpoint-STEP`` is the best so far."""
        ...

    def prune(self, keep: int, best: int | None = None) -> list[str]:
        """Delete the oldest checkpoints beyond the newest ``keep``, never the best."""
        ...

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the folder, whole or not at all."""
        ...
