"""Resuming never loses and never repeats a step, wherever a crash cut the files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.runs.folder import RunFolder
from tests.runs.made import make_checkpoint, rows, sample_row, task_row


def run_until(folder: RunFolder, last: int, every: int) -> None:
    folder.task_rows([task_row()])
    for step in range(folder.start_step + 1, last + 1):
        folder.samples([sample_row(step), sample_row(step, group=1)])
        folder.metrics(step, "train", {"loss": 1.0 / step})
        if step % every == 0:
            make_checkpoint(folder.path, step)
            folder.event(step, "checkpoint", f"checkpoint-{step}")


def cut(path: Path, size: int) -> None:
    if path.exists():
        path.write_bytes(path.read_bytes()[:size])


@settings(max_examples=25, deadline=None)
@given(
    crashes=st.lists(st.tuples(st.integers(0, 14), st.floats(0, 1)), min_size=1, max_size=3),
    every=st.integers(1, 5),
)
def test_a_step_appears_once_after_any_crashes(crashes: list[tuple[int, float]], every: int) -> None:
    """Crash after some steps, with each file's last lines cut at any byte past what the checkpoint made safe."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        for more, share in crashes:
            with RunFolder.resume(run, "auto") as folder:
                start = folder.start_step
                last = start + more
                safe = last - last % every
                run_until(folder, max(safe, start), every)
                sizes = {path: path.stat().st_size for path in run.glob("*.jsonl")}
                for step in range(max(safe, start) + 1, last + 1):
                    folder.samples([sample_row(step), sample_row(step, group=1)])
                    folder.metrics(step, "train", {"loss": 1.0 / step})
            for path in run.glob("*.jsonl"):
                before, now = sizes.get(path, 0), path.stat().st_size
                cut(path, before + round((now - before) * share))
        with RunFolder.resume(run, "auto") as folder:
            run_until(folder, folder.start_step + every, every)
            last = folder.start_step + every
        assert [row["step"] for row in rows(run / "metrics.jsonl")] == list(range(1, last + 1))
        assert [row["step"] for row in rows(run / "samples.jsonl")] == [n for n in range(1, last + 1) for _ in "ab"]
        assert len(rows(run / "tasks.jsonl")) == 1


@settings(max_examples=60, deadline=None)
@given(size=st.floats(0, 1), garbage=st.binary(max_size=8))
def test_a_tail_cut_at_any_byte_goes_to_the_lost_file(size: float, garbage: bytes) -> None:
    """Whole rows up to the checkpoint stay byte for byte; what cannot be read is kept in the lost file, readable."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        with RunFolder.create(run) as folder:
            for step in range(1, 6):
                folder.metrics(step, "train", {"loss": 1.0 / step})
        make_checkpoint(run, 4)
        path = run / "metrics.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        kept = b"".join(lines)[: round(size * len(b"".join(lines)))]
        path.write_bytes(kept + garbage)
        readable = [row for row in lines[:4] if kept.count(row.rstrip(b"\n"))]
        with RunFolder.resume(run, "newest") as folder:
            folder.metrics(5, "train", {"loss": 0.2})
        after = rows(path)
        assert [row["step"] for row in after][-1] == 5
        assert len({row["step"] for row in after}) == len(after)
        # A whole row glued to garbage cannot be told from a torn one: at most that one goes.
        assert len(after) - 1 >= len(readable) - (1 if garbage.strip(b"\n") else 0)
        for row in rows(run / "metrics.lost.jsonl"):
            assert "torn" in row or row["step"] == 5
