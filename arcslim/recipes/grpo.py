"""The GRPO recipe: config → tasks → prompts → model → rewards → trainer → run folder, read from top to bottom."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcslim.config import Config, GenerationSection
from arcslim.errors import ArcslimError, CollapseError, DataError, RewardError, Stopped
from arcslim.policy.cpu import multiplies_bf16
from arcslim.policy.load import (
    Policy,
    adapter_unrounded,
    ensure_reference_adapter,
    load_policy,
    load_trained,
    print_to_log,
    save_adapter,
    start_unsloth,
)
from arcslim.presets import to_toml
from arcslim.recipes.evaluate import Evaluation, evaluate
from arcslim.recipes.geometry import Geometry, compare
from arcslim.recipes.prepare import Asked, Prepared, prepare, string_prompt
from arcslim.recipes.rollouts import Rollouts
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.state import RunState
from arcslim.recipes.watch import Watch
from arcslim.rewards.suite import RewardSuite
from arcslim.rewards.thinking import measure_min_tokens

MEASURED_ON = 64  # training prompts to measure the thinking on where no task is held out
TINY_ENTROPY = 1e-12  # stock TRL fixes at construction whether there is an entropy bonus at all


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``start`` and ``end`` hold the figures of the starting policy and of the best checkpoint."""

    steps: int
    best_step: int | None
    start: dict[str, float]
    end: dict[str, float]
    stopped: str | None


