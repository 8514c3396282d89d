"""Is a checkpoint whole? Answered from file names, lengths and headers alone: no torch, and nothing is unpickled."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STATE_FILE = "trainer_state.json"
OPTIMIZER_FILES = ("optimizer.pt", "optimizer.bin")
WEIGHT_FILES = ("adapter_model.safetensors", "model.safetensors")
WEIGHT_INDEX = "model.safetensors.index.json"
HEADER_LIMIT = 100_000_000  # bytes; the format's own limit
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """A folder ``checkpoint-N``; ``fault`` says why it cannot be resumed from, None where it is whole."""

    path: Path
    step: int
    fault: str | None

    @property
    def name(self) -> str:
        return self.path.name


def list_checkpoints(folder: Path, required: Sequence[str] = ()) -> list[Checkpoint]:
    """All checkpoints of a run folder, oldest step first. ``required`` names further files that a whole one has."""
    found = [inspect_checkpoint(path, required) for path in _folders(folder)]
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def inspect_checkpoint(path: Path, required: Sequence[str] = ()) -> Checkpoint:
    """Look at one checkpoint folder, whose name ends in its step (``checkpoint-50``)."""
    match = NAME.fullmatch(path.name)
    if match is None:
        return Checkpoint(path, -1, "its name is not checkpoint-N")
    step = int(match[1])
    return Checkpoint(path, step, _fault(path, step, required))


def _folders(folder: Path) -> Iterator[Path]:
    for path in folder.glob("checkpoint-*"):
        if path.is_dir() and NAME.fullmatch(path.name):
            yield path


def _fault(path: Path, step: int, required: Sequence[str]) -> str | None:
    # The trainer writes weights, then the optimizer, then its state: the state is the likeliest to be missing.
    return _state_fault(path, step) or _weights_fault(path) or _torch_files_fault(path) or _missing(path, required)


def _state_fault(path: Path, step: int) -> str | None:
    try:
        state = json.loads((path / STATE_FILE).read_bytes())
    except FileNotFoundError:
        return f"{STATE_FILE} is missing"
    except (OSError, ValueError):
        return f"{STATE_FILE} cannot be read"
    if not isinstance(state, dict) or state.get("global_step") != step:
        return f"{STATE_FILE} is not of step {step}"
    return None


def _weights_fault(path: Path) -> str | None:
    index = path / WEIGHT_INDEX
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{WEIGHT_INDEX} cannot be read"
    else:
        names = [name for name in WEIGHT_FILES if (path / name).is_file()]
    if not names:
        return f"neither {' nor '.join(WEIGHT_FILES)} is there"
    for name in names:
        fault = safetensors_fault(path / str(name))
        if fault is not None:
            return f"{name} {fault}"
    return None


def safetensors_fault(path: Path) -> str | None:
    """Why a safetensors file is not whole, or None.

    The format: 8 bytes with the header's length, little-endian; the header, a JSON object whose ``data_offsets`` end
    where the file ends; the data. So a cut file is known by its length.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(HEADER_LIMIT, size - 8):
                return "is empty" if size == 0 else "is cut short"
            header = json.loads(file.read(length))
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "has a header that cannot be read"
    if not ends:
        return "holds no tensors"
    expected = 8 + length + max(ends)
    if size != expected:
        return f"is cut short: {size:,} of {expected:,} bytes" if size < expected else "is longer than its header says"
    return None


def _torch_files_fault(path: Path) -> str | None:
    """Of a recipe without a trainer (HER) the optimizer alone is asked for; its state says so."""
    if not any((path / name).is_file() for name in OPTIMIZER_FILES):
        return "the optimizer's state is missing"
    for name in (*OPTIMIZER_FILES, "scheduler.pt"):
        file = path / name
        # torch writes zip archives; their directory comes last, so a cut one is no archive any more.
        if file.is_file() and not zipfile.is_zipfile(file):
            return f"{name} is cut short" if file.stat().st_size else f"{name} is empty"
    if json.loads((path / STATE_FILE).read_bytes()).get("trainer") is False:
        return None
    if not (path / "scheduler.pt").is_file():
        return "scheduler.pt is missing"
    if not any(path.glob("rng_state*.pth")):
        return "the random state is missing"
    return None


def _missing(path: Path, required: Sequence[str]) -> str | None:
    for name in required:
        file = path / name
        if not file.is_file() or file.stat().st_size == 0:
            return f"{name} is missing"
        if file.suffix == ".json" and not _is_json(file):
            return f"{name} cannot be read"
    return None


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True
