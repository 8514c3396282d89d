"""The GRPO recipe: config → tasks → prompts → model → rewards → trainer → run folder, read from top to bottom."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcslim.config import Config, GenerationSection
from arcslim.errors import ArcslimError, CollapseError, DataError, Stopped
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
from arcslim.recipes.geometry import Geometry, compare
from arcslim.recipes.prepare import Prepared, prepare, string_prompt
from arcslim.recipes.rollouts import Rollouts
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.start import Evaluator, look_at_the_start, tell_data
from arcslim.recipes.state import RunState
from arcslim.recipes.watch import Watch
from arcslim.rewards.suite import RewardSuite

if TYPE_CHECKING:
    from arcslim.recipes.callbacks import CollapseWatch, SaveState, StopInTime

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
    from trl import GRPOConfig, GRPOTrainer  # after Unsloth, which replaces them on a GPU

    policy = load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=cache_dir)
    for note in policy.notes:
        sink.event(0, "start", note)
    stop.check()

    prepared = prepare(config, policy.tokenizer)
    tell_data(prepared, sink)
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
    hooks = add_callbacks(trainer, config, rollouts, state, evaluator, sink, store, stop, geometry)
    if resume_from is None:
        look_at_the_start(config, state, evaluator, prepared, sink, store)
    else:
        state.load(resume_from)
    stop.check()

    failure = train(trainer, resume_from, rollouts, hooks, sink)
    keep_best(policy, state, trainer.state.global_step, store)
    tell_why_it_ended(failure, hooks, trainer.state.global_step, sink, store, stop)
    return sum_up(evaluator, hooks, state, trainer.state.global_step, sink)


@dataclass(frozen=True)
class Hooks:
    """The callbacks that are asked afterwards how the training went."""

    watch: CollapseWatch
    in_time: StopInTime
    saver: SaveState

    @property
    def stopped(self) -> str | None:
        return self.watch.stopped_by or self.in_time.reason


def add_callbacks(
    trainer: Any,
    config: Config,
    rollouts: Rollouts,
    state: RunState,
    evaluator: Evaluator,
    sink: Sink,
    store: RunStore,
    stop: StopSignal,
    geometry: Geometry,
) -> Hooks:
    """Give the trainer the callbacks of ``callbacks.py``, in its order."""
    from transformers import PrinterCallback

    from arcslim.recipes import callbacks

    def set_entropy_coef(value: float) -> None:
        trainer.entropy_coef = value  # TRL and Unsloth read it at every loss

    def report(values: dict[str, float]) -> None:
        """To W&B, trackio or TensorBoard. Not by ``trainer.log``, which would take the step's own figures along."""
        due = trainer.control.should_log
        trainer.callback_handler.on_log(trainer.args, trainer.state, trainer.control, dict(values))
        trainer.control.should_log = due

    unit = geometry.steps_to_rollout_end
    recorder = callbacks.Recorder(sink, rollouts.take_pending, lambda: (rollouts.rolled_out_at, rollouts.scored_at))
    saver = callbacks.SaveState(config.run, state, sink, store)
    hooks = Hooks(
        watch=callbacks.CollapseWatch(recorder, state, sink, set_entropy_coef, steps_to_rollout_end=unit),
        in_time=callbacks.StopInTime(config.run, stop, state, steps_to_rollout_end=unit),
        saver=saver,
    )
    selection = callbacks.Evaluate(
        config.run, evaluator.select, state, sink, saver.finish, report, steps_to_rollout_end=unit
    )
    selects = [selection] if evaluator.can_select else []
    trainer.remove_callback(PrinterCallback)  # the view shows what it would print
    for callback in (callbacks.SkipBadSteps(sink), recorder, hooks.watch, *selects, hooks.in_time, hooks.saver):
        trainer.add_callback(callback)
    return hooks


def train(trainer: Any, resume_from: Path | None, rollouts: Rollouts, hooks: Hooks, sink: Sink) -> ArcslimError | None:
    """Train to the end, or to what ended it, which is returned: a stop inside a rollout or an evaluation, a reward that
    failed, memory that ran out. What was learned until then is saved."""
    import torch

    try:
        trainer.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
    except ArcslimError as error:
        hooks.saver.keep(trainer)
        return error
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        hooks.saver.keep(trainer)
        return out_of_memory(trainer.state.global_step, rollouts.is_drawing, sink)
    return None


def keep_best(policy: Policy, state: RunState, step: int, store: RunStore) -> None:
    """Leave the best checkpoint's weights in the model and in ``final/``; the last ones where none was evaluated."""
    if state.best_step is not None and state.best_step != step:
        load_trained(policy.model, store.path / f"checkpoint-{state.best_step}")
    save_adapter(policy.model, policy.tokenizer, store.path / "final")


def tell_why_it_ended(
    failure: ArcslimError | None, hooks: Hooks, step: int, sink: Sink, store: RunStore, stop: StopSignal
) -> None:
    """Raise what ended the run early, if anything did; all is saved by now.

    Raises:
        CollapseError: a watch stopped it.
        Stopped: it was asked to stop.
        ArcslimError: it failed.
    """
    if hooks.watch.stopped_by is not None:
        sink.event(step, "stopped", hooks.watch.stopped_by)
        raise CollapseError(hooks.watch.stopped_by, f"the best checkpoint is in {store.path / 'final'}")
    if failure is not None and not isinstance(failure, Stopped):
        raise failure
    if stop.requested:
        sink.event(step, "stopped", "on request; everything is saved")
        stop.check()


def sum_up(evaluator: Evaluator, hooks: Hooks, state: RunState, step: int, sink: Sink) -> Outcome:
    """Test the best checkpoint, unless the time is up."""
    end = evaluator.tests() if hooks.in_time.reason is None else {}
    if end:
        sink.metrics(step, "eval", end)  # of the best checkpoint, whichever step it is of
    sink.event(step, "end", hooks.stopped or "all steps are done")
    return Outcome(step, state.best_step, state.start, state.best_values | end, hooks.stopped)


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