def run(
    config: Config, sink: Sink, store: RunStore, stop: StopSignal, *, cache_dir: Path, resume_from: Path | None = None
) -> Outcome:
    """Train by GRPO, and leave the best adapter in ``final/``.

    Raises:
        InputError: a model, source or reward that cannot be used.
        CollapseError: a watch with the action ``stop`` fired; everything is saved.
        Stopped: a stop was asked for; everything is saved.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns of `rollout_func`
    start_unsloth(cache_dir, standby=config.model.standby)
    import torch
    from transformers import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer  # after Unsloth, which replaces them on a GPU

    from arcslim.recipes import callbacks

    policy = load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=cache_dir)
    for note in policy.notes:
        sink.event(0, "start", note)
    stop.check()

    prepared = prepare(config, policy.tokenizer)
    _tell_data(prepared, sink)
    stop.check()

    suite = RewardSuite.from_config(config.reward, scale_rewards=config.grpo.scale_rewards)
    suite.check(one.task for one in prepared.train)
    state = RunState(suite, Watch(config.watch, beta=config.grpo.beta), entropy_coef=config.grpo.entropy_coef)
    rollouts = Rollouts(policy, suite, prepared.train, config, sink, stop)

    with print_to_log():
        arguments = GRPOConfig(**trainer_arguments(config, store.path, on_gpu=policy.device != "cpu"))
    geometry = Geometry.in_force(arguments)
    for line in compare(Geometry.from_config(config.grpo, config.optim), geometry):
        sink.event(0, "start", line)
    with adapter_unrounded(policy.model):
        trainer = GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=[rollouts],
            rollout_func=None if policy.fast_inference else rollouts.roll_out,
            args=arguments,
            train_dataset=train_dataset(config, prepared, policy.tokenizer),
        )
    if config.grpo.beta > 0:
        ensure_reference_adapter(policy.model)

    evaluator = Evaluator(config, policy, prepared, sink, stop)
    recorder = callbacks.Recorder(sink, rollouts.take_pending, lambda: (rollouts.rolled_out_at, rollouts.scored_at))
    unit = geometry.steps_to_rollout_end
    watch = callbacks.CollapseWatch(
        recorder, state, sink, lambda value: setattr(trainer, "entropy_coef", value), steps_to_rollout_end=unit
    )
    in_time = callbacks.StopInTime(config.run, stop, state, steps_to_rollout_end=unit)
    saver = callbacks.SaveState(config.run, state, sink, store)
    selection = callbacks.Evaluate(config.run, evaluator.select, state, sink, saver.finish, steps_to_rollout_end=unit)
    trainer.remove_callback(PrinterCallback)  # the view shows what it would print
    for callback in (
        callbacks.SkipBadSteps(sink),
        recorder,
        watch,
        *([selection] if "select" in prepared.held else []),
        in_time,
        saver,
    ):
        trainer.add_callback(callback)

    if resume_from is None:
        _look_at_the_start(config, state, evaluator, prepared, sink, store)
    else:
        state.load(resume_from)
    stop.check()
    failure: ArcslimError | None = None
    try:
        trainer.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
    except ArcslimError as error:  # a stop inside a rollout or an evaluation, a reward that failed
        failure = error
        saver.keep(trainer)
    except torch.OutOfMemoryError as error:
        raise out_of_memory(trainer.state.global_step, rollouts.is_drawing, sink) from error

    steps = trainer.state.global_step
    stopped = watch.stopped_by or in_time.reason
    if state.best_step is not None and state.best_step != steps:
        load_trained(policy.model, store.path / f"checkpoint-{state.best_step}")
    save_adapter(policy.model, policy.tokenizer, store.path / "final")
    if watch.stopped_by is not None:
        sink.event(steps, "stopped", watch.stopped_by)
        raise CollapseError(watch.stopped_by, f"the best checkpoint is in {store.path / 'final'}")
    if failure is not None and not isinstance(failure, Stopped):
        raise failure
    if stop.requested:
        sink.event(steps, "stopped", "on request; everything is saved")
        stop.check()
    end = evaluator.tests() if in_time.reason is None else {}
    if end:
        sink.metrics(steps, "eval", end)  # of the best checkpoint, whichever step it is of
    sink.event(steps, "end", stopped or "all steps are done")
    return Outcome(steps, state.best_step, state.start, state.last | end, stopped)


def out_of_memory(step: int, in_rollout: bool, sink: Sink) -> ArcslimError:
    """The error to raise, which names the knob of the phase that ran out; told to the sink as well."""
    if in_rollout:
        phase, mend = "a rollout", "lower generation.rollout_batch or generation.max_completion_length"
    else:
        phase = "the update"
        mend = (
            "halve optim.per_device_train_batch_size and double optim.gradient_accumulation_steps and "
            "grpo.steps_per_generation: the same update in smaller pieces"
        )
    message = f"out of GPU memory in {phase} after step {step}; checkpoints up to there are kept"
    sink.event(step, "oom", message)
    return ArcslimError(message, f"{mend}; then go on with --resume auto")


class Evaluator:
    """Evaluations of one run: the same prompts, the same seed, whatever the policy has become."""

    def __init__(self, config: Config, policy: Policy, prepared: Prepared, sink: Sink, stop: StopSignal) -> None:
        self._config, self._policy, self._prepared, self._sink, self._stop = config, policy, prepared, sink, stop

    def select(self) -> Evaluation:
        """On the tasks that the best checkpoint is chosen by."""
        return self._on(self._prepared.held["select"], self._config.run.eval_samples, "eval")

    def some_training_prompts(self) -> Evaluation:
        return self._on(self._prepared.train[:MEASURED_ON], self._config.run.eval_samples, "start")

    def tests(self) -> dict[str, float]:
        """On the sets held out for the final figures, each under its own name."""
        values: dict[str, float] = {}
        for name, asked in self._prepared.held.items():
            if name != "select":
                prefix = "test" if name == "test" else f"test_{name}"
                values |= self._on(asked, self._config.run.test_samples, prefix).values
        return values

    def _on(self, asked: tuple[Asked, ...], samples: int, prefix: str) -> Evaluation:
        run = self._config.run

        def on_batch(done: int, of: int) -> None:
            self._sink.progress(0, 0, phase="evaluation", done=done, of=of)
            self._stop.check()

        return evaluate(
            self._policy,
            asked,
            self._config.generation,
            samples=samples,
            batch=run.eval_batch,
            seed=run.seed + 1,
            prefix=prefix,
            on_batch=on_batch,
        )


def trainer_arguments(config: Config, run_dir: Path, *, on_gpu: bool) -> dict[str, Any]:
    """The arguments of TRL's ``GRPOConfig``, all that this recipe sets and no default of ours besides."""
    grpo, optim, generation, run = config.grpo, config.optim, config.generation, config.run
    watched = config.watch.entropy != "ignore" and config.watch.entropy_coef_max > 0
    arguments: dict[str, Any] = {
        "output_dir": str(run_dir),
        "max_steps": run.max_steps,
        "save_steps": run.save_steps,
        "seed": run.seed,
        "data_seed": run.seed,
        "report_to": list(run.report_to) or "none",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "shuffle_dataset": not grpo.longest_first,
        "use_cpu": not on_gpu,
        "bf16": on_gpu or multiplies_bf16(),
        "gradient_checkpointing": config.model.use_gradient_checkpointing != "false",
        **{name: getattr(grpo, name) for name in (
            "num_generations", "steps_per_generation", "num_iterations", "loss_type", "importance_sampling_level",
            "beta", "epsilon", "epsilon_high", "delta", "scale_rewards", "mask_truncated_completions",
        )},
        "entropy_coef": grpo.entropy_coef or (TINY_ENTROPY if watched and not on_gpu else 0.0),
        **{name: getattr(optim, name) for name in (
            "optim", "learning_rate", "warmup_steps", "adam_beta1", "adam_beta2", "weight_decay", "max_grad_norm",
            "lr_scheduler_type", "per_device_train_batch_size", "gradient_accumulation_steps",
        )},
        **sampling(generation),
    }  # fmt: skip
    if optim.lr_scheduler_type == "cosine_with_min_lr":
        arguments["lr_scheduler_kwargs"] = {"min_lr_rate": optim.lr_min_ratio}
    if config.model.fast_inference:
        arguments |= {
            "use_vllm": True,
            "vllm_importance_sampling_correction": True,
            "vllm_importance_sampling_mode": "token_truncate",
            "vllm_importance_sampling_clip_max": 2.0,
        }
    return arguments


