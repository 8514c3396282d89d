"""A resumed run goes on as if it had never stopped: the real recipe, in 4-bit, from its run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.made import Folder, arcslim, assert_same_rows, tensors_differ


def test_case_24_goes_on_from_the_whole_checkpoint_as_the_uninterrupted_run(whole: Folder, tmp_path: Path) -> None:
    """Case 24: the newest checkpoint is half written: the one before is taken, and it is said. Without a preset the
    run's own settings hold. Figures, the floor's price, the watches' memory and the weights come out the same."""
    run = whole.copy_to(tmp_path / "run")
    weights = run.path / "checkpoint-4" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])

    assert arcslim("grpo", "--run-dir", run.path, "--resume", "auto") == 0

    said, *_ = run.events("restart")  # the others say what was moved
    assert "goes on from checkpoint-2" in said and "checkpoint-4 is half written" in said
    assert_same_rows(run.learned(), whole.learned())
    assert run.state(4) == whole.state(4)
    assert not list(tensors_differ(run.adapter("checkpoint-4"), whole.adapter("checkpoint-4")))
    assert [row["completion"] for row in run.rows("samples")] == [row["completion"] for row in whole.rows("samples")]
    price = whole.state(2)["parts"]["suite"]["min_thinking"]["price"]
    assert price != whole.state(4)["parts"]["suite"]["min_thinking"]["price"], "a price that rests says nothing"
    assert list(tensors_differ(whole.adapter("checkpoint-2"), whole.adapter("checkpoint-4")))


def test_goes_on_between_rollouts_of_two_updates(halves: Folder, tmp_path: Path) -> None:
    run = halves.copy_to(tmp_path / "run")
    assert arcslim("grpo", "--run-dir", run.path, "--resume", "checkpoint-4") == 0
    assert_same_rows(run.learned(), halves.learned())
    assert run.state(6) == halves.state(6)
    lost = {row["step"] for row in run.rows("metrics.lost")}
    assert lost == {5, 6}, "the steps past the checkpoint were moved aside"


def test_no_checkpoint_and_no_evaluation_inside_a_rollout(halves: Folder) -> None:
    """run.eval_steps = 3 falls inside a rollout of two updates: the evaluation waits for its end. A best found there
    is saved there, so that each checkpoint can be resumed from."""
    evaluated = [step for kind, step in halves.learned() if kind == "eval"]
    assert evaluated == [0, 4, 6]
    assert halves.checkpoints() == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]


def test_the_resolved_file_reruns_the_run(whole: Folder, tmp_path: Path) -> None:
    run = Folder(tmp_path / "again")
    words = ("--preset", whole.path / "resolved.toml", "--run-dir", run.path, "--max-steps", "1")
    assert arcslim("grpo", *words, "--set", "run.eval_samples=1") == 0
    first = run.learned()["train", 1]
    assert first == pytest.approx(whole.learned()["train", 1], abs=1e-6)
