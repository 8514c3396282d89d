"""The callbacks of a training run: write it down, look for collapse, evaluate, stop in time, save what is ours.

They serve every recipe that trains with a transformers ``Trainer``. Their order is the order below.

``steps_to_rollout_end``: a rollout ends with every so many steps. Only there is a checkpoint made, an evaluation held
and a run stopped: a run that is resumed inside a rollout would roll out anew, and go on differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from arcslim.config import RunSection
from arcslim.errors import Stopped
from arcslim.recipes.evaluate import Evaluation
from arcslim.recipes.peaks import memory_peaks
from arcslim.recipes.sink import Sink, StopSignal
from arcslim.recipes.state import RunState
from arcslim.recipes.watch import Watch

LOGGED = {"loss": "loss", "grad_norm": "optim/grad_norm", "learning_rate": "optim/lr", "kl": "policy/kl"}
LOGGED |= {"sampling/importance_sampling_ratio/mean": "policy/importance_ratio_mean"}
LOGGED |= {"clip_ratio/region_mean": "policy/clip_ratio", "mean_token_accuracy": "completion/token_accuracy"}


class Recorder(TrainerCallback):
    """One row of ``metrics.jsonl`` a step: TRL's figures under our names, ``pending()`` of the recipe, seconds, memory.

    ``pending`` hands over figures that wait to be written, and ``rollout_times`` tells when the newest rollout was
    drawn and scored (on ``clock``). A step without a rollout of its own has no rollout figures. ``phase`` is what a
    step begins with.
    """

    def __init__(
        self,
        sink: Sink,
        pending: Callable[[], dict[str, float]],
        rollout_times: Callable[[], tuple[float, float]],
        *,
        phase: str = "rollout",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink, self._pending, self._rollout_times, self._clock = sink, pending, rollout_times, clock
        self._phase = phase
        self._began = clock()
        self._seconds: dict[str, float] = {}
        self.row: dict[str, float] = {}

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._began = self._clock()
        self._sink.progress(state.global_step, state.max_steps, phase=self._phase)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        ended = self._clock()
        rolled, rewarded = self._rollout_times()
        self._seconds = {"seconds/step": ended - self._began}
        if rolled > self._began:
            self._seconds["seconds/rollout"] = rolled - self._began
        self._seconds["seconds/update"] = ended - max(rewarded, self._began)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not logs or "loss" not in logs:
            return  # the summary at the end of training
        logged = {ours: float(logs[theirs]) for theirs, ours in LOGGED.items() if logs.get(theirs) is not None}
        self.row = logged | self._pending() | self._seconds | memory_peaks()
        self._sink.metrics(state.global_step, "train", self.row)
        self._sink.progress(state.global_step, state.max_steps)


class SettingsInForce(TrainerCallback):
    """The rate, weight decay and betas that are asked for, also where a checkpoint's optimizer brings its own.

    transformers loads the optimizer and the scheduler whole, so that a rate that was changed for a resumed run would
    silently stay what it was.
    """

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        optimizer: Any = None,
        lr_scheduler: Any = None,
        **_: Any,
    ) -> None:
        if state.global_step == 0:
            return
        scheduler = getattr(lr_scheduler, "scheduler", lr_scheduler)  # accelerate wraps it
        scheduler.base_lrs = [args.learning_rate] * len(scheduler.base_lrs)
        for group, factor in zip(optimizer.param_groups, scheduler.lr_lambdas, strict=True):
            group["initial_lr"] = args.learning_rate
            group["lr"] = args.learning_rate * factor(scheduler.last_epoch)
            group["betas"] = (args.adam_beta1, args.adam_beta2)
            if group["weight_decay"]:  # that of biases and norms stays 0
                group["weight_decay"] = args.weight_decay
        scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


class SkipBadSteps(TrainerCallback):
    """A gradient that is not finite changes nothing: it is taken away before the optimizer sees it, and told.

    Taken away and not zeroed: with a gradient of 0 AdamW would still move by its momentum.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        if not gradients or bool(torch.stack([gradient.sum() for gradient in gradients]).isfinite().all()):
            return
        for parameter in model.parameters():
            parameter.grad = None
        self._sink.event(
            state.global_step + 1, "skipped_step", "the gradient was not finite: this step changes nothing"
        )