def geometry_in_force(config: Config, run_dir: Path, cache_dir: Path) -> Geometry:
    """The batch geometry that the installed libraries make of the configuration; loads them, but no model."""
    unsloth = start_unsloth(cache_dir)
    from trl import GRPOConfig

    on_gpu = str(unsloth.DEVICE_TYPE) != "cpu"
    with print_to_log():
        return Geometry.in_force(GRPOConfig(**trainer_arguments(config, run_dir, on_gpu=on_gpu)))


def sampling(generation: GenerationSection) -> dict[str, Any]:
    """Sampling under TRL's names, which are the section's own."""
    return generation.model_dump(exclude={"rollout_batch"})


def train_dataset(config: Config, prepared: Prepared, tokenizer: Any) -> Any:
    """The ``datasets.Dataset`` of training prompts: ``prompt`` (text) and ``prompt_id``.

    With ``grpo.longest_first`` the first rollout takes the longest prompts, and the rest follow in a shuffled order.
    """
    from datasets import Dataset

    asked = list(prepared.train)
    geometry = Geometry.from_config(config.grpo, config.optim)
    if len(asked) < geometry.prompts_per_rollout:
        raise DataError(
            f"{len(asked)} training tasks are fewer than one rollout's {geometry.prompts_per_rollout} prompts",
            "raise data.tasks, or lower optim.per_device_train_batch_size or grpo.steps_per_generation",
        )
    if config.grpo.longest_first:
        asked.sort(key=lambda one: -len(one.prompt.token_ids))
        rest = asked[geometry.prompts_per_rollout :]
        random.Random(config.run.seed).shuffle(rest)
        asked[geometry.prompts_per_rollout :] = rest
    rows = [{"prompt": string_prompt(one.prompt, tokenizer), "prompt_id": one.prompt.prompt_id} for one in asked]
    return Dataset.from_list(rows)


def _tell_data(prepared: Prepared, sink: Sink) -> None:
    sink.event(0, "start", f"{len(prepared.train)} training prompts, the longest of {prepared.longest} tokens")
    for source, counts in prepared.split.counts.items():
        listed = ", ".join(f"{name} {number}" for name, number in counts.items())
        sink.event(0, "start", f"{source}: {listed}")
    for note in prepared.split.notes:
        sink.event(0, "warning", note)
    for name, asked in prepared.held.items():
        sink.task_rows(one.row for one in asked)
        copied = prepared.split.copy_rate.get(name)
        if copied is not None:
            sink.event(0, "start", f"{name}: {len(asked)} tasks; answering the input back solves {copied:.1%}")


def _look_at_the_start(
    config: Config, state: RunState, evaluator: Evaluator, prepared: Prepared, sink: Sink, store: RunStore
) -> None:
    """Evaluate the starting policy, and measure the least thinking on it where that is asked for."""
    selected = evaluator.select() if "select" in prepared.held else None
    state.last = {} if selected is None else dict(selected.values)
    state.start = state.last | evaluator.tests()
    if state.start:
        sink.metrics(0, "eval", state.start)
    thinking = config.reward.min_thinking
    if thinking.mode == "none" or thinking.min_tokens:
        return
    looked_at = selected or evaluator.some_training_prompts()
    measured = measure_min_tokens(looked_at.rollouts)
    if measured is None:
        raise RewardError(
            "the starting policy never thinks, so that the least thinking cannot be measured",
            "set reward.min_thinking.min_tokens, or reward.min_thinking.mode = 'none'",
        )
    state.suite.set_min_tokens(measured.min_tokens)
    sink.event(0, "start", measured.words)
    fixed = thinking.model_copy(update={"min_tokens": measured.min_tokens})
    reward = config.reward.model_copy(update={"min_thinking": fixed})
    store.write_text("resolved.toml", to_toml(config.model_copy(update={"reward": reward})))
