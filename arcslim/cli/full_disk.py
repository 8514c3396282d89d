"""A disk that is full, in words, whoever met it; and room made of the checkpoint that did not fit."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from arcslim.errors import ArcslimError
from arcslim.runs.checkpoints import list_checkpoints

FULL = (errno.ENOSPC, errno.EDQUOT)
NEXT_TO_NOTHING = 1 << 20  # bytes free: torch's own writer says nothing of the disk when it fails


@contextlib.contextmanager
def disk_explained(folder: Path, resume: str) -> Iterator[None]:
    """Turn a failure for want of room into one that says so. A checkpoint that was cut off half-way is deleted: nothing
    can go on from it, and what it holds is needed to save the next one. ``resume`` says how to go on.

    Raises:
        ArcslimError: the disk is full.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not _is_full(error, folder):
            raise
        named = getattr(error, "filename", None)
        deleted = _delete_half_written(folder)
        freed = f"; {deleted}, which was cut off, is deleted" if deleted else ""
        raise ArcslimError(
            f"the disk of {folder} is full{f': {named} could not be written' if named else ''}{freed}",
            f"free some space there (what was saved before is whole), then {resume}",
        ) from error


def _is_full(error: OSError | RuntimeError, folder: Path) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in FULL
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < NEXT_TO_NOTHING or "No space left" in str(error)
    return False


def _delete_half_written(folder: Path) -> str:
    newest = list_checkpoints(folder)[-1:]
    for checkpoint in newest:
        if checkpoint.fault is not None:
            shutil.rmtree(checkpoint.path, ignore_errors=True)
            return checkpoint.name
    return ""
