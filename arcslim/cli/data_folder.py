"""A folder that a command under ``arcslim data`` makes: whole or not at all, and nothing that is there is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from arcslim.errors import InputError


def refuse_taken(out: Path, force: bool) -> None:
    """Before any work is done: an empty folder is no obstacle, and with ``force`` nothing is.

    Raises:
        InputError: something is there, or nothing can be made there.
    """
    if _is_taken(out) and not force:
        raise InputError(f"{out} is there already", "choose another --out, or move it aside with --force")
    parent = next(place for place in out.absolute().parents if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{out} cannot be made: {parent} cannot be written to", "choose another --out")


@contextlib.contextmanager
def new_folder(out: Path, console: Console) -> Iterator[Path]:
    """A folder that becomes ``out`` when the block ends well; nothing of it stays when it does not.

    Raises:
        InputError: it cannot be written.
    """
    from arcslim.runs.places import set_aside
    from arcslim.runs.writing import sync_folder

    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=out.absolute().parent, prefix=f".{out.name}.", suffix=".partial"))
    except OSError as error:
        raise InputError(f"{out} cannot be made: {error.strerror}") from error
    try:
        yield folder
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        folder.chmod(0o755)
        if _is_taken(out):
            console.print(f"what was in {out} now lies in {set_aside(out)}", markup=False, soft_wrap=True)
        os.rename(folder, out)
        sync_folder(out.absolute().parent)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_taken(out: Path) -> bool:
    return out.exists() and (not out.is_dir() or any(out.iterdir()))
