"""What surrounds the trainer in a run: its callbacks, how it ends, what is kept. Recipes read straight down by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from arcslim.config import Config
from arcslim.errors import ArcslimError, CollapseError, RunFolderError, Stopped
from arcslim.policy.load import Policy, load_trained, save_adapter
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.start import Evaluator
from arcslim.recipes.state import RunState
from arcslim.recipes.watch import Watch

if TYPE_CHECKING:
    from arcslim.recipes.callbacks import Evaluate, StopInTime
    from arcslim.recipes.saving import SaveState


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``start`` and ``end`` hold the figures of the starting policy and of the best checkpoint."""

    steps: int
    best_step: int | None
    start: dict[str, float]
    end: dict[str, float]
    stopped: str | None


class Drawing(Protocol):
    """What is asked of a recipe's rollouts, and of what stands in their place where a recipe has none."""

    is_drawing: bool
    rolled_out_at: float
    scored_at: float

    def take_pending(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Plan:
    """What differs between recipes in how a trainer is run.

    ``max_steps``: optimizer steps in all. ``unit``: steps after which a run may stop (GRPO: where a rollout ends).
    ``first_phase``: what a step begins with, for the view. ``watch``: looks for signs of collapse. ``smaller_update``:
    what to do when the update runs out of memory.
    """

    max_steps: int
    smaller_update: str
    unit: int = 1
    first_phase: str = "update"
    watch: Watch | None = None


class Training:
    """A trainer with everything that a run needs around it. The methods are called in their order."""

    def __init__(
        self,
        config: Config,
        policy: Policy,
        trainer: Any,
        plan: Plan,
        rollouts: Drawing,
        evaluator: Evaluator,
        state: RunState,
        sink: Sink,
        store: RunStore,
        stop: StopSignal,
        resume_from: Path | None,
    ) -> None:
        self._config, self._policy, self._trainer, self._plan = config, policy, trainer, plan
        self._rollouts, self._evaluator, self._state = rollouts, evaluator, state
        self._sink, self._store, self._stop = sink, store, stop
        self._resume_from = resume_from
        self._first_step = 0 if resume_from is None else int(resume_from.name.rpartition("-")[2])
        self._failure: ArcslimError | None = None

    @property
    def step(self) -> int:
        """Optimizer steps done, those of the checkpoint resumed from included."""
        return max(self._first_step, int(self._trainer.state.global_step))

    def add_callbacks(self) -> None:
        """Give the trainer the callbacks of ``callbacks.py``, in their order there."""
        from transformers import PrinterCallback

        from arcslim.recipes import callbacks, saving

        run, plan, state, sink, rollouts = self._config.run, self._plan, self._state, self._sink, self._rollouts
        recorder = callbacks.Recorder(
            sink,
            rollouts.take_pending,
            lambda: (rollouts.rolled_out_at, rollouts.scored_at),
            phase=plan.first_phase,
        )
        self._watching = [
            callbacks.CollapseWatch(
                recorder, watch, state, sink, self._set_entropy_coef, steps_to_rollout_end=plan.unit
            )
            for watch in (plan.watch,)
            if watch is not None
        ]
        self._in_time: StopInTime = callbacks.StopInTime(run, self._stop, state, steps_to_rollout_end=plan.unit)
        self._saver: SaveState = saving.SaveState(run, state, sink, self._store, saved=self._first_step)
        self._selection: Evaluate = callbacks.Evaluate(
            run,
            self._evaluator.select,
            state,
            sink,
            self._saver.write_state,
            self._report,
            steps_to_rollout_end=plan.unit,
        )
        selects = [self._selection] if self._evaluator.can_select else []
        self._trainer.remove_callback(PrinterCallback)  # the view shows what it would print
        for callback in (
            callbacks.SettingsInForce(),
            callbacks.SkipBadSteps(sink),
            recorder,
            *self._watching,
            *selects,
            self._in_time,
            self._saver,
        ):
            self._trainer.add_callback(callback)

    def _set_entropy_coef(self, value: float) -> None:
        self._trainer.entropy_coef = value  # TRL and Unsloth read it at every loss

    def _report(self, values: dict[str, float]) -> None:
        """To W&B, trackio or TensorBoard. Not by ``trainer.log``, which would take the step's own figures along."""
        trainer = self._trainer
        due = trainer.control.should_log
        trainer.callback_handler.on_log(trainer.args, trainer.state, trainer.control, dict(values))
        trainer.control.should_log = due

    def train(self) -> None:
        """Train to the end, or to what ends it: a stop inside a rollout or an evaluation, a reward that fails, memory
        that runs out. What was learned until then is saved; ``tell_why_it_ended`` raises.

        A run that had all its steps is not trained further (transformers would do one step more).

        Raises:
            RunFolderError: it did more steps than it is to have.
        """
        if self._first_step > self._plan.max_steps:
            raise RunFolderError(
                f"the checkpoint has done {self._first_step} steps, and the run is to take {self._plan.max_steps}",
                "go on with as many epochs or steps as it began with, or start from it with --model",
            )
        for note in self._store.rewind():
            self._sink.event(self._first_step, "restart", note)
        try:
            with self.memory_explained():
                if self._resume_from is not None:
                    load_trained(self._policy.model, self._resume_from)
                    if self._evaluator.can_select:
                        self._selection.make_up(self._first_step, self._plan.max_steps)
                if self._first_step < self._plan.max_steps:
                    self._trainer.train(resume_from_checkpoint=self._resume_from and str(self._resume_from))
        except ArcslimError as error:
            self._failure = error
            self._saver.keep(self._trainer)

    @contextlib.contextmanager
    def memory_explained(self) -> Iterator[None]:
        """Turn the GPU's out-of-memory error into one that names the phase and its knob; the sink is told as well."""
        import torch

        try:
            yield
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if self._evaluator.running is not None:
                phase, mend = self._evaluator.running
            elif self._rollouts.is_drawing:
                phase, mend = "a rollout", "lower generation.rollout_batch or generation.max_completion_length"
            else:
                phase, mend = "the update", self._plan.smaller_update
            message = f"out of GPU memory in {phase} after step {self.step}; what was learned is kept"
            self._sink.event(self.step, "oom", message)
            raise ArcslimError(message, f"{mend}; then go on with --resume auto") from error

    def keep_best(self) -> None:
        """Leave the best checkpoint's weights in the model and in ``final/``; the last where none was evaluated."""
        state, step = self._state, self.step
        if state.best_step is not None and state.best_step != step:
            load_trained(self._policy.model, self._store.path / f"checkpoint-{state.best_step}")
        save_adapter(self._policy.model, self._policy.tokenizer, self._store.path / "final")
        if not state.beats_start:
            goal = state.goal
            was, best = (goal.form.format(value) for value in (state.start[goal.metric], state.best))
            words = f"no checkpoint beats the starting policy's {goal.name} of {was}"
            self._sink.event(step, "warning", f"{words}: final/ holds the best of them, at {best}")

    def tell_why_it_ended(self) -> None:
        """Raise what ended the run early, if anything did; all is saved by now.

        Raises:
            CollapseError: a watch stopped it.
            Stopped: it was asked to stop.
            ArcslimError: it failed.
        """
        for stopped_by in (watching.stopped_by for watching in self._watching if watching.stopped_by):
            self._sink.event(self.step, "stopped", stopped_by)
            raise CollapseError(stopped_by, f"the best checkpoint is in {self._store.path / 'final'}")
        if self._failure is not None and not isinstance(self._failure, Stopped):
            raise self._failure
        if self._stop.requested:
            self._sink.event(self.step, "stopped", "on request; everything is saved")
            self._stop.check()

    def sum_up(self) -> Outcome:
        """Test the best checkpoint, unless the time is up."""
        state, reason = self._state, self._in_time.reason
        tested = self.step if state.best_step is None else state.best_step
        if reason is None and state.tested_step != tested:
            with self.memory_explained():
                state.test_values = self._evaluator.tests(tested)
            state.tested_step = tested
            self._saver.write_state(self.step)  # so that a finished run that is resumed is not tested again
        self._sink.event(self.step, "end", reason or "all steps are done")
        return Outcome(self.step, state.best_step, state.start, state.best_values | state.test_values, reason)
