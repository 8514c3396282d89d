"""The GRPO recipe: config → tasks → prompts → model → rewards → trainer → run folder, read from top to bottom."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from arcslim.config import Config, GenerationSection
from arcslim.errors import DataError
from arcslim.policy.load import adapter_unrounded, ensure_reference_adapter, load_policy, print_to_log, start_unsloth
from arcslim.recipes.arguments import run_arguments, schedule_arguments
from arcslim.recipes.geometry import Geometry, compare
from arcslim.recipes.prepare import Prepared, prepare, string_prompt
from arcslim.recipes.rollouts import Rollouts
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.start import MEASURED_ON, Evaluator, look_at_the_start, measure_floor, tell_data
from arcslim.recipes.state import RunState
from arcslim.recipes.training import Outcome, Plan, Training
from arcslim.recipes.watch import Watch
from arcslim.rewards.suite import RewardSuite

SMALLER_UPDATE = (
    "halve optim.per_device_train_batch_size and double optim.gradient_accumulation_steps and "
    "grpo.steps_per_generation: the same update in smaller pieces"
)
TINY_ENTROPY = 1e-12  # stock TRL fixes at construction whether there is an entropy bonus at all


def run(
    config: Config, sink: Sink, store: RunStore, stop: StopSignal, *, cache_dir: Path, resume_from: Path | None = None
) -> Outcome:
    """Train by GRPO, and leave the best adapter in ``final/``.

    Raises:
        InputError: a model, source or reward that cannot be used.
        CollapseError: a watch with the action ``stop`` fired; everything is saved.
        Stopped: a stop was asked for; everything is saved.
    """
    arguments = grpo_config(config, store.path, cache_dir)
    from trl import GRPOTrainer  # after Unsloth, which replaces it on a GPU

    geometry = Geometry.in_force(arguments)
    for line in compare(Geometry.from_config(config.grpo, config.optim), geometry):
        sink.event(0, "start", line)

    policy = load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=cache_dir)
    for note in policy.notes:
        sink.event(0, "start", note)
    stop.check()

    prepared = prepare(config, policy.tokenizer, stop.check)
    tell_data(prepared, sink)
    stop.check()

    suite = RewardSuite.from_config(config.reward, scale_rewards=config.grpo.scale_rewards)
    suite.check(one.task for one in prepared.train)
    watch = Watch(config.watch, beta=config.grpo.beta)
    state = RunState(parts={"suite": suite, "watch": watch}, entropy_coef=config.grpo.entropy_coef)
    rollouts = Rollouts(policy, suite, prepared.train, config, sink, stop)
    evaluator = Evaluator(config, policy, prepared.held, sink, stop)

    with adapter_unrounded(policy.model), print_to_log():
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

    plan = Plan(config.run.max_steps, SMALLER_UPDATE, geometry.steps_to_rollout_end, "rollout", watch)
    training = Training(config, policy, trainer, plan, rollouts, evaluator, state, sink, store, stop, resume_from)
    training.add_callbacks()
    with training.memory_explained():
        if resume_from is None:
            selected = look_at_the_start(state, evaluator, sink)
            if config.reward.min_thinking.is_to_be_measured:
                some = prepared.train[:MEASURED_ON]
                looked_at = selected or evaluator.on(some, config.run.eval_samples, "start")
                measure_floor(suite, looked_at, sink, store)
        else:
            state.load(resume_from)
    stop.check()

    training.train()
    training.keep_best()
    training.tell_why_it_ended()
    return training.sum_up()


def trainer_arguments(config: Config, run_dir: Path, *, on_gpu: bool) -> dict[str, Any]:
    """The arguments of TRL's ``GRPOConfig``, all that this recipe sets and no default of ours besides."""
    grpo, optim = config.grpo, config.optim
    watched = config.watch.entropy != "ignore" and config.watch.entropy_coef_max > 0
    arguments: dict[str, Any] = {
        **run_arguments(config, run_dir, on_gpu=on_gpu),
        **schedule_arguments(optim),
        "max_steps": config.run.max_steps,
        "remove_unused_columns": False,
        "shuffle_dataset": not grpo.longest_first,
        **{name: getattr(grpo, name) for name in (
            "num_generations", "steps_per_generation", "num_iterations", "loss_type", "importance_sampling_level",
            "beta", "epsilon", "epsilon_high", "delta", "scale_rewards", "mask_truncated_completions",
        )},
        "entropy_coef": grpo.entropy_coef or (TINY_ENTROPY if watched and not on_gpu else 0.0),
        **{name: getattr(optim, name) for name in (
            "optim", "adam_beta1", "adam_beta2", "weight_decay", "max_grad_norm", "per_device_train_batch_size",
            "gradient_accumulation_steps",
        )},
        **sampling(config.generation),
    }  # fmt: skip
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
    return Geometry.in_force(grpo_config(config, run_dir, cache_dir))


def grpo_config(config: Config, run_dir: Path, cache_dir: Path) -> Any:
    """TRL's ``GRPOConfig`` as Unsloth gives it, whose import this starts."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns of `rollout_func`
    unsloth = start_unsloth(cache_dir, standby=config.model.standby)
    from trl import GRPOConfig

    with print_to_log():
        return GRPOConfig(**trainer_arguments(config, run_dir, on_gpu=str(unsloth.DEVICE_TYPE) != "cpu"))


def sampling(generation: GenerationSection) -> dict[str, Any]:
    """Sampling under TRL's names, which are the section's own."""
    return generation.model_dump(exclude={"rollout_batch"})


def refuse_too_few(config: Config, prepared: Prepared) -> None:
    """Raises:
    DataError: the training prompts do not fill one rollout, so that no step would be taken.
    """
    prompts = Geometry.from_config(config.grpo, config.optim).prompts_per_rollout
    if len(prepared.train) < prompts:
        raise DataError(
            f"{len(prepared.train)} training tasks are fewer than one rollout's {prompts} prompts",
            "raise data.tasks, or lower optim.per_device_train_batch_size or grpo.steps_per_generation",
        )


def train_dataset(config: Config, prepared: Prepared, tokenizer: Any) -> Any:
    """The ``datasets.Dataset`` of training prompts: ``prompt`` (text) and ``prompt_id``.

    With ``grpo.longest_first`` the first rollout takes the longest prompts, and the rest follow in a shuffled order.
    """
    from datasets import Dataset

    asked = list(prepared.train)
    refuse_too_few(config, prepared)
    geometry = Geometry.from_config(config.grpo, config.optim)
    if config.grpo.longest_first:
        asked.sort(key=lambda one: -len(one.prompt.token_ids))
        rest = asked[geometry.prompts_per_rollout :]
        random.Random(config.run.seed).shuffle(rest)
        asked[geometry.prompts_per_rollout :] = rest
    rows = [{"prompt": string_prompt(one.prompt, tokenizer), "prompt_id": one.prompt.prompt_id} for one in asked]
    return Dataset.from_list(rows)
