"""JSON files from elsewhere, read with every fault named: size, encoding, syntax, depth, repeated keys, NaN."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from arcslim.errors import TaskError

MAX_BYTES = 64 * 2**20  # parsed lists take some ten times the text; all of ARC-AGI-1 is 4 MB


def read_json(path: Path) -> Any:
    """The parsed content of a UTF-8 file, with or without a byte order mark.

    Raises:
        TaskError: with ``reason`` one of ``not_found``, ``unreadable``, ``too_big``, ``encoding``, ``empty``,
            ``not_json``, ``too_deep``, ``repeated_key``, ``not_finite``.
    """
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError("encoding", f"{path}: byte {error.start + 1} is not UTF-8", "save it as UTF-8") from error
    if not text.strip():
        raise TaskError("empty", f"{path}: an empty file")
    return parse_json(text, path)


def parse_json(text: str, path: Path | None = None) -> Any:
    """A JSON text, read as strictly: of one line where no ``path`` is given to name in messages.

    Raises:
        TaskError: with ``reason`` one of ``not_json``, ``too_deep``, ``repeated_key``, ``not_finite``.
    """
    before = "" if path is None else f"{path}: "
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if path is None else f"{path}:{error.lineno}:{error.colno}"
        raise TaskError("not_json", f"{place}: no JSON here: {error.msg}") from error
    except RecursionError as error:
        raise TaskError("too_deep", f"{before}lists within lists without end", "a grid is a list of rows") from error
    except TaskError as error:
        raise TaskError(error.reason, f"{before}{error.message}") from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise TaskError("not_json", f"{before}a number with thousands of digits") from error


def _read_bytes(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device may never end
            raise TaskError("unreadable", f"{path}: not a regular file")
        if found.st_size > MAX_BYTES:
            size = f"{found.st_size / 2**20:.0f} MB; at most {MAX_BYTES // 2**20} MB are read"
            raise TaskError("too_big", f"{path}: {size}", "split it into several files and give the folder")
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except FileNotFoundError as error:
        raise TaskError("not_found", f"{path}: no such file or folder") from error
    except OSError as error:
        raise TaskError("unreadable", f"{path}: {error.strerror or 'cannot be read'}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise TaskError("repeated_key", f"the key {twice[:80]!r} stands there twice")
    return content


def _refuse_constant(name: str) -> Any:
    raise TaskError("not_finite", f"{name} is no JSON, and no cell")
