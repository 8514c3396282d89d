"""The run folder as a contract: rows, resuming, locking, pruning. Cases 24, 26 and 27."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from arcslim.errors import ArcslimError, RunFolderError
from arcslim.recipes.sink import SampleRow, Sink, TaskRow
from arcslim.runs.folder import SAMPLE_FIELDS, TASK_FIELDS, RunFolder
from arcslim.runs.places import fresh_run_dir
from arcslim.tasks.grid import Grid
from tests.runs.made import make_checkpoint, rows, sample_row, task_row


def as_sink(folder: RunFolder) -> Sink:
    return folder


def fill(folder: RunFolder, steps: range) -> None:
    folder.task_rows([task_row()])
    for step in steps:
        folder.metrics(step, "train", {"loss": float(step)})
        folder.samples([sample_row(step)])


# Rows ------------------------------------------------------------------------------------------------------------


def test_rows_have_the_fields_of_the_contract(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        sink = as_sink(folder)
        sink.metrics(3, "eval", {"eval/pass@1": 0.25})
        sink.samples([sample_row(3)])
        sink.task_rows([task_row()])
        sink.event(3, "start", "begun")
    metric = rows(folder.path / "metrics.jsonl")[0]
    assert metric.keys() == {"step", "time", "kind", "values"}
    assert metric["kind"] == "eval"
    assert metric["time"].endswith("Z")
    assert rows(folder.path / "samples.jsonl") == [sample_row(3)]
    assert rows(folder.path / "tasks.jsonl") == [task_row()]
    assert rows(folder.path / "events.jsonl")[0].keys() == {"time", "step", "event", "detail"}


def test_the_sink_of_the_recipes_names_the_same_fields() -> None:
    assert SampleRow.__annotations__.keys() == SAMPLE_FIELDS
    assert TaskRow.__annotations__.keys() == TASK_FIELDS


def test_values_that_are_not_finite_become_an_event(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        folder.metrics(1, "train", {"loss": float("nan"), "policy/kl": float("inf"), "optim/lr": 0.1, "x": "text"})
        score = {"total": float("nan"), "parts": {"grid": 1.0}, "weights": {"grid": 1.0}}
        folder.samples([sample_row(2, score=score), sample_row(2, score=score)])
    assert rows(folder.path / "metrics.jsonl")[0]["values"] == {"optim/lr": 0.1}
    assert rows(folder.path / "samples.jsonl")[0]["score"]["total"] is None
    events = rows(folder.path / "events.jsonl")
    assert [(event["step"], event["event"]) for event in events] == [(1, "warning"), (2, "warning")]
    assert all(name in events[0]["detail"] for name in ("loss is nan", "policy/kl is inf", "x is 'text'"))
    assert "score.total (2 rows)" in events[1]["detail"]


def test_scalars_of_numpy_and_torch_are_numbers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = {"a": np.float32(0.5), "b": np.int64(3), "c": torch.tensor(2.0), "d": torch.tensor([1.5]), "e": True}
    with RunFolder.create(tmp_path / "run") as folder:
        folder.metrics(1, "train", values)
        folder.samples(
            [sample_row(1, answer=Grid([[1, 2]]), advantage=torch.tensor(0.25), thinking_tokens=np.int32(4))]
        )
    assert rows(folder.path / "metrics.jsonl")[0]["values"] == {"a": 0.5, "b": 3.0, "c": 2.0, "d": 1.5, "e": 1.0}
    row = rows(folder.path / "samples.jsonl")[0]
    assert (row["answer"], row["advantage"], row["thinking_tokens"]) == ([[1, 2]], 0.25, 4)


@pytest.mark.parametrize("text", ["\x1b[2J\r\n", "\u2028\x85 \ud800", "[red]", '"}\n{"step": 9}'])
def test_no_text_breaks_a_line(tmp_path: Path, text: str) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        folder.samples([sample_row(1, completion=text)])
    data = (folder.path / "samples.jsonl").read_bytes()
    assert len(data.splitlines()) == 1
    assert json.loads(data)["completion"] == text


def test_a_row_that_lacks_a_field_is_refused(tmp_path: Path) -> None:
    broken = sample_row(1)
    del broken["advantage"]
    with RunFolder.create(tmp_path / "run") as folder, pytest.raises(ValueError, match="advantage"):
        folder.samples([broken])


def test_unknown_events_are_refused_and_secrets_hidden(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        with pytest.raises(ValueError, match="no event"):
            folder.event(1, "warn", "")
        folder.event(1, "warning", "https://me:hunter2@host failed with hf_abcdefghijklmnopqrst")
    text = (folder.path / "events.jsonl").read_text()
    assert "hunter2" not in text
    assert "hf_abc" not in text


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with RunFolder.create(tmp_path / "run") as folder:
        (folder.path / "metrics.jsonl").symlink_to("/dev/full")
        with pytest.raises(ArcslimError, match="No space left") as caught:
            folder.metrics(1, "train", {"loss": 1.0})
        assert "--resume newest" in str(caught.value)


# Opening ---------------------------------------------------------------------------------------------------------


def test_case_26_a_folder_that_is_not_empty_says_resume_another_name_or_force(tmp_path: Path) -> None:
    """Case 26."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError) as caught:
        RunFolder.create(run)
    message = str(caught.value)
    assert all(word in message for word in ("not empty", "--resume", "--run-dir", "--force"))
    assert (run / "thesis.txt").read_text() == "years of work"


