"""Checks over several knobs: what cannot work is refused before anything loads, what is doubtful is warned of.

A check is a line: is it so, which knobs say so, what is wrong, what to do. The geometry's arithmetic follows TRL 1.15
(``GRPOConfig.__post_init__``, ``GRPOTrainer._prepare_inputs``): a rollout is ``per_device_train_batch_size x
steps_per_generation`` completions a process, gone through ``num_iterations`` times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from arcslim.config import Config, ModelSection
from arcslim.errors import Problem
from arcslim.findings import Findings
from arcslim.her_checks import check_base, check_her
from arcslim.sft_checks import check_sft, warn_what_is_of_grpo

GRPO, SFT, HER, HER_PRETRAIN = "grpo", "sft", "her", "her-pretrain"
DRAWING_REWARD = "arcslim.rewards.drawing:DrawingReward"
DATA = "data"  # `arcslim data`: no run at all


def check(config: Config, origins: Mapping[str, str], recipe: str | None = None) -> tuple[list[Problem], list[Problem]]:
    """All refusals and all warnings of a configuration whose single values are valid.

    A ``recipe`` is not held up by the knobs that another one alone reads; None: every recipe, as one preset serves
    them all.
    """
    found = Findings(origins)
    if recipe in (None, GRPO):
        _check_geometry(config, found)
    if recipe not in (HER, HER_PRETRAIN) and not (recipe == SFT and _only_rows(config)):
        _check_lengths(config, found)
    _check_model(config, found, recipe)
    _check_data(config, found)
    if recipe != DATA:
        _check_holdouts(config, found)
    if recipe in (None, GRPO):
        _check_rewards(config, found)
        _check_drawing(config, found)
        _warn_sampling(config, found)
        _warn_optimisation(config, found)
    if recipe in (None, SFT):
        check_sft(config, found)
    if recipe == HER:
        check_her(config, found)
    if recipe == HER_PRETRAIN:
        check_base(config, found)
    if recipe == SFT:
        warn_what_is_of_grpo(found)
    return found.problems, found.warnings


def _check_geometry(config: Config, found: Findings) -> None:
    batch, accumulation = config.optim.per_device_train_batch_size, config.optim.gradient_accumulation_steps
    steps, generations, passes = (
        config.grpo.steps_per_generation,
        config.grpo.num_generations,
        config.grpo.num_iterations,
    )
    rows = batch * steps
    fitting = math.lcm(batch, generations) // batch
    found.refuse(
        rows % generations != 0,
        ("optim.per_device_train_batch_size", "grpo.steps_per_generation", "grpo.num_generations"),
        f"a rollout of {batch} x {steps} = {rows} completions does not divide into groups of {generations} "
        "(optim.per_device_train_batch_size x grpo.steps_per_generation by grpo.num_generations)",
        f"make grpo.steps_per_generation a multiple of {fitting}, or grpo.num_generations a divisor of {rows}",
    )
    prompts = rows // generations
    found.refuse(
        rows % generations == 0 and config.data.tasks < prompts,
        ("data.tasks", "optim.per_device_train_batch_size", "grpo.steps_per_generation", "grpo.num_generations"),
        f"a rollout takes {prompts} different prompts, and data.tasks is {config.data.tasks}: not one step",
        f"set data.tasks to {prompts} or more, or make the rollout smaller",
    )
    micro_steps = steps * passes
    unit = micro_steps // math.gcd(micro_steps, accumulation)
    save = config.run.save_steps
    found.refuse(
        save % unit != 0,
        ("run.save_steps", "grpo.steps_per_generation", "grpo.num_iterations", "optim.gradient_accumulation_steps"),
        f"run.save_steps = {save} cuts a rollout in two: a rollout lasts {micro_steps} micro-steps, an optimizer step "
        f"{accumulation}, and a run resumed inside a rollout would not go on as it was",
        f"make run.save_steps a multiple of {unit}, as {max(unit, round(save / unit) * unit)}",
    )
    found.refuse(
        accumulation > micro_steps,
        ("optim.gradient_accumulation_steps", "grpo.steps_per_generation", "grpo.num_iterations"),
        f"an optimizer step of {accumulation} micro-steps takes several rollouts, which last {micro_steps} each",
        f"set grpo.steps_per_generation to {-(-accumulation // passes)}: one rollout, as large as those together",
    )
    found.warn(
        accumulation <= micro_steps and micro_steps % accumulation != 0,
        ("optim.gradient_accumulation_steps", "grpo.steps_per_generation", "grpo.num_iterations"),
        f"an optimizer step of {accumulation} micro-steps reaches over the end of a rollout of {micro_steps}",
        "let it divide the rollout, so that each update is of one rollout",
    )


def _only_rows(config: Config) -> bool:
    """Whether every source holds rows, so that SFT rolls nothing out: by their names, as nothing is opened here."""
    rows = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
    return all(
        source.startswith(("hub:", "samples:")) or (source.endswith(rows) and ":" not in source)
        for source in config.data.sources
    )


def _check_lengths(config: Config, found: Findings) -> None:
    prompt, completion = config.prompt.max_tokens, config.generation.max_completion_length
    context = config.model.max_seq_length
    found.refuse(
        prompt + completion > context,
        ("prompt.max_tokens", "generation.max_completion_length", "model.max_seq_length"),
        f"the longest prompt and completion do not fit the context: prompt.max_tokens {prompt} + "
        f"generation.max_completion_length {completion} = {prompt + completion} > model.max_seq_length {context}",
        f"lower one of the two, or raise model.max_seq_length to {prompt + completion}",
    )


def _check_model(config: Config, found: Findings, recipe: str | None) -> None:
    model, lora = config.model_for(recipe), config.lora
    four_bit = "her.load_in_4bit" if recipe in (HER, HER_PRETRAIN) else "model.load_in_4bit"
    found.refuse(
        lora.use_dora and model.fast_inference,
        ("lora.use_dora", "model.fast_inference"),
        "vLLM cannot serve DoRA adapters (lora.use_dora with model.fast_inference)",
        "turn one of them off; lora.use_rslora works with vLLM",
    )
    found.refuse(
        model.load_in_4bit and model.full_finetuning,
        (four_bit, "model.full_finetuning"),
        f"4-bit weights cannot be trained themselves ({four_bit} with model.full_finetuning)",
        f"set {four_bit}=false for all weights in 16 bits, or model.full_finetuning=false for an adapter",
    )
    found.refuse(
        model.standby and not model.fast_inference,
        ("model.standby", "model.fast_inference"),
        "model.standby is about vLLM's memory, and vLLM is off",
        "set model.fast_inference=true (extra `vllm`), or leave model.standby out",
    )
    found.warn(
        not model.fast_inference and model.gpu_memory_utilization != ModelSection().gpu_memory_utilization,
        ("model.gpu_memory_utilization",),
        "model.gpu_memory_utilization has no effect without model.fast_inference",
        "leave it out, or turn vLLM on",
    )
    found.warn(
        lora.use_dora,
        ("lora.use_dora",),
        "DoRA norms every adapted layer at each forward: slower, and Unsloth's fused kernels are off",
        "plain LoRA with lora.use_rslora=true costs nothing",
    )
    found.warn(
        lora.lora_dropout > 0,
        ("lora.lora_dropout",),
        "dropout makes the ratio of new to old log-probabilities noisy, and turns Unsloth's fused kernels off",
        "set lora.lora_dropout=0",
    )
    found.warn(
        model.trust_remote_code,
        ("model.trust_remote_code",),
        "Python code that comes with the model will run on this machine",
        "only if you have read it; pin what you read with model.revision",
    )


def _check_data(config: Config, found: Findings) -> None:
    data = config.data
    found.refuse(
        data.min_side > data.max_side,
        ("data.min_side", "data.max_side"),
        f"data.min_side {data.min_side} is over data.max_side {data.max_side}: no grid could pass",
        "swap or widen them",
    )
    found.refuse(
        data.difficulty_min > data.difficulty_max,
        ("data.difficulty_min", "data.difficulty_max"),
        f"data.difficulty_min {data.difficulty_min} is over data.difficulty_max {data.difficulty_max}",
        "swap or widen them",
    )
    found.warn(
        data.allow_identity,
        ("data.allow_identity",),
        "tasks whose output is the input pay for copying without thought",
        "set data.allow_identity=false",
    )


def _check_holdouts(config: Config, found: Findings) -> None:
    data = config.data
    found.refuse(
        data.holdout_select == 0 and config.run.early_stop > 0,
        ("data.holdout_select", "run.early_stop"),
        "run.early_stop needs held-out tasks to see whether the policy still gets better, and data.holdout_select is 0",
        "set data.holdout_select, or run.early_stop=0",
    )
    found.warn(
        data.holdout_select == 0,
        ("data.holdout_select",),
        "without held-out tasks no best checkpoint is chosen, and the best often comes early",
        "set data.holdout_select=100",
    )


def _check_rewards(config: Config, found: Findings) -> None:
    thinking = config.reward.min_thinking
    found.refuse(
        thinking.mode != "none" and thinking.min_tokens >= config.generation.max_completion_length,
        ("reward.min_thinking.min_tokens", "generation.max_completion_length"),
        f"reward.min_thinking.min_tokens {thinking.min_tokens} leaves no room for an answer within "
        f"generation.max_completion_length {config.generation.max_completion_length}",
        "lower the first or raise the second",
    )
    found.warn(
        config.reward.grid.variant == "format",
        ("reward.grid.variant",),
        "reward.grid.variant = format pays 0.1 for any well-formed grid, even one digit: thinking collapses",
        "for comparison only; otherwise graded",
    )
    found.warn(
        config.grpo.scale_rewards != "none",
        ("grpo.scale_rewards",),
        f"grpo.scale_rewards = {config.grpo.scale_rewards} divides by the spread: where nothing is solved, format and "
        "length grow to the size of correctness",
        "none keeps a right answer worth what it is worth",
    )


def _check_drawing(config: Config, found: Findings) -> None:
    """`draw:` sources have programs for answers, which no reward but the drawing one understands."""
    draws = [source for source in config.data.sources if source.startswith("draw:")]
    found.refuse(
        bool(draws) and len(draws) < len(config.data.sources),
        ("data.sources",),
        f"{', '.join(draws)} and sources of tasks: no reward can pay both",
        "draw in a run of its own",
    )
    paid = config.reward.grid.weight == 0 and config.reward.min_thinking.mode == "none"
    found.refuse(
        bool(draws) and not (paid and any(name.startswith(DRAWING_REWARD) for name in config.reward.extra)),
        ("data.sources", "reward.extra", "reward.grid.weight", "reward.min_thinking.mode"),
        f"{', '.join(draws)}: a program is the answer, which the drawing reward alone can pay",
        f"--reward {DRAWING_REWARD} --set reward.grid.weight=0 --set reward.min_thinking.mode=none",
    )


def _warn_sampling(config: Config, found: Findings) -> None:
    sampling = config.generation
    cut = [
        name
        for name, on in (
            ("top_p", sampling.top_p < 1),
            ("top_k", sampling.top_k > 0),
            ("min_p", bool(sampling.min_p)),
            ("repetition_penalty", sampling.repetition_penalty != 1),
        )
        if on
    ]
    found.warn(
        bool(cut),
        tuple(f"generation.{name}" for name in cut),
        f"{', '.join(cut)} sample from another distribution than the one whose log-probabilities are trained: a bias",
        "leave the tail whole: top_p 1, top_k 0, no min_p, repetition_penalty 1",
    )
    found.warn(
        sampling.temperature != 1,
        ("generation.temperature",),
        f"at temperature {sampling.temperature} the policy trained is not the one that answers at temperature 1",
        "set generation.temperature=1",
    )
    found.warn(
        config.grpo.mask_truncated_completions,
        ("grpo.mask_truncated_completions",),
        "completions that ran into the limit are masked, so runaways never learn to stop",
        "set grpo.mask_truncated_completions=false",
    )


def _warn_optimisation(config: Config, found: Findings) -> None:
    grpo, optim, run = config.grpo, config.optim, config.run
    found.warn(
        grpo.epsilon_high is not None and grpo.epsilon_high < grpo.epsilon,
        ("grpo.epsilon_high", "grpo.epsilon"),
        f"grpo.epsilon_high {grpo.epsilon_high} is under grpo.epsilon {grpo.epsilon}: rises are cut before falls",
        "clip-higher is 0.2 and 0.28",
    )
    found.warn(
        optim.learning_rate > 5e-4,
        ("optim.learning_rate",),
        f"optim.learning_rate {optim.learning_rate} is high for reinforcement learning: 1e-3 collapses a tiny model "
        "in 60 steps",
        "1e-5 for a 7B adapter, 5e-4 for `tiny`",
    )
    found.warn(
        optim.warmup_steps >= run.max_steps,
        ("optim.warmup_steps", "run.max_steps"),
        f"the warm-up of {optim.warmup_steps:g} steps is not over when the run ends at {run.max_steps}",
        "lower optim.warmup_steps, or train longer",
    )
    found.warn(
        grpo.beta > 0 and config.model.full_finetuning,
        ("grpo.beta", "model.full_finetuning"),
        "with all weights trained, grpo.beta > 0 keeps a second whole model as the reference",
        "an adapter needs none; or set grpo.beta=0",
    )
