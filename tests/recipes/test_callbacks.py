"""The callbacks on a clock and an evaluation of the tests' own: no model, no waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerControl, TrainerState, TrainingArguments

from arcslim.config import RunSection, WatchSection
from arcslim.recipes.callbacks import CollapseWatch, Evaluate, Recorder, SkipBadSteps, StopInTime
from arcslim.recipes.evaluate import Evaluation
from arcslim.recipes.saving import SaveState
from arcslim.recipes.state import RunState
from arcslim.recipes.watch import Watch
from arcslim.runs.folder import RunFolder
from tests.recipes.made import Folder, Never, StopWhen


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """Plays steps to callbacks in the order in which transformers calls them."""

    def __init__(self, path: Path, section: RunSection, *, watch: WatchSection | None = None) -> None:
        self.folder = RunFolder.create(path)
        self.arguments = TrainingArguments(output_dir=str(path), use_cpu=True)
        self.state = TrainerState(max_steps=section.max_steps)
        self.control = TrainerControl()
        self.run, self.watch = RunState(), Watch(watch or WatchSection())
        self.saver = SaveState(section, self.run, self.folder, self.folder)
        self.saved: list[int] = []

    def begin(self, *callbacks: Any) -> None:
        for callback in (*callbacks, self.saver):
            callback.on_train_begin(self.arguments, self.state, self.control)

    def step(self, *callbacks: Any, logs: dict[str, float] | None = None) -> bool:
        """One step; whether the training goes on."""
        self.control.should_save = False
        for callback in callbacks:
            callback.on_step_begin(self.arguments, self.state, self.control)
        self.state.global_step += 1
        for callback in callbacks:
            callback.on_step_end(self.arguments, self.state, self.control)
        for callback in callbacks:
            callback.on_log(self.arguments, self.state, self.control, logs=logs or {"loss": 0.0})
        if self.control.should_save:
            self.save()
        return not self.control.should_training_stop and self.state.global_step < self.state.max_steps

    def save(self) -> None:
        step = self.state.global_step
        _make_checkpoint(self.folder.path / f"checkpoint-{step}", step)
        self.saved.append(step)
        self.saver.on_save(self.arguments, self.state, self.control)


def _make_checkpoint(path: Path, step: int) -> None:
    import json

    from safetensors.torch import save_file

    path.mkdir()
    save_file({"lora_A": torch.zeros(2)}, path / "adapter_model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({}, path / name)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def scripted(*rates: float) -> Any:
    values = iter(rates)
    return lambda: Evaluation({"eval/pass@1": next(values)}, ())


@pytest.mark.parametrize(("unit", "steps"), [(1, 8), (2, 8), (3, 6)])
def test_max_hours_stops_before_the_limit_where_a_rollout_ends(tmp_path: Path, unit: int, steps: int) -> None:
    """Six minutes a step, 53 minutes: after eight steps no rollout fits any more; of one of three steps, after six."""
    section = RunSection(max_hours=0.89, max_steps=100)
    stage, clock = Stage(tmp_path / "run", section), Clock()
    in_time = StopInTime(section, Never(), stage.run, steps_to_rollout_end=unit, clock=clock)
    stage.begin(in_time)
    going = True
    while going:
        clock.now += 360.0
        going = stage.step(in_time)
    assert clock.now <= 0.89 * 3600
    assert stage.state.global_step == steps and stage.saved == [steps]
    assert in_time.reason is not None and "run.max_hours = 0.89" in in_time.reason


def test_max_hours_counts_what_the_run_took_before_it_was_resumed(tmp_path: Path) -> None:
    section = RunSection(max_hours=1, max_steps=100)
    stage, clock = Stage(tmp_path / "run", section), Clock()
    stage.run.seconds, stage.state.global_step = 3000.0, 50
    in_time = StopInTime(section, Never(), stage.run, clock=clock)
    stage.begin(in_time)
    going = True
    while going:
        clock.now += 60.0
        going = stage.step(in_time)
    assert stage.run.seconds == 3000.0 + clock.now <= 3600.0
    assert stage.state.global_step == 60


def test_a_wish_to_stop_waits_for_the_end_of_the_rollout(tmp_path: Path) -> None:
    section, stop = RunSection(max_steps=100), StopWhen()
    stage = Stage(tmp_path / "run", section)
    in_time = StopInTime(section, stop, stage.run, steps_to_rollout_end=4, clock=Clock())
    stage.begin(in_time)
    assert stage.step(in_time)
    stop.requested = True
    assert stage.step(in_time) and stage.step(in_time)
    assert not stage.step(in_time)
    assert stage.saved == [4]


def test_early_stop_keeps_the_best_checkpoint_and_the_newest(tmp_path: Path) -> None:
    section = RunSection(max_steps=100, eval_steps=1, early_stop=3, save_total_limit=1)
    stage = Stage(tmp_path / "run", section)
    told: list[dict[str, float]] = []
    evaluate = Evaluate(
        section, scripted(0.1, 0.5, 0.5, 0.2, 0.3), stage.run, stage.folder, stage.saver.finish, told.append
    )
    stage.begin(evaluate)
    while stage.step(evaluate):
        pass
    run = Folder(stage.folder.path)
    assert stage.state.global_step == 5 and stage.saved == [1, 2, 5], "a tie is no new best"
    assert run.checkpoints() == ["checkpoint-2", "checkpoint-5"]
    assert (run.path / "best").read_text().strip() == "checkpoint-2"
    assert "3 evaluations without a new best" in run.events("stopped")[0]
    assert run.state(5)["best"] == 0.5 and run.state(5)["stale"] == 3
    assert [one["eval/pass@1"] for one in told] == [0.1, 0.5, 0.5, 0.2, 0.3]


@pytest.mark.parametrize(
    ("every", "unit", "at"), [(1, 1, [1, 2, 3, 4, 5, 6, 7]), (3, 1, [3, 6, 7]), (3, 2, [4, 6, 7]), (5, 4, [7])]
)
def test_evaluations_are_held_where_rollouts_end_and_at_the_end(
    tmp_path: Path, every: int, unit: int, at: list[int]
) -> None:
    section = RunSection(max_steps=7, eval_steps=every)
    stage = Stage(tmp_path / "run", section)
    evaluate = Evaluate(
        section, scripted(*[0.0] * 9), stage.run, stage.folder, stage.saver.finish, lambda _: None,
        steps_to_rollout_end=unit,
    )  # fmt: skip
    stage.begin(evaluate)
    while stage.step(evaluate):
        pass
    assert [row["step"] for row in Folder(stage.folder.path).rows("metrics") if row["kind"] == "eval"] == at


def test_a_watch_that_stops_saves_where_the_rollout_ends(tmp_path: Path) -> None:
    section = RunSection(max_steps=100)
    stage = Stage(tmp_path / "run", section, watch=WatchSection(cut_off="stop", patience=1))
    recorder = Recorder(stage.folder, lambda: {"completion/cut_off_rate": 0.9}, lambda: (0.0, 0.0))
    watch = CollapseWatch(recorder, stage.watch, stage.run, stage.folder, lambda value: None, steps_to_rollout_end=2)
    stage.begin(recorder, watch)
    assert stage.step(recorder, watch)
    assert not stage.step(recorder, watch)
    assert stage.saved == [2]
    assert watch.stopped_by is not None and "90% of completions are cut off" in watch.stopped_by


def test_the_watch_sets_the_entropy_bonus(tmp_path: Path) -> None:
    section = RunSection(max_steps=100)
    stage = Stage(tmp_path / "run", section)
    entropies = iter((1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.1))
    recorder = Recorder(stage.folder, lambda: {"policy/entropy": next(entropies)}, lambda: (0.0, 0.0))
    bonuses: list[float] = []
    watch = CollapseWatch(recorder, stage.watch, stage.run, stage.folder, bonuses.append)
    for _ in range(7):
        stage.step(recorder, watch)
    assert bonuses == [0.0005, 0.001]
    assert stage.run.entropy_coef == 0.001


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "run", RunSection())
    model = torch.nn.Linear(2, 2)
    skip = SkipBadSteps(stage.folder)
    for value in (1.0, float("nan"), float("inf")):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        assert model.bias.grad is not None
        model.bias.grad[0] = value
        skip.on_pre_optimizer_step(stage.arguments, stage.state, stage.control, model=model)
        gone = [parameter.grad is None for parameter in model.parameters()]
        assert gone == [value != 1.0] * 2, "a gradient of 0 would still be moved by AdamW's momentum"
    assert len(Folder(stage.folder.path).events("skipped_step")) == 2


def test_seconds_of_a_step_are_split_by_phase(tmp_path: Path) -> None:
    stage, clock = Stage(tmp_path / "run", RunSection()), Clock()
    times = (0.0, 0.0)
    recorder = Recorder(stage.folder, dict, lambda: times, clock=clock)
    clock.now = 10.0
    recorder.on_step_begin(stage.arguments, stage.state, stage.control)
    times, clock.now = (14.0, 15.0), 18.0
    recorder.on_step_end(stage.arguments, stage.state, stage.control)
    recorder.on_log(stage.arguments, stage.state, stage.control, logs={"loss": 1.0})
    seconds = {name: value for name, value in recorder.row.items() if name.startswith("seconds/")}
    assert seconds == {"seconds/step": 8.0, "seconds/rollout": 4.0, "seconds/update": 3.0}