def test_case_26_the_old_content_moves_aside(tmp_path: Path) -> None:
    """Case 26: nothing is deleted, and no row of the old run is mixed with the new one's."""
    run = tmp_path / "run"
    for number in range(2):
        with RunFolder.create(run, move_aside=True) as folder:
            folder.metrics(number, "train", {"loss": 1.0})
            assert len(rows(run / "metrics.jsonl")) == 1
    with RunFolder.create(run, move_aside=True) as folder:
        assert folder.notes
    old = sorted(path for path in tmp_path.iterdir() if ".before-" in path.name)
    assert [rows(path / "metrics.jsonl")[0]["step"] for path in old] == [0, 1]


def test_case_26_never_moves_where_the_user_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 26: `--run-dir . --force` would move everything away under the user's feet."""
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError, match="which you are in"):
        RunFolder.create(Path(), move_aside=True)
    assert (tmp_path / "file").exists()


def test_what_a_fresh_disk_holds_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    RunFolder.create(tmp_path).close()
    RunFolder.create(tmp_path).close()  # and so does the lock of a run that ended before it wrote anything


def test_case_27_a_second_process_is_kept_out(tmp_path: Path) -> None:
    """Case 27: two runs side by side on one folder; the lock goes with its holder, however that ends."""
    run = tmp_path / "run"
    code = (
        "import sys, time; from arcslim.runs.folder import RunFolder; f = RunFolder.create(sys.argv[1]); "
        "f.event(0, 'start', ''); print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline().strip() == "locked"
            for attempt in (
                lambda: RunFolder.resume(run, "auto"),
                lambda: RunFolder.create(run, move_aside=True),
            ):
                with pytest.raises(RunFolderError, match=f"in use by process {other.pid}"):
                    attempt()
        finally:
            other.kill()
    RunFolder.resume(run, "auto").close()


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory in which this process may not write; root first becomes nobody, who may not either."""
    place = tmp_path / "readonly"
    place.mkdir()
    place.chmod(0o555)
    monkeypatch.chdir(place)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield place
    finally:
        if root:
            os.seteuid(0)
        place.chmod(0o755)


def test_case_27_a_read_only_working_directory_says_run_dir(read_only: Path) -> None:
    """Case 27."""
    for attempt in (lambda: fresh_run_dir("grpo", "cpu"), lambda: RunFolder.create("runs/mine")):
        with pytest.raises(RunFolderError) as caught:
            attempt()
        assert "--run-dir" in str(caught.value)
        assert "Permission denied" in str(caught.value)


def test_default_names_say_what_and_when_and_differ(tmp_path: Path) -> None:
    names = {fresh_run_dir("grpo", "cpu", tmp_path / "runs").name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("grpo-cpu-2") for name in names)
    assert fresh_run_dir("grpo", "../../my preset.toml", tmp_path).parent == tmp_path


# Resuming --------------------------------------------------------------------------------------------------------


def test_auto_starts_fresh_where_there_is_nothing(tmp_path: Path) -> None:
    with RunFolder.resume(tmp_path / "run", "auto") as folder:
        assert folder.checkpoint is None
        assert folder.start_step == 0
        assert not (folder.path / "events.jsonl").exists()
    with pytest.raises(RunFolderError, match="nothing to resume"):
        RunFolder.resume(tmp_path / "other", "newest")


def test_auto_refuses_a_folder_that_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.resume(tmp_path, "auto")
    assert {path.name for path in tmp_path.iterdir()} == {"holiday.jpg"}


@pytest.mark.parametrize("which", ["auto", "newest"])
def test_case_24_the_newest_whole_checkpoint_is_taken_and_the_half_written_one_named(
    tmp_path: Path, which: str
) -> None:
    """Case 24."""
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        fill(folder, range(1, 36))
    for step in (10, 20, 30):
        make_checkpoint(run, step)
    weights = run / "checkpoint-30" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    with RunFolder.resume(run, which) as folder:
        assert folder.start_step == 20
        assert folder.checkpoint is not None
        assert folder.checkpoint.path == run / "checkpoint-20"
        assert any("checkpoint-30 is half written" in note and "cut short" in note for note in folder.notes)
    for name in ("metrics", "samples"):
        assert [row["step"] for row in rows(run / f"{name}.jsonl")] == list(range(1, 21))
        assert [row["step"] for row in rows(run / f"{name}.lost.jsonl")] == list(range(21, 36))
    assert not (run / "checkpoint-30").exists()
    assert (run / "lost" / "checkpoint-30" / "optimizer.pt").exists()
    event = rows(run / "events.jsonl")[-1]
    assert (event["event"], event["step"]) == ("restart", 20)
    assert "checkpoint-30 is half written" in event["detail"]


def test_case_24_no_whole_checkpoint(tmp_path: Path) -> None:
    """Case 24: `newest` says so and changes nothing; `auto` begins again, and no row appears twice."""
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        fill(folder, range(5))
    (make_checkpoint(run, 4) / "trainer_state.json").unlink()
    with pytest.raises(RunFolderError, match=r"trainer_state\.json is missing"):
        RunFolder.resume(run, "newest")
    assert len(rows(run / "metrics.jsonl")) == 5
    with RunFolder.resume(run, "auto") as folder:
        assert folder.start_step == 0
        fill(folder, range(2))
    assert [row["step"] for row in rows(run / "metrics.jsonl")] == [0, 1]
    assert len(rows(run / "tasks.jsonl")) == 1


@pytest.mark.parametrize("form", ["checkpoint-10", "{run}/checkpoint-10", "{run}/checkpoint-10/"])
def test_a_named_checkpoint(tmp_path: Path, form: str) -> None:
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        fill(folder, range(1, 21))
    for step in (10, 20):
        make_checkpoint(run, step)
    (run / "final").mkdir()
    (run / "final" / "adapter_model.safetensors").write_text("of checkpoint-20")
    with RunFolder.resume(run, form.format(run=run)) as folder:
        assert folder.start_step == 10
        assert any("final lies past step 10" in note for note in folder.notes)
    assert (run / "lost" / "checkpoint-20").is_dir()
    assert (run / "lost" / "final" / "adapter_model.safetensors").read_text() == "of checkpoint-20"
    assert not (run / "final").exists()


def test_a_run_that_cannot_go_on_after_all_is_left_as_it_was(tmp_path: Path) -> None:
    """What is found out only when the rows are read, after the folder is open."""
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        fill(folder, range(1, 21))
        folder.mark_best(20)
    for step in (10, 20):
        make_checkpoint(run, step)
    before = {path.name for path in run.iterdir()}
    with RunFolder.resume(run, "checkpoint-10", rewind=False) as folder:
        assert {path.name for path in run.iterdir()} == before | {"events.jsonl"} and folder.best == "checkpoint-20"
        notes = folder.rewind()
        assert any("checkpoint-20 lies past step 10" in note for note in notes)
        assert folder.rewind() == [], "once is enough"
        fill(folder, range(11, 13))
    assert [row["step"] for row in rows(run / "metrics.jsonl")] == list(range(1, 13))


def test_the_best_checkpoint_is_the_one_that_the_run_knew_then(tmp_path: Path) -> None:
    """Whatever it is chosen by: the figures alone do not say that a loss is the better the lower."""
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        fill(folder, range(1, 31))
        folder.mark_best(30)
    for step in (10, 20, 30):
        make_checkpoint(run, step)
        (run / f"checkpoint-{step}" / "state.json").write_text(json.dumps({"best_step": 10 if step < 30 else 30}))
    with RunFolder.resume(run, "checkpoint-20", required=("state.json",)) as folder:
        assert folder.best == "checkpoint-10"


def test_a_named_checkpoint_that_is_not_there_or_not_here(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    RunFolder.create(run).close()
    make_checkpoint(run, 10)
    elsewhere = make_checkpoint(other, 20)
    with pytest.raises(RunFolderError, match="There: checkpoint-10"):
        RunFolder.resume(run, "checkpoint-11")
    with pytest.raises(RunFolderError, match="--model"):
        RunFolder.resume(run, str(elsewhere))


def test_a_best_checkpoint_that_went_is_chosen_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        for step, value in ((0, 0.9), (10, 0.2), (20, 0.1), (30, 0.5)):
            folder.metrics(step, "eval", {"eval/pass@1": value})
        folder.mark_best(30)
    for step in (10, 20, 30):
        make_checkpoint(run, step)
    with RunFolder.resume(run, "checkpoint-20") as folder:
        assert folder.best == "checkpoint-10"  # step 0 has the highest value, but no checkpoint
    with RunFolder.resume(run, "newest") as folder:
        assert folder.best == "checkpoint-10"


def test_prune_keeps_the_newest_the_best_and_the_half_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        for step in (10, 20, 30, 40, 50):
            make_checkpoint(run, step)
        (run / "checkpoint-50" / "trainer_state.json").unlink()
        folder.mark_best(10)
        assert folder.prune(keep=1) == ["checkpoint-20", "checkpoint-30"]
        assert {path.name for path in run.glob("checkpoint-*")} == {"checkpoint-10", "checkpoint-40", "checkpoint-50"}
        assert folder.prune(keep=0, best=40) == []


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        folder.write_json("plan.json", {"peak": float("inf"), "rows": np.arange(2)})
        assert json.loads((folder.path / "plan.json").read_text()) == {"peak": None, "rows": [0, 1]}
        with pytest.raises(TypeError):
            folder.write_json("plan.json", {"x": object()})
        assert json.loads((folder.path / "plan.json").read_text())["rows"] == [0, 1]
        assert not list(folder.path.glob(".*.tmp"))


def test_everything_that_waits_for_the_run_to_go_on_is_written(tmp_path: Path) -> None:
    """HER's target once took the place of the settings: a resumed run kept those of its first start."""
    run, written = tmp_path / "run", []
    with RunFolder.create(run) as folder:
        folder.metrics(1, "train", {"loss": 1.0})
    make_checkpoint(run, 1)
    partial = run / ".checkpoint-2.partial-77"
    partial.mkdir()
    (partial / "adapter_model.safetensors").write_bytes(b"half")
    with RunFolder.resume(run, "newest", rewind=False) as folder:
        for name in ("settings", "target"):
            folder.when_it_goes_on(lambda name=name: written.append(name))  # type: ignore[misc]
        assert written == [] and partial.is_dir()
        notes = folder.rewind()
        assert written == ["settings", "target"] and not partial.exists()
        assert any("checkpoint-2.partial-77, half written" in note for note in notes)
        folder.rewind()
        assert written == ["settings", "target"]