class CollapseWatch(TrainerCallback):
    """Shows each step's figures to the watches, says what they find, and obeys them."""

    def __init__(
        self,
        recorder: Recorder,
        watch: Watch,
        run: RunState,
        sink: Sink,
        set_entropy_coef: Callable[[float], None],
        *,
        steps_to_rollout_end: int = 1,
    ) -> None:
        self._recorder, self._watch, self._run = recorder, watch, run
        self._sink, self._set_entropy_coef = sink, set_entropy_coef
        self._steps_to_rollout_end = steps_to_rollout_end
        self.stopped_by: str | None = None

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not logs or "loss" not in logs:
            return
        for finding in self._watch.observe(self._recorder.row):
            self._sink.event(state.global_step, "warning", finding.words)
            if finding.action == "stop":
                self.stopped_by = finding.words
        if self.stopped_by is not None and state.global_step % self._steps_to_rollout_end == 0:
            control.should_save = control.should_training_stop = True
        wanted = self._watch.entropy_coef(self._run.entropy_coef)
        if wanted != self._run.entropy_coef:
            self._sink.event(state.global_step, "warning", f"grpo.entropy_coef goes to {wanted:g}")
            self._run.entropy_coef = wanted
            self._set_entropy_coef(wanted)


class Evaluate(TrainerCallback):
    """Evaluates every ``run.eval_steps`` (where that falls inside a rollout: at its end) and at the last step.

    A new best is saved; ``run.early_stop`` is obeyed. An evaluation that a stop cut short is made up for when the run
    is resumed.
    """

    def __init__(
        self,
        section: RunSection,
        evaluation: Callable[[], Evaluation],
        run: RunState,
        sink: Sink,
        save_again: Callable[[int], None],
        report: Callable[[dict[str, float]], None],
        *,
        steps_to_rollout_end: int = 1,
    ) -> None:
        self._section, self._evaluation, self._run, self._sink = section, evaluation, run, sink
        self._save_again, self._report, self._steps_to_rollout_end = save_again, report, steps_to_rollout_end

    def make_up(self, step: int, max_steps: int) -> None:
        """Evaluate the policy of the checkpoint ``step``, which a run goes on from, where a stop cut that short."""
        if self._due(step, max_steps) and self._run.evaluated_step != step:
            self._evaluate(step)
            self._save_again(step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        step = state.global_step
        if not self._due(step, state.max_steps):
            return
        try:
            improved = self._evaluate(step)
        except Stopped:  # not raised any further: the step that has just ended is to be logged and saved
            control.should_save = control.should_training_stop = True
            return
        if improved:
            control.should_save = True
        elif self._section.early_stop and self._run.stale >= self._section.early_stop:
            detail = f"{self._run.stale} evaluations without a new best: stops early"
            self._sink.event(step, "stopped", detail)
            control.should_save = control.should_training_stop = True

    def _due(self, step: int, max_steps: int) -> bool:
        unit, every = self._steps_to_rollout_end, self._section.eval_steps
        return step >= max_steps or (step % unit == 0 and step // every > (step - unit) // every)

    def _evaluate(self, step: int) -> bool:
        """Whether it is the best so far."""
        values = self._evaluation().values
        self._sink.metrics(step, "eval", values)
        self._report(values)
        self._run.evaluated_step = step
        improved = self._run.improve(values[self._run.goal.metric], step, values.get("eval/loss"))
        if improved:
            self._run.best_values = values
        return improved


class StopInTime(TrainerCallback):
    """Ctrl-C, SIGTERM and ``run.max_hours``: save at the end of the next step that ends a rollout, then stop."""

    def __init__(
        self,
        section: RunSection,
        stop: StopSignal,
        run: RunState,
        *,
        steps_to_rollout_end: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._section, self._stop, self._run = section, stop, run
        self._steps_to_rollout_end, self._clock = steps_to_rollout_end, clock
        self._before, self._began = 0.0, clock()
        self._checked_at, self._longest_gap = clock(), 0.0
        self.reason: str | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._before = self._run.seconds  # of the parts of this run before it was resumed
        self._checked_at = self._clock()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        now = self._clock()
        self._run.seconds = self._before + now - self._began
        if state.global_step % self._steps_to_rollout_end:
            return
        self._longest_gap = max(self._longest_gap, now - self._checked_at)
        self._checked_at = now
        limit = self._section.max_hours
        if self._stop.requested:
            self.reason = "stopped on request"
        elif limit is not None and self._run.seconds + self._longest_gap > limit * 3600:
            # Stopping in time means before the limit: the next rollout, with its evaluation, would not fit any more.
            self.reason = f"run.max_hours = {limit:g} would be passed"
        if self.reason is not None:
            control.should_save = control.should_training_stop = True
