"""Where a run may live: naming a new folder, seeing what is in one, locking it, moving old content out of the way."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from pathlib import Path

from arcslim.errors import RunFolderError
from arcslim.runs.checkpoints import NAME
from arcslim.runs.lock import LOCK_FILE, FolderLock

OWN_FILES = ("resolved.toml", "metrics.jsonl", "samples.jsonl", "events.jsonl", "tasks.jsonl", "environment.json")
# What a freshly mounted disk or a listing by another program leaves in an empty folder.
IGNORED = ("lost+found", ".DS_Store", LOCK_FILE)


def fresh_run_dir(recipe: str, preset: str | None, base: Path = Path("runs")) -> Path:
    """Make and return ``base/RECIPE-PRESET-YYYYmmdd-HHMMSS``; two runs of the same second get different folders.

    Raises:
        RunFolderError: nothing can be written there (a read-only working directory).
    """
    label = re.sub(r"[^\w.-]+", "-", Path(preset).stem if preset else "custom").strip("-.") or "custom"
    name = f"{recipe}-{label}-{datetime.now():%Y%m%d-%H%M%S}"
    number = 1
    while True:
        path = base / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            if not base.is_dir():
                raise RunFolderError(f"{base} is a file", "Name another place with --run-dir PATH.") from None
            number += 1
        except OSError as error:
            raise cannot_write(path, error) from error
        else:
            return path


def content_of(path: Path) -> list[str]:
    """Names in the folder that somebody put there; nothing where there is no folder."""
    try:
        return sorted(entry.name for entry in path.iterdir() if entry.name not in IGNORED)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise RunFolderError(f"{path} is a file, not a folder", "Choose another name with --run-dir.") from None
    except OSError as error:
        raise cannot_write(path, error) from error


def refuse_content(path: Path, *, move_aside: bool) -> None:
    """A new run wants an empty place. Raises RunFolderError where it is not, unless what is there may move aside."""
    if content_of(path) and not move_aside:
        raise RunFolderError(
            f"the run folder {path} is not empty",
            "Go on with its run by --resume auto, choose another name with --run-dir, or move what is there out of the "
            "way with --force.",
        )


def refuse_no_run(path: Path) -> None:
    """Raises RunFolderError where there is no run to go on with."""
    content = content_of(path)
    if not content:
        raise RunFolderError(f"nothing to resume in {path}", "Leave --resume out, or use --resume auto.")
    if not is_run_folder(path):
        raise RunFolderError(
            f"{path} is not empty, and not a run folder: it holds {', '.join(content[:3])}",
            "Choose another name with --run-dir.",
        )


def is_run_folder(path: Path) -> bool:
    return any((path / name).is_file() for name in OWN_FILES) or any(
        NAME.fullmatch(entry.name) for entry in path.iterdir()
    )


def lock_folder(path: Path) -> FolderLock:
    try:
        path.mkdir(parents=True, exist_ok=True)
        return FolderLock(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"the run folder {path} cannot be used: {error.strerror or error}",
        "Name a place that can be written with --run-dir PATH.",
    )


def set_aside(path: Path) -> Path:
    """Move the content of ``path`` to a new folder beside it; where that went."""
    here, home, place = Path.cwd().resolve(), Path.home().resolve(), path.resolve()
    if here.is_relative_to(place) or home.is_relative_to(place):
        raise RunFolderError(
            f"--force would move {place}, which you are in or which holds your home folder",
            "Choose another name with --run-dir.",
        )
    lock = lock_folder(path)  # a run that is still going must not lose its folder
    try:
        target = place.with_name(f"{place.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{place.name}.before-{time.strftime('%Y%m%d-%H%M%S')}-{number}")
        os.rename(place, target)
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be moved out of the way: {error.strerror or error}", "Choose another name with --run-dir."
        ) from error
    finally:
        lock.release()
    return target
