"""A built folder: training tasks and held-out sets as parquet, and ``manifest.json``, which says what they came from.

Nothing in it depends on the clock or on where it lies: the same input gives the same bytes. It is read back only if
each file is what the manifest says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arcslim.errors import TaskError
from arcslim.tasks.arc import parse_task
from arcslim.tasks.grid import Grid
from arcslim.tasks.jsonfile import read_json
from arcslim.tasks.spec import MANIFEST
from arcslim.tasks.task import Pair, Task

FORMAT = 1
PIECE = 20_000  # tasks of one arrow array, whose offsets have 32 bits
SETS = ("train", "select", "test", "test_families", "test_arc1")
_REBUILD = "build it anew with `arcslim data build`"


@dataclass(frozen=True)
class Built:
    """A folder's tasks by set (those that are not empty), and its manifest."""

    sets: dict[str, tuple[Task, ...]]
    manifest: dict[str, Any]

    @property
    def held(self) -> dict[str, tuple[Task, ...]]:
        return {name: tasks for name, tasks in self.sets.items() if name != "train"}


def write_built(folder: Path, sets: Mapping[str, Sequence[Task]], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sets and the manifest into an empty folder; ``about`` is what the manifest says beside the sets.

    Returns the manifest, whose ``content_hash`` stands for the grids, ids and order of all sets alone.
    """
    listed: dict[str, Any] = {}
    for name in SETS:
        tasks = sets.get(name, ())
        if not tasks:
            continue
        path = folder / f"{name}.parquet"
        _write_parquet(path, tasks)
        listed[name] = {
            "file": path.name,
            "tasks": len(tasks),
            "sha256": file_hash(path),
            "content_hash": content_hash(tasks),
        }
        if name != "train":
            listed[name]["task_ids"] = [task.task_id for task in tasks]
    whole = hashlib.sha256("".join(f"{name} {item['content_hash']}\n" for name, item in listed.items()).encode())
    manifest = {"format": FORMAT, "content_hash": whole.hexdigest(), "sets": listed, **about}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest


def read_built(folder: Path) -> Built:
    """Read a built folder.

    Raises:
        TaskError: it is none (``not_built``), a file is not what the manifest says (``changed``), or cannot be read.
    """
    manifest = read_manifest(folder)
    sets: dict[str, tuple[Task, ...]] = {}
    for name, item in manifest["sets"].items():
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise TaskError("changed", f"{path}: no such file, and the manifest names it", _REBUILD)
        if file_hash(path) != item.get("sha256"):
            raise TaskError("changed", f"{path} is not what the manifest says: it was changed", _REBUILD)
        sets[name] = tuple(_read_parquet(path))
    return Built(sets, manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest alone.

    Raises:
        TaskError: it cannot be read, or is of another kind or format (``not_built``).
    """
    path = folder / MANIFEST
    manifest = read_json(path)
    sets = manifest.get("sets") if isinstance(manifest, dict) else None
    if not isinstance(sets, dict) or not set(sets) <= set(SETS) or not all(isinstance(s, dict) for s in sets.values()):
        raise TaskError("not_built", f"{path} is no manifest of `arcslim data build`", _REBUILD)
    if manifest.get("format") != FORMAT:
        raise TaskError("not_built", f"{path} has the format {manifest.get('format')!r}, not {FORMAT}", _REBUILD)
    data = manifest.get("data")
    families = data.get("holdout_families") if isinstance(data, dict) else None
    if not isinstance(families, list) or not all(isinstance(name, str) for name in families):
        raise TaskError("not_built", f"{path} does not say which generators are held out", _REBUILD)
    return manifest


def content_hash(tasks: Iterable[Task]) -> str:
    """Of the ids and grids of these tasks, in this order."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(f"{task.task_id}\n{task.content_hash()}\n".encode())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_parquet(path: Path, tasks: Sequence[Task]) -> None:
    import datasets
    import pyarrow as pa
    from datasets import Dataset, Features, List, Value

    grid = List(List(Value("int8")))
    pairs = List({"input": grid, "output": grid})
    text = Value("string")
    features = Features({"task_id": text, "source": text, "family": text, "train": pairs, "test": pairs})
    schema = features.arrow_schema
    pieces = [tasks[start : start + PIECE] for start in range(0, len(tasks), PIECE)]
    table = pa.concat_tables([pa.Table.from_arrays(_columns(some), schema=schema) for some in pieces])
    silent = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        Dataset(table).to_parquet(str(path))
    finally:
        if not silent:
            datasets.enable_progress_bars()


def _columns(tasks: Sequence[Task]) -> list[Any]:
    import pyarrow as pa

    texts = [[task.task_id for task in tasks], [task.source for task in tasks], [task.family for task in tasks]]
    pairs = [[task.train for task in tasks], [task.test for task in tasks]]
    return [*map(pa.array, texts), *map(_pairs_column, pairs)]


def _pairs_column(pairs: Sequence[Sequence[Pair]]) -> Any:
    """Lists of pairs as one arrow array, without a Python number for each cell."""
    import pyarrow as pa

    flat = [pair for some in pairs for pair in some]
    grids = [_grids_column([pair.input for pair in flat]), _grids_column([pair.output for pair in flat])]
    return pa.ListArray.from_arrays(_offsets(map(len, pairs)), pa.StructArray.from_arrays(grids, ["input", "output"]))


def _grids_column(grids: Sequence[Grid | None]) -> Any:
    import pyarrow as pa

    known = [grid for grid in grids if grid is not None]
    cells = pa.array(np.concatenate([grid.cells.ravel() for grid in known]) if known else np.empty(0, np.int8))
    rows = pa.ListArray.from_arrays(_offsets(grid.width for grid in known for _ in range(grid.height)), cells)
    heights = _offsets(0 if grid is None else grid.height for grid in grids)
    absent = pa.array([grid is None for grid in grids], pa.bool_())
    return pa.ListArray.from_arrays(heights, rows, mask=absent)


def _offsets(lengths: Iterable[int]) -> Any:
    import pyarrow as pa

    return pa.array(np.cumsum([0, *lengths]), pa.int32())


def _read_parquet(path: Path) -> Iterator[Task]:
    """Not by ``datasets``, which would keep a copy of its own in a cache."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=256):
            for row in batch.to_pylist():
                task = parse_task({"train": row["train"], "test": row["test"]}, row["task_id"], row["source"])
                yield Task(task.task_id, task.source, row["family"], task.train, task.test)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise TaskError("not_built", f"{path} cannot be read: {error}", _REBUILD) from error
