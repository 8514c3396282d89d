"""Lines of a text file that may be large: one at a time, plain or gzip, each with its place.

A line that cannot be used is data: it is handed on with its place and reason, and reading goes on.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from arcslim.errors import TaskError


@dataclass(frozen=True)
class Line:
    """``place`` is where it stands, as ``file.jsonl:12``."""

    place: str
    text: str


@dataclass(frozen=True)
class Unreadable:
    """A line without use: where it stands, a short name to count by, and what is wrong."""

    place: str
    reason: str
    words: str


def read_lines(path: Path, longest: int) -> Iterator[Line | Unreadable]:
    """The lines of a UTF-8 file without its blank ones; ``.gz`` is unpacked on the way.

    A line over ``longest`` bytes is ``too_long_line`` and is never held whole; where reading stops (a gzip file that
    is cut off) stands an ``unreadable``.

    Raises:
        TaskError: the file cannot be opened (``not_found``, ``unreadable``), or holds no line (``empty``).
    """
    try:
        if not path.exists():
            raise TaskError("not_found", f"{path}: no such file")
        if not path.is_file():  # a pipe or a device may never end
            raise TaskError("unreadable", f"{path}: a file of lines is needed")
        file = gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise TaskError("unreadable", f"{path}: {error.strerror or 'cannot be read'}") from error
    number, empty = 0, True
    with file:
        try:
            while raw := file.readline(longest + 1):
                number += 1
                place = f"{path.name}:{number}"
                if len(raw) > longest and not raw.endswith(b"\n"):
                    while raw and not raw.endswith(b"\n"):  # to the end of that line, without holding it
                        raw = file.readline(2**20)
                    empty = False
                    yield Unreadable(place, "too_long_line", f"over {longest >> 20} MiB in one line")
                elif raw.strip():
                    empty = False
                    yield _decoded(raw, place)
        except (OSError, EOFError, zlib.error) as error:
            yield Unreadable(f"{path.name}:{number + 1}", "unreadable", f"reading stopped: {error}")
            return
    if empty:
        raise TaskError("empty", f"{path}: an empty file")


def _decoded(raw: bytes, place: str) -> Line | Unreadable:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Unreadable(place, "encoding", f"byte {error.start + 1} of the line is not UTF-8")
    return Line(place, text)
