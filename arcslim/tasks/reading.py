"""The tasks of a source that can be read to an end, one by one, each with its place; what cannot be read comes too."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from arcslim.errors import TaskError
from arcslim.tasks.arc import Loaded, Refused, files_at, load_arc1, load_path
from arcslim.tasks.barc import read_barc, stream_barc
from arcslim.tasks.built import read_built
from arcslim.tasks.spec import ARC1_SPLITS, BUILT, MANIFEST, PATH, Spec
from arcslim.tasks.task import Task

ARC2_PARTS = ("training", "evaluation")

Read = tuple[str, Task] | Refused
"""A task with its place, or why there is none."""


def read_tasks(spec: Spec, pairs: int, passed_over: Counter[str] | None = None) -> Iterator[Read]:
    """Read a source whose kind is in ``READERS``.

    ``pairs``: examples of a puzzle that are used at most where a file holds more than are needed (BARC);
    ``passed_over`` counts the pairs that were left out.

    Raises:
        TaskError: the source cannot be read at all.
        InputError: the hub, or a package, is not there.
    """
    return READERS[spec.kind](spec, pairs, Counter() if passed_over is None else passed_over)


def existing(spec: Spec) -> Path:
    """The path of a spec.

    Raises:
        TaskError: nothing is there; with a name that is close, if there is one.
    """
    path = Path(spec.argument).expanduser()
    if not path.exists():
        raise TaskError("not_found", f"no such file or folder: {spec.argument}", _near(path))
    return path


def files_of(spec: Spec) -> list[Path]:
    """The files that a source is read from; none of a generator, of data of a package, and of the hub.

    Raises:
        TaskError: they are not there.
    """
    if spec.kind not in (PATH, "arc2", "barc", BUILT) or not spec.argument:
        return []
    path = existing(spec)
    if spec.kind == BUILT:
        return [path / MANIFEST]  # which names the others by hash
    if spec.kind == "barc":
        return [path]
    return [file for part in (_parts(path) or [path]) for file in files_at(part)]


def _arc1(spec: Spec, pairs: int, passed_over: Counter[str]) -> Iterator[Read]:
    return _each(load_arc1(part, f"arc1:{part}") for part in ((spec.argument,) if spec.argument else ARC1_SPLITS))


def _arc2(spec: Spec, pairs: int, passed_over: Counter[str]) -> Iterator[Read]:
    """A folder of tasks, or ARC-AGI-2's repository, whose parts are folders."""
    path = existing(spec)
    parts = _parts(path)
    return _each(load_path(part, f"arc2:{part.name}") for part in parts) if parts else _each([load_path(path, "arc2")])


def _parts(path: Path) -> list[Path]:
    """The folders of ARC-AGI-2's repository; none where the path is a file or a folder of tasks itself."""
    if any(path.glob("*.json")):
        return []
    return [folder / part for folder in (path, path / "data") for part in ARC2_PARTS if (folder / part).is_dir()]


def _path(spec: Spec, pairs: int, passed_over: Counter[str]) -> Iterator[Read]:
    path = existing(spec)
    return _each([load_path(path, path.name)])


def _barc(spec: Spec, pairs: int, passed_over: Counter[str]) -> Iterator[Read]:
    return read_barc(existing(spec), pairs, passed_over) if spec.argument else stream_barc(pairs, passed_over)


def _built(spec: Spec, pairs: int, passed_over: Counter[str]) -> Iterator[Read]:
    for name, tasks in read_built(existing(spec)).sets.items():
        for task in tasks:
            yield f"{spec.name}/{name}: {task.task_id}", task


def _each(parts: Iterable[Loaded]) -> Iterator[Read]:
    for loaded in parts:
        yield from loaded.refused
        for task in loaded.tasks:
            yield f"{task.source}: {task.task_id}", task


READERS: dict[str, Callable[[Spec, int, Counter[str]], Iterator[Read]]] = {
    "arc1": _arc1,
    "arc2": _arc2,
    "barc": _barc,
    PATH: _path,
    BUILT: _built,
}


def _near(path: Path) -> str | None:
    """What stands beside a path that does not exist, if a name there is close to it."""
    if not path.parent.is_dir():
        return None
    names = difflib.get_close_matches(path.name, [item.name for item in path.parent.iterdir()], n=1, cutoff=0.6)
    return f"did you mean {path.with_name(names[0])}?" if names else None
