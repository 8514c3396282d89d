"""``RunFolder``: the record of a run on disk. Its layout is a contract that other programs read: only add to it.

::

    resolved.toml  environment.json  plan.json     what was run, and on what
    metrics.jsonl  samples.jsonl  events.jsonl     one row a step and kind, a rollout, an event
    tasks.jsonl                                    prompt_id -> the rendered prompt, the task and its truth
    checkpoint-N/  best  final/                    ``best`` holds the name of the best checkpoint
    *.lost.jsonl  lost/                            what lay past the checkpoint that the run went on from
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from arcslim.runs.checkpoints import NAME, Checkpoint, list_checkpoints
from arcslim.runs.lock import FolderLock
from arcslim.runs.places import content_of, lock_folder, refuse_content, refuse_no_run, set_aside
from arcslim.runs.redact import redact
from arcslim.runs.resuming import best_known, best_left, choose_checkpoint, delete_partial, move_aside, move_rows
from arcslim.runs.writing import JsonLines, as_number, read_rows, to_plain, write_json_atomic, write_text_atomic

EVENTS = ("start", "checkpoint", "restart", "oom", "skipped_step", "rollback", "warning", "stopped", "end")
SYNC_EVENTS = ("checkpoint", "stopped", "end")
SAMPLE_FIELDS = {
    "step", "group", "prompt_id", "task_id", "completion", "thinking", "answer", "reason", "cut_off",
    "thinking_tokens", "completion_tokens", "score", "advantage",
}  # fmt: skip
TASK_FIELDS = {"prompt_id", "task_id", "source", "family", "prompt", "task"}
BEST_METRIC = "eval/pass@1"
FINAL = "final"


class RunFolder:
    """A run's folder, locked for this process; a ``Sink``. Make one with ``create`` or ``resume``; close it at the end.

    Attributes:
        path: the folder.
        checkpoint: the checkpoint to go on from, None for a fresh start.
        notes: what the user should be told about how it was opened.
    """

    def __init__(self, path: Path, lock: FolderLock, checkpoint: Checkpoint | None = None) -> None:
        self.path = path
        self.checkpoint = checkpoint
        self.notes: list[str] = [] if lock.note is None else [lock.note]
        self._lock = lock
        self._metrics = JsonLines(path / "metrics.jsonl")
        self._samples = JsonLines(path / "samples.jsonl")
        self._events = JsonLines(path / "events.jsonl")
        self._tasks = JsonLines(path / "tasks.jsonl")
        self._past: tuple[str, ...] | None = None  # what a whole checkpoint holds, until what is past it is moved
        self._to_write: list[Callable[[], None]] = []
        self._known_prompts = {row.get("prompt_id") for row in read_rows(self._tasks.path)}

    # How a folder is opened -------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, *, move_aside: bool = False) -> RunFolder:
        """A new run in ``path``, which must be empty or absent; with ``move_aside`` what is there moves beside it.

        Raises:
            RunFolderError: it is not empty (and not ``move_aside``), is in use, or cannot be written.
        """
        path = Path(path)
        refuse_content(path, move_aside=move_aside)
        moved = set_aside(path) if content_of(path) else None
        folder = cls(path, lock_folder(path))
        if moved is not None:
            folder.notes.append(f"what was in {path} now lies in {moved}")
        return folder

    @classmethod
    def resume(
        cls, path: Path | str, which: str = "auto", *, required: Sequence[str] = (), rewind: bool = True
    ) -> RunFolder:
        """Go on with the run in ``path`` from the checkpoint ``which``: ``auto``, ``newest``, a name or a path.

        ``auto`` starts fresh where there is nothing. A checkpoint that is not whole is passed over with a note;
        ``required`` names files that a whole one must hold beside the trainer's. Rows and checkpoints past the chosen
        step move to ``*.lost.jsonl`` and ``lost/``, so that a step appears once; with ``rewind`` False not before
        ``rewind()`` is called, so that a run which cannot go on after all leaves the folder as it was.

        Raises:
            RunFolderError: nothing to resume from, not a run folder, in use, or cannot be written.
        """
        path = Path(path)
        if not content_of(path) and which == "auto":
            return cls(path, lock_folder(path))
        refuse_no_run(path)
        lock = lock_folder(path)
        try:
            checkpoint, notes = choose_checkpoint(path, which, tuple(required))
            # A fresh start may have other prompts under the same ids; on a resume only torn lines go.
            move_rows(path / "tasks.jsonl", lambda row: checkpoint is not None and "prompt_id" in row)
            move_rows(path / "events.jsonl", lambda row: "event" in row)
            folder = cls(path, lock, checkpoint)
            folder._past = tuple(required)
            more = folder.rewind() if rewind or checkpoint is None else []
        except BaseException:
            lock.release()
            raise
        folder.notes = [*notes, *folder.notes, *more]
        source = "from the start: no checkpoint yet" if checkpoint is None else f"from {checkpoint.name}"
        folder.event(folder.start_step, "restart", "; ".join([f"goes on {source}", *folder.notes]))
        return folder

    def when_it_goes_on(self, write: Callable[[], None]) -> None:
        """Call ``write`` when nothing can keep the run from going on any more: at once, or at the end of ``rewind``.

        What a run that is refused leaves behind must not be its settings.
        """
        if self._past is None:
            write()
        else:
            self._to_write.append(write)

    def rewind(self) -> list[str]:
        """Move what lies past the checkpoint that the run goes on from; what was moved, in words. Once is enough."""
        if self._past is None:
            return []
        required, self._past = self._past, None
        path, step, notes = self.path, -1 if self.checkpoint is None else self.checkpoint.step, []
        moved = {name: move_rows(path / f"{name}.jsonl", _up_to(step)) for name in ("metrics", "samples")}
        past = [found for found in list_checkpoints(path) if found.step > step]
        made_of_them = [path / FINAL] if past and (path / FINAL).is_dir() else []
        for place in (*(found.path for found in past), *made_of_them):
            notes.append(f"{place.name} lies past step {max(step, 0)}: moved to {move_aside(path, place)}")
        if self.best is None or not (path / self.best).is_dir():
            known = None if self.checkpoint is None else best_known(self.checkpoint.path, required)
            left = list_checkpoints(path, required)
            self._set_best(known if known is not None else best_left(path / "metrics.jsonl", left, BEST_METRIC))
        if any(moved.values()):
            counts = ", ".join(f"{count} of {name}.jsonl" for name, count in moved.items() if count)
            notes.append(f"rows past step {max(step, 0)} moved to *.lost.jsonl: {counts}")
        notes += [f"{name}, half written by a process that was killed, is deleted" for name in delete_partial(path)]
        while self._to_write:
            self._to_write.pop(0)()
        return notes

    # What a recipe asks ------------------------------------------------------------------------------------------

    @property
    def start_step(self) -> int:
        """Optimizer steps that are done already: 0, or the checkpoint's."""
        return 0 if self.checkpoint is None else self.checkpoint.step

    @property
    def best(self) -> str | None:
        """The name of the best checkpoint, as the file ``best`` has it."""
        try:
            name = (self.path / "best").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        return name if NAME.fullmatch(name) else None

    def mark_best(self, step: int) -> None:
        """``checkpoint-STEP`` is the best so far: say so in ``best``, and keep it when older ones go."""
        self._set_best(f"checkpoint-{step}")

    def _set_best(self, name: str | None) -> None:
        if name is None:
            (self.path / "best").unlink(missing_ok=True)
        else:
            write_text_atomic(self.path / "best", name + "\n")

    def prune(self, keep: int, best: int | None = None) -> list[str]:
        """Delete the oldest checkpoints beyond the newest ``keep``; the names deleted.

        Never the best (``best`` as a step, and the one named by the file ``best``), never a half-written one (it may be
        being written), and at least one whole checkpoint stays.
        """
        protected = {self.best, None if best is None else f"checkpoint-{best}"}
        whole = [item for item in list_checkpoints(self.path) if item.fault is None]
        old = [item for item in whole[: -max(keep, 1)] if item.name not in protected]
        for item in old:
            # Renamed first: a deletion that is cut short must not leave something that looks like a checkpoint.
            doomed = item.path.with_name(f".deleting-{item.name}")
            os.rename(item.path, doomed)
            shutil.rmtree(doomed)
        return [item.name for item in old]

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the folder, whole or not at all."""
        write_text_atomic(self.path / name, text)

    def write_json(self, name: str, value: Any) -> None:
        write_json_atomic(self.path / name, value)

    # Sink --------------------------------------------------------------------------------------------------------

    def metrics(self, step: int, kind: Literal["train", "eval", "test"], values: Mapping[str, Any]) -> None:
        """Append a row of figures. What is no finite number is left out and told as an event."""
        numbers = {name: as_number(value) for name, value in values.items()}
        row = {name: number for name, number in numbers.items() if number is not None}
        self._metrics.append([{"step": int(step), "time": _now(), "kind": kind, "values": row}])
        lost = [f"{name} is {_shown(values[name])}" for name, number in numbers.items() if number is None]
        if lost:
            self.event(step, "warning", f"left out of metrics.jsonl ({kind}): {', '.join(lost)}")

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rollouts. A number that is not finite becomes null and is told as an event."""
        plain = []
        lost: dict[int, list[str]] = {}
        for row in rows:
            _check_fields(row, SAMPLE_FIELDS, "sample")
            clean, missing = to_plain(row)
            plain.append(clean)
            if missing:
                lost.setdefault(clean["step"], []).extend(missing)
        self._samples.append(plain)
        for step, names in lost.items():
            places = ", ".join(f"{name} ({names.count(name)} rows)" for name in sorted(set(names)))
            self.event(step, "warning", f"not finite, so null in samples.jsonl: {places}")

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append tasks whose ``prompt_id`` is new."""
        plain = []
        for row in rows:
            _check_fields(row, TASK_FIELDS, "task")
            if row["prompt_id"] not in self._known_prompts:
                self._known_prompts.add(row["prompt_id"])
                plain.append(to_plain(row)[0])
        if plain:
            self._tasks.append(plain)

    def event(self, step: int, event: str, detail: str) -> None:
        """Append an event. After ``checkpoint``, ``stopped`` and ``end`` everything is on the disk."""
        if event not in EVENTS:
            raise ValueError(f"no event {event!r}; known: {', '.join(EVENTS)}")
        self._events.append([{"time": _now(), "step": int(step), "event": event, "detail": redact(detail)}])
        if event in SYNC_EVENTS:
            for file in (self._tasks, self._samples, self._metrics, self._events):
                file.sync()

    def progress(self, step: int, total: int, **facts: Any) -> None:
        """Nothing: only live views show it."""

    def close(self) -> None:
        """Force everything to the disk and free the lock."""
        for file in (self._tasks, self._samples, self._metrics, self._events):
            file.close()
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: Any) -> str:
    return repr(value)[:40]


def _up_to(step: int) -> Any:
    return lambda row: isinstance(row.get("step"), int) and row["step"] <= step


def _check_fields(row: Mapping[str, Any], fields: set[str], what: str) -> None:
    missing = fields - row.keys()
    if missing:
        raise ValueError(f"a {what} row lacks {', '.join(sorted(missing))}")
