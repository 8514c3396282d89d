"""What resuming does to a run folder: choose a checkpoint, and move aside all that lies past it. Nothing is deleted but
what a killed process left half written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from arcslim.errors import RunFolderError
from arcslim.runs.checkpoints import Checkpoint, inspect_checkpoint, list_checkpoints
from arcslim.runs.writing import JsonLines, Line, atomic_file, read_lines, read_rows, sync_folder

LOST_FOLDER = "lost"


def choose_checkpoint(folder: Path, which: str, required: tuple[str, ...]) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint to go on from, and what to say about those that were passed over.

    ``auto`` and ``newest`` take the newest whole one; ``auto`` gives None where there is none. Anything else is a
    checkpoint's name in the folder, or the path of one.

    Raises:
        RunFolderError: there is no such checkpoint, or it is not whole.
    """
    if which not in ("auto", "newest"):
        return _named_checkpoint(folder, which, required), []
    notes: list[str] = []
    for checkpoint in reversed(list_checkpoints(folder, required)):
        if checkpoint.fault is None:
            return checkpoint, notes
        notes.append(f"{checkpoint.name} is half written ({checkpoint.fault}): passed over")
    if which == "newest":
        seen = "; ".join(notes) or "it holds none"
        raise RunFolderError(
            f"{folder} has no whole checkpoint to resume from: {seen}",
            "--resume auto starts from the first step where there is nothing to resume.",
        )
    return None, notes


def _named_checkpoint(folder: Path, which: str, required: tuple[str, ...]) -> Checkpoint:
    path = folder / which if (folder / which).is_dir() else Path(which)
    known = ", ".join(checkpoint.name for checkpoint in list_checkpoints(folder)) or "none"
    if not path.is_dir():
        raise RunFolderError(f"no checkpoint {which} in {folder}", f"There: {known}.")
    if path.resolve().parent != folder.resolve():
        raise RunFolderError(
            f"{which} is no checkpoint of the run folder {folder}: it lies in {path.parent}",
            f"Resume in its own folder (--run-dir {path.parent}), or start from it with --model {path}.",
        )
    checkpoint = inspect_checkpoint(folder / path.resolve().name, required)
    if checkpoint.fault is not None:
        raise RunFolderError(f"{which} cannot be resumed from: {checkpoint.fault}", f"There: {known}.")
    return checkpoint


def move_rows(path: Path, keep: Callable[[dict[str, object]], bool]) -> int:
    """Move the rows of ``path`` that are not to be kept, and torn lines, to ``*.lost.jsonl``; how many were moved.

    The lost file is on the disk before the kept rows replace ``path``: a crash in between repeats rows in the lost
    file, and loses none.
    """
    if not path.is_file():
        return 0
    lost_file = JsonLines(path.with_name(f"{path.stem}.lost.jsonl"))
    moved = 0
    with atomic_file(path) as kept:
        for line in read_lines(path):
            if line.row is not None and keep(line.row):
                kept.write(line.raw + b"\n")
                continue
            if not moved:
                _mend_last_line(lost_file.path)  # a crash may have torn it too: never glue a new row to half of one
            lost_file.append([_lost_row(line)])
            moved += 1
        lost_file.close()
    return moved


def _lost_row(line: Line) -> dict[str, object]:
    return line.row if line.row is not None else {"torn": line.raw.decode("utf-8", "backslashreplace")}


def _mend_last_line(path: Path) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def delete_partial(folder: Path) -> list[str]:
    """Delete what ``save_adapter`` had not put in place when its process was killed; the names. The folder is locked,
    so that none of it is being written."""
    partial = sorted(path for path in folder.glob(".*.partial-*") if path.is_dir())
    for path in partial:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in partial]


def move_aside(folder: Path, checkpoint: Path) -> Path:
    """Move a checkpoint, or ``final/``, into ``lost/``, where neither resuming nor the trainer's own pruning looks."""
    place = folder / LOST_FOLDER
    place.mkdir(exist_ok=True)
    target, number = place / checkpoint.name, 1
    while target.exists():
        number += 1
        target = place / f"{checkpoint.name}.{number}"
    os.rename(checkpoint, target)
    sync_folder(folder)
    return target


def best_known(checkpoint: Path, state_files: Sequence[str]) -> str | None:
    """The best checkpoint by what the run knew at ``checkpoint``: the ``best_step`` in one of its state files."""
    for name in state_files:
        try:
            step = json.loads((checkpoint / name).read_bytes()).get("best_step")
        except (OSError, ValueError, AttributeError):
            continue
        best = checkpoint.with_name(f"checkpoint-{step}")
        if isinstance(step, int) and best.is_dir():
            return best.name
    return None


def best_left(metrics: Path, checkpoints: list[Checkpoint], name: str) -> str | None:
    """Of the whole checkpoints the one whose evaluation has the highest ``name``; the earliest of equals."""
    steps = {checkpoint.step: checkpoint.name for checkpoint in checkpoints if checkpoint.fault is None}
    best: tuple[float, str] | None = None
    for row in read_rows(metrics):
        values, step = row.get("values"), row.get("step")
        if row.get("kind") != "eval" or step not in steps or not isinstance(values, dict):
            continue
        value = values.get(name)
        if isinstance(value, (int, float)) and (best is None or value > best[0]):
            best = (float(value), steps[step])
    return None if best is None else best[1]
