"""A full disk is told as one, and the checkpoint that did not fit makes room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from arcslim.cli.full_disk import disk_explained
from arcslim.errors import ArcslimError
from tests.runs.made import make_checkpoint

RESUME = "go on with: arcslim sft --run-dir run --resume auto"


def test_a_full_disk_says_what_to_do_and_what_was_cut_off_goes(tmp_path: Path) -> None:
    whole, cut = make_checkpoint(tmp_path, 2), make_checkpoint(tmp_path, 4)
    (cut / "trainer_state.json").unlink()
    with (
        pytest.raises(ArcslimError, match="checkpoint-4, which was cut off, is deleted") as caught,
        disk_explained(tmp_path, RESUME),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "optimizer.pt")
    assert "disk of" in caught.value.message and "optimizer.pt could not be written" in caught.value.message
    assert RESUME in str(caught.value.hint)
    assert whole.is_dir() and not cut.exists()


def test_other_failures_stay_what_they_are(tmp_path: Path) -> None:
    cut = make_checkpoint(tmp_path, 4)
    (cut / "trainer_state.json").unlink()
    for error in (OSError(errno.EACCES, "no"), RuntimeError("a kernel")):
        with pytest.raises(type(error), match=str(error.args[-1])), disk_explained(tmp_path, RESUME):
            raise error
    assert cut.is_dir()


def test_torchs_own_words_of_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's writer raises a RuntimeError that says nothing of the disk."""
    usage = type("Usage", (), {"free": 4096})
    monkeypatch.setattr("arcslim.cli.full_disk.shutil.disk_usage", lambda _: usage)
    with pytest.raises(ArcslimError, match="is full"), disk_explained(tmp_path, RESUME):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 279040 vs 278932")
