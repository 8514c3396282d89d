"""Look through data before anything is trained on it: what cannot be read, what is there twice, what is held out.

Sources are read one row at a time; of each only some 300 bytes stay in memory. What is a leak is decided where a run
decides it (``leaks.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from arcslim.errors import TaskError
from arcslim.tasks.arc import Refused
from arcslim.tasks.built import read_built
from arcslim.tasks.content import content_keys
from arcslim.tasks.leaks import HeldOut
from arcslim.tasks.lines import Unreadable
from arcslim.tasks.reading import READERS, Read, existing, read_tasks
from arcslim.tasks.rows import ROW_KINDS, read_rows
from arcslim.tasks.sameness import how_alike, prints_of
from arcslim.tasks.spec import BUILT, Spec
from arcslim.tasks.task import Task


@dataclass(frozen=True)
class Finding:
    """``what``: ``malformed``, ``duplicate`` or ``leak``; ``words`` say it of the row at ``place``."""

    what: str
    place: str
    words: str


@dataclass
class Looked:
    """What a source came to: ``read`` = ``usable`` + malformed (by reason) + ``duplicates`` + ``leaks``."""

    name: str
    read: int = 0
    usable: int = 0
    duplicates: int = 0
    leaks: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    drawn: bool = False  # a generator: there is nothing to read

    def as_dict(self) -> dict[str, int]:
        dropped = {"duplicate": self.duplicates, "leak": self.leaks, **dict(sorted(self.malformed.items()))}
        return {"read": self.read, "kept": self.usable} | {name: n for name, n in dropped.items() if n}


@dataclass
class _Listed:
    """Where tasks were seen, and what tells in which way another one is the same; by number, from 0."""

    places: list[str] = field(default_factory=list)
    prints: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, task: Task, place: str) -> int:
        self.places.append(place)
        self.prints.extend(prints_of(task))
        return len(self.places) - 1

    def alike(self, task: Task, number: int) -> str:
        """In which way ``task`` is the one with that number."""
        one, two, three, four = self.prints[4 * number : 4 * number + 4]
        return how_alike(prints_of(task), (one, two, three, four))


class Audit:
    """Looks through sources one after the other; ``hold`` and ``hold_brought`` first what is not to be trained on."""

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs
        self.looked: list[Looked] = []
        self.held = HeldOut()
        self._held_listed = _Listed()
        self._contents: dict[bytes, int] = {}
        self._listed = _Listed()
        self._rows: dict[bytes, str] = {}

    def hold(self, spec: Spec) -> Iterator[Finding]:
        """Hold out every task of a source: what cannot be read of it is told.

        Raises:
            TaskError, InputError: it cannot be read at all.
        """
        for row in read_tasks(spec, self.pairs):
            if isinstance(row, Refused):
                yield _malformed(row)
            else:
                self._hold(*row)

    def hold_brought(self, spec: Spec) -> None:
        """Hold out what a source holds out itself: a built folder's own sets."""
        if spec.kind != BUILT:
            return
        with contextlib.suppress(TaskError):  # told when it is looked at, where the same is read again
            for name, tasks in read_built(existing(spec)).held.items():
                for task in tasks:
                    self._hold(f"{spec.name}/{name}: {task.task_id}", task)

    def look(self, spec: Spec) -> Iterator[Finding]:
        """Look through a source; of a built folder at its training set.

        Raises:
            TaskError: there is no such file or folder, or no network.
        """
        looked = Looked(spec.name, drawn=spec.kind not in READERS and spec.kind not in ROW_KINDS)
        self.looked.append(looked)
        if looked.drawn:
            return
        try:
            yield from self._look_at_rows(spec, looked) if spec.kind in ROW_KINDS else self._look_at_tasks(spec, looked)
        except TaskError as error:
            if error.reason == "not_found":
                raise
            looked.read += 1
            looked.malformed[error.reason] += 1
            yield _malformed(Refused(spec.name, error.reason, error.message))

    def _look_at_tasks(self, spec: Spec, looked: Looked) -> Iterator[Finding]:
        for row in self._rows_of(spec):
            looked.read += 1
            if isinstance(row, Refused):
                looked.malformed[row.reason] += 1
                yield _malformed(row)
                continue
            place, task = row
            keys = content_keys(task)
            leak = self._leak(task)
            before = next((self._contents[key] for key in keys if key in self._contents), None)
            if leak is not None:
                looked.leaks += 1
                yield Finding("leak", place, leak)
            elif before is not None:
                looked.duplicates += 1
                words = f"is {self._listed.places[before]}: {self._listed.alike(task, before)}"
                yield Finding("duplicate", place, words)
            else:
                looked.usable += 1
                number = self._listed.add(task, place)
                for key in keys:
                    self._contents.setdefault(key, number)

    def _rows_of(self, spec: Spec) -> Iterator[Read]:
        if spec.kind != BUILT:
            yield from read_tasks(spec, self.pairs)
            return
        for task in read_built(existing(spec)).sets.get("train", ()):
            yield f"{spec.name}/train: {task.task_id}", task

    def _look_at_rows(self, spec: Spec, looked: Looked) -> Iterator[Finding]:
        for row in read_rows(spec):
            looked.read += 1
            if isinstance(row, Unreadable):
                looked.malformed[row.reason] += 1
                yield Finding("malformed", row.place, f"{row.reason}: {row.words}")
                continue
            content = json.dumps(row.values, sort_keys=True, default=str).encode("utf-8", "backslashreplace")
            before = self._rows.setdefault(hashlib.sha256(content).digest()[:16], row.place)
            if before != row.place:
                looked.duplicates += 1
                yield Finding("duplicate", row.place, f"is {before}: the same row")
            else:
                looked.usable += 1

    def _hold(self, place: str, task: Task) -> None:
        self.held.hold(task)
        self._held_listed.add(task, place)

    def _leak(self, task: Task) -> str | None:
        leak = self.held.find(task)
        if leak is None:
            return None
        place = self._held_listed.places[leak.number]
        if leak.reason == "held_out":
            return f"is held out as {place}: {self._held_listed.alike(task, leak.number)}"
        return f"shows a pair of {place}, which is held out"


def _malformed(row: Refused) -> Finding:
    detail = row.detail.removeprefix(f"{row.where}: ")  # a message of a whole file names it too
    return Finding("malformed", row.where, f"{row.reason}: {detail}")
