"""Rows of reasoning data: JSONL (plain or gzip), parquet, a data set of the hub, and a GRPO run's samples.

A line that cannot be read is data: it is counted with its place and reason, and the rest is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.errors import TaskError
from arcslim.tasks.hub import hub_rows
from arcslim.tasks.lines import Line, Unreadable, read_lines
from arcslim.tasks.spec import HUB, ROWS, SAMPLES, Spec

ROW_KINDS = (ROWS, HUB, SAMPLES)
LONGEST_LINE = 64 * 1024 * 1024  # bytes; a longer one is no row of text


@dataclass(frozen=True)
class Row:
    """``place`` is where it stands, as ``file.jsonl:12``."""

    place: str
    values: Mapping[str, Any]


def read_rows(spec: Spec) -> Iterator[Row | Unreadable]:
    """The rows of a source of kind ``rows``, ``hub`` or ``samples``, in their order.

    Raises:
        InputError: the source cannot be opened at all.
    """
    if spec.kind == HUB:
        return _hub(spec.argument)
    path = Path(spec.argument).expanduser()
    if spec.kind == SAMPLES and path.is_dir():
        path = path / "samples.jsonl"
    if not path.is_file():
        raise TaskError("not_found", f"no such file: {path}")
    if path.name.endswith(".parquet"):
        return _parquet(path)
    return _json_lines(path)


def _json_lines(path: Path) -> Iterator[Row | Unreadable]:
    for line in read_lines(path, LONGEST_LINE):
        yield line if isinstance(line, Unreadable) else _parse(line)


def _parse(line: Line) -> Row | Unreadable:
    try:
        values = json.loads(line.text)
    except (ValueError, RecursionError) as error:  # a number with thousands of digits is a ValueError too
        return Unreadable(line.place, "not_json", f"not JSON: {str(error) or 'nested too deep'}")
    if not isinstance(values, dict):
        return Unreadable(line.place, "not_an_object", f"a row is an object, not {type(values).__name__}")
    return Row(line.place, values)


def _parquet(path: Path) -> Iterator[Row | Unreadable]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise TaskError("not_parquet", f"{path} is no parquet file: {error}") from error
    number = 0
    try:
        for batch in file.iter_batches(batch_size=256):
            for values in batch.to_pylist():
                number += 1
                yield Row(f"{path.name}:{number}", values)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: a text that is not UTF-8
        yield Unreadable(f"{path.name}:{number + 1}", "unreadable", f"reading stopped: {error}")


def _hub(argument: str) -> Iterator[Row | Unreadable]:
    name, _, split = argument.partition("@")
    name, _, config = name.partition(":")
    rows = hub_rows(
        name,
        wrong=f"the data set {name} cannot be read from the hub",
        hint=f"no file or folder is called {name} either; with no network, give a local JSONL or parquet file",
        config=config or None,
        split=split or "train",
        streaming="[" not in split,  # a slice is cut from the whole, which is downloaded then
    )
    for number, values in enumerate(rows, 1):
        yield Row(f"{name}:{number}", values)
