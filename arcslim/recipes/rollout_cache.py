"""How often a model solved a task, kept on disk: a filter that was stopped goes on, and another one asks less.

One file a model (its weights, its bits, how it samples), one line a task and draw. A task is known by what the model is
shown and by the answer, so that another prompt style, or another truth, is another task.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.config import Config, GenerationSection
from arcslim.errors import ArcslimError, InputError
from arcslim.recipes.prepare import Asked

OF_SPEED_ALONE = {"rollout_batch"}  # knobs of [generation] that do not change what is drawn


@dataclass(frozen=True)
class Tally:
    """``right`` and ``cut_off`` of ``samples`` completions."""

    samples: int = 0
    right: int = 0
    cut_off: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.samples + other.samples, self.right + other.right, self.cut_off + other.cut_off)

    @property
    def rate(self) -> float:
        """The share of the samples that is right."""
        return self.right / self.samples


def task_key(asked: Asked) -> str:
    """Of the prompt's token ids and the answer."""
    (pair,) = asked.task.test
    answer = b"?" if pair.output is None else pair.output.key()
    return hashlib.sha256(",".join(map(str, asked.prompt.token_ids)).encode() + b">" + answer).hexdigest()


def cache_file(folder: Path, config: Config, identity: str) -> Path:
    """Where the tallies of a model lie: its name is in the file's for people, and a hash for the rest."""
    drawn = _drawing(config.generation)
    digest = hashlib.sha256(f"{identity}\n{json.dumps(drawn, sort_keys=True)}".encode()).hexdigest()
    name = re.sub(r"[^\w.-]+", "-", config.model.name).strip("-")[-40:]
    return folder / f"{name}-{digest[:16]}.jsonl"


def _drawing(generation: GenerationSection) -> Mapping[str, Any]:
    return generation.model_dump(mode="json", exclude=OF_SPEED_ALONE)


class RolloutCache:
    """Tallies by task. Lines that are torn (the disk was full, the power went) are passed over."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._known: dict[str, Tally] = {}
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_bytes() if file.exists() else b""
        except OSError as error:
            raise InputError(
                f"the cache {file} cannot be used: {error.strerror}", "name another folder with --cache"
            ) from error
        self._torn = bool(text) and not text.endswith(b"\n")
        for line in text.splitlines():
            self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            tally = Tally(int(row["samples"]), int(row["right"]), int(row["cut_off"]))
            key = str(row["key"])
        except (ValueError, TypeError, KeyError):
            return
        if 0 <= tally.right <= tally.samples and 0 <= tally.cut_off <= tally.samples:
            self._known[key] = self.known(key) + tally

    def known(self, key: str) -> Tally:
        """What is known of a task; nothing: a tally of no samples."""
        return self._known.get(key, Tally())

    def add(self, tallies: Iterable[tuple[str, str, Tally]]) -> None:
        """Add tallies of (key, task id); they are on the disk when this returns.

        Raises:
            ArcslimError: the disk is full, or the folder went away.
        """
        lines = b"\n" if self._torn else b""
        for key, task_id, tally in tallies:
            row = {"key": key, "task_id": task_id, **vars(tally)}
            lines += json.dumps(row).encode("ascii") + b"\n"
            self._known[key] = self.known(key) + tally
        try:
            with self.file.open("ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ArcslimError(
                f"cannot write {self.file}: {error.strerror or error}", "free some space, then run the same line again"
            ) from error
        self._torn = False
