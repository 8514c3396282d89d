"""Case 25 through the real recipe: Ctrl-C and SIGTERM at any moment of a training run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import arcslim.recipes.evaluate
import arcslim.recipes.rollouts
from arcslim.recipes.state import RunState
from tests.recipes.made import Folder, assert_same_rows
from tests.recipes.made import arcslim as command


def signalling(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, signum: int, when: Callable[[int], bool]
) -> list[int]:
    """Let a function of the program send this process a signal when it is called; on the n-th call if ``when(n)``."""
    real, calls = getattr(owner, name), []

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(len(calls) + 1)
        if when(calls[-1]):
            os.kill(os.getpid(), signum)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_case_25_stopped_in_every_phase_and_resumed_it_ends_as_the_uninterrupted_run(
    halves: Folder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Case 25: during load, a rollout, an evaluation and saving. Each time: exit code, what was learned is kept, the
    message tells how to go on. In the end all figures are those of the run that was never stopped."""
    import arcslim.recipes.grpo as recipe

    run = Folder(tmp_path / "run")
    preset = ("--preset", halves.path / "resolved.toml")

    def stopped(owner: Any, name: str, signum: int, when: Callable[[int], bool], *words: Any) -> str:
        with pytest.MonkeyPatch.context() as monkeypatch:
            calls = signalling(monkeypatch, owner, name, signum, when)
            assert command("grpo", *words, "--run-dir", run.path) == 128 + signum
            assert any(map(when, calls)), "the signal was sent"
        said = capsys.readouterr().err
        assert f"go on with: arcslim grpo --run-dir {run.path} --resume auto" in said.replace("\n", " ")
        return said

    resume = ("--resume", "auto")
    said = stopped(recipe, "load_policy", signal.SIGINT, lambda call: call == 1, *preset)
    assert "stopped: stopped by Ctrl-C" in said
    assert run.checkpoints() == [] and run.rows("metrics") == []

    # the second rollout: steps 1 and 2 came of the first, and no checkpoint was due at 2
    stopped(arcslim.recipes.rollouts, "generate", signal.SIGTERM, lambda call: call == 2, *resume)
    assert run.checkpoints() == ["checkpoint-2"] and run.adapter("final")
    assert [row["step"] for row in run.rows("metrics") if row["kind"] == "train"] == [1, 2]

    # the evaluation that is due at step 4: cut short, and made up for by the next start
    stopped(arcslim.recipes.evaluate, "generate", signal.SIGINT, lambda call: call == 1, *resume)
    assert run.checkpoints() == ["checkpoint-2", "checkpoint-4"]
    assert ("eval", 4) not in run.learned()

    stopped(RunState, "save", signal.SIGINT, lambda call: call == 2, *resume)
    assert ("eval", 4) in run.learned()
    assert run.checkpoints()[-1] == "checkpoint-6"
    assert len(run.events("stopped")) == 3

    # all steps are done, and what comes after them is made up for
    assert command("grpo", "--run-dir", run.path, *resume) == 0
    assert_same_rows(run.learned(), halves.learned())
    assert run.state(6) == halves.state(6)
