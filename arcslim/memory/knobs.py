"""What to type for a change: each recipe has its own names for rows, batches and lengths."""

from __future__ import annotations

from arcslim.memory.setup import GRPO, HER, PRETRAIN, SFT, Setup

_RANK = {GRPO: "lora.r", SFT: "sft.lora_r", HER: "her.lora_r", PRETRAIN: "her.lora_r"}
_FOUR_BIT = {HER: "her.load_in_4bit", PRETRAIN: "her.load_in_4bit"}
_LONGEST = {
    GRPO: "generation.max_completion_length",
    SFT: "sft.max_length",
    HER: "her.max_completion_length",
    PRETRAIN: "model.max_seq_length",
}


def put(knob: str, value: object) -> str:
    return f"--set {knob}={value}"


def rows_settings(setup: Setup, rows: int) -> tuple[str, ...]:
    """So many rows drawn at once; empty where no knob says how many, or none must change."""
    settings = []
    if setup.recipe == HER:
        return (put("her.rollout_batch", rows),) if setup.rollout_rows > rows else ()
    if setup.recipe == GRPO and setup.rollout_rows > rows:
        settings.append(put("generation.rollout_batch", rows))
    if setup.recipe != PRETRAIN and setup.eval_rows > rows:
        settings.append(put("run.eval_batch", rows))
    return tuple(settings)


def batch_settings(setup: Setup, rows: int) -> tuple[str, ...]:
    """A micro-batch of so many rows; the update stays as large as it is, but for HER, whose batch is the update."""
    if setup.recipe == SFT:
        return (put("sft.per_device_train_batch_size", rows),)
    if setup.recipe == HER:
        return (put("her.batch_size", rows),)
    if setup.recipe == PRETRAIN:
        return (put("her.base.per_device_train_batch_size", rows),)
    times = setup.micro_batch // rows
    return (
        put("optim.per_device_train_batch_size", rows),
        put("grpo.steps_per_generation", setup.steps_per_generation * times),
        put("optim.gradient_accumulation_steps", setup.accumulation * times),
    )


def rank_setting(setup: Setup, rank: int) -> str:
    return put(_RANK[setup.recipe], rank)


def four_bit_setting(setup: Setup) -> str:
    return put(_FOUR_BIT.get(setup.recipe, "model.load_in_4bit"), "true")


def context_setting(setup: Setup, row: int) -> tuple[str, ...]:
    """What rows of so many tokens want besides, where they are longer than the context that is set (0: not known)."""
    return (put("model.max_seq_length", row),) if 0 < setup.context < row else ()


def longest_setting(setup: Setup, tokens: int) -> str:
    """Of what is drawn where a recipe learns from that, else of a row."""
    return put(_LONGEST[setup.recipe], tokens)
