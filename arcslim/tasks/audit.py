"""Look through data before anything is trained on it: what cannot be read, what is there twice, what is held out.

Sources are read one row at a time; of each only some 300 bytes stay in memory.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from arcslim.errors import TaskError
from arcslim.tasks.arc import Refused
from arcslim.tasks.built import read_built
from arcslim.tasks.content import canonical_key, pair_key
from arcslim.tasks.lines import Unreadable
from arcslim.tasks.reading import READERS, Read, existing, read_tasks
from arcslim.tasks.rearc import SOURCE as GENERATED
from arcslim.tasks.rows import ROW_KINDS, read_rows
from arcslim.tasks.sameness import Prints, how_alike, prints_of
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
class _Index:
    """Contents seen so far, and where."""

    of_content: dict[bytes, int] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    prints: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, task: Task, keys: Iterable[bytes], place: str) -> None:
        number = len(self.places)
        self.places.append(place)
        self.prints.extend(prints_of(task))
        for key in keys:
            self.of_content.setdefault(key, number)

    def find(self, keys: Iterable[bytes]) -> int | None:
        return next((self.of_content[key] for key in keys if key in self.of_content), None)

    def prints_at(self, number: int) -> Prints:
        one, two, three, four = self.prints[4 * number : 4 * number + 4]
        return one, two, three, four


class Audit:
    """Looks through sources one after the other; ``hold`` first what is not to be trained on."""

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs
        self.looked: list[Looked] = []
        self.held = 0
        self._held = _Index()
        self._secret: dict[bytes, str] = {}  # pairs of held-out tasks, up to symmetry and colours
        self._secret_exact: dict[bytes, str] = {}  # test pairs of held-out generated tasks, as they stand
        self._seen = _Index()
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

    def look(self, spec: Spec) -> Iterator[Finding]:
        """Look through a source; a built folder's own held-out sets are held out, and only its training set looked at.

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
            keys = _keys(task)
            leak = self._leak(task, keys)
            before = self._seen.find(keys)
            if leak is not None:
                looked.leaks += 1
                yield Finding("leak", place, leak)
            elif before is not None:
                looked.duplicates += 1
                how = how_alike(prints_of(task), self._seen.prints_at(before))
                yield Finding("duplicate", place, f"is {self._seen.places[before]}: {how}")
            else:
                looked.usable += 1
                self._seen.add(task, keys, place)

    def _rows_of(self, spec: Spec) -> Iterator[Read]:
        if spec.kind != BUILT:
            yield from read_tasks(spec, self.pairs)
            return
        built = read_built(existing(spec))
        for name, tasks in built.held.items():
            for task in tasks:
                self._hold(f"{spec.name}/{name}: {task.task_id}", task)
        for task in built.sets.get("train", ()):
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
        self.held += 1
        self._held.add(task, _keys(task), place)
        if task.source == GENERATED:
            self._secret_exact.update((pair.key(), place) for pair in task.test)
        else:
            self._secret.update((pair_key(pair), place) for pair in (*task.train, *task.test))

    def _leak(self, task: Task, keys: Iterable[bytes]) -> str | None:
        held = self._held.find(keys)
        if held is not None:
            return f"is held out as {self._held.places[held]}: {how_alike(prints_of(task), self._held.prints_at(held))}"
        for pair in (*task.train, *task.test):
            place = self._secret_exact.get(pair.key()) or (self._secret and self._secret.get(pair_key(pair)))
            if place:
                return f"shows a pair of {place}, which is held out"
        return None


def _malformed(row: Refused) -> Finding:
    detail = row.detail.removeprefix(f"{row.where}: ")  # a message of a whole file names it too
    return Finding("malformed", row.where, f"{row.reason}: {detail}")


def _keys(task: Task) -> list[bytes]:
    """What the task is, and what it is with each of its tests alone."""
    whole = canonical_key(task)
    return [whole] if len(task.test) == 1 else [whole, *map(canonical_key, task.for_each_test())]
