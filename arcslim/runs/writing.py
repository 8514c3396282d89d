"""Files that survive a power cut: atomic replacement, and JSON lines that are appended, flushed and read back torn."""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from arcslim.errors import ArcslimError
from arcslim.tasks.grid import Grid


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` when the block ends well: old content or new, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text_atomic(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 by ``atomic_file``."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json_atomic(path: Path, value: Any) -> None:
    """The same for a JSON document; numbers that are not finite become null."""
    plain, _ = to_plain(value)
    write_text_atomic(path, json.dumps(plain, indent=2) + "\n")


def sync_folder(path: Path) -> None:
    """Make a folder's names (after a create or a rename) reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_number(value: Any) -> float | None:
    """``value`` as a finite float, or None. Python's, numpy's and torch's scalars count as numbers; text does not."""
    if isinstance(value, (str, bytes)) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: torch, for more than one element
        return None
    return number if math.isfinite(number) else None


def to_plain(value: Any) -> tuple[Any, list[str]]:
    """``value`` as JSON knows it, and the paths (``score.total``) of numbers left out because they are not finite.

    Raises:
        TypeError: something that is neither JSON, nor a grid, nor an array or scalar of numpy or torch.
    """
    lost: list[str] = []
    return _plain(value, "", lost), lost


def _plain(value: Any, path: str, lost: list[str]) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        lost.append(path)
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}.{key}".lstrip("."), lost) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, path, lost) for item in value]
    if isinstance(value, Grid):
        return value.rows()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)) or hasattr(value, "tolist"):  # torch's tensors have tolist as well
        return _plain(value.tolist(), path, lost)
    raise TypeError(f"{path or 'value'}: {type(value).__name__} cannot be written as JSON")


class JsonLines:
    """A file of JSON objects, one a line, that is only appended to. ``sync`` forces what was written to the disk.

    ASCII only, so that no character inside a text can be taken for the end of a line by any reader.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._torn = False

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append rows of plain values (see ``to_plain``).

        Raises:
            ArcslimError: the disk is full, or the folder went away.
        """
        data = b"".join(json.dumps(row, allow_nan=False).encode("ascii") + b"\n" for row in rows)
        try:
            if self._file is None:
                self._file = self.path.open("ab", buffering=0)
            # A write that failed half-way left half a line: never glue the next row to it.
            left = memoryview(b"\n" + data if self._torn else data)
            while left:
                self._torn = True
                left = left[self._file.write(left) :]
            self._torn = False
        except OSError as error:
            raise ArcslimError(
                f"cannot write {self.path}: {error.strerror or error}",
                "Free some space or mend the folder, then go on with --resume newest.",
            ) from error

    def sync(self) -> None:
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe or device, which has no disk to reach
                raise

    def close(self) -> None:
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None


@dataclass(frozen=True)
class Line:
    """One line of a file of JSON lines: its row, or None where it is torn or no JSON object."""

    raw: bytes
    row: dict[str, Any] | None


def read_lines(path: Path) -> Iterator[Line]:
    """Each line of ``path`` without its end; nothing where there is no file. Blank lines are passed over.

    A last line without its end is whole if it parses: an object that was cut has no closing brace.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for raw in file:
            raw = raw.rstrip(b"\n")
            if raw.strip():
                yield Line(raw, _row(raw))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole rows of ``path``; torn lines are passed over (resuming moves them away)."""
    for line in read_lines(path):
        if line.row is not None:
            yield line.row


def _row(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
