"""Checks over the knobs of HER; called from ``checks.py``, and of the same form."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from arcslim.config import LORA_TARGETS as LINEAR
from arcslim.config import Config
from arcslim.findings import Findings
from arcslim.her_config import EMBEDDED, TINY_RATE

UNREAD = ("data", "prompt", "reward", "grpo", "generation", "watch")  # sections
"""Sections that are of tasks and their answers, and no drawing has."""
TWINS = {
    "model.name": "model",
    "model.load_in_4bit": "load_in_4bit",
    "lora.r": "lora_r",
    "lora.lora_alpha": "lora_alpha",
    "lora.target_modules": "target_modules",
    "lora.use_rslora": "use_rslora",
    "lora.use_dora": "use_dora",
    "optim.learning_rate": "learning_rate",
    "optim.max_grad_norm": "max_grad_norm",
    "optim.warmup_steps": "warmup",
    "optim.per_device_train_batch_size": "batch_size",
    "generation.temperature": "samplers",
    "generation.top_p": "top_p",
    "generation.rollout_batch": "rollout_batch",
    "generation.max_completion_length": "max_completion_length",
    "run.max_steps": "max_epochs",
    "run.save_steps": "save_epochs",
}
"""What another recipe reads, and HER's own knob for it."""
BASE_TWINS = {
    name: f"base.{own}"
    for name, own in TWINS.items()
    if name in ("model.name", "optim.learning_rate", "optim.warmup_steps", "optim.per_device_train_batch_size")
}
BASE_TWINS |= {
    "run.max_steps": "base.max_steps",
    "run.save_steps": "base.save_steps",
    "run.eval_steps": "base.save_steps",
}
UNREAD_RUN = ("eval_steps", "eval_samples", "eval_batch", "test_samples", "early_stop", "sample_every")
SLOW = 1e-4  # under it an adapter of a million parameters hardly moves in an epoch


def check_her(config: Config, found: Findings) -> None:
    """Refuse and warn of what `arcslim her` would do."""
    her = config.her
    found.refuse(
        her.max_generations < her.generations_an_epoch,
        ("her.max_generations", "her.samplers"),
        f"her.max_generations {her.max_generations} is less than one epoch draws, {her.generations_an_epoch}",
        "raise it, or draw fewer an epoch with her.samplers",
    )
    found.refuse(
        her.model == EMBEDDED and her.prompt != "compact",
        ("her.model", "her.prompt"),
        f"{EMBEDDED} knows one form of question, and her.prompt is {her.prompt}",
        "set her.prompt=compact",
    )
    found.warn(
        her.model == EMBEDDED and her.train and her.rate < SLOW,
        ("her.model", "her.learning_rate"),
        f"her.learning_rate {her.rate:g} is for models of half a billion parameters: {EMBEDDED} learns slowly",
        f"her.learning_rate={TINY_RATE:g}, or leave it out",
    )
    for knob, off in (("train", not her.train), ("relabel", not her.relabel), ("shuffle_pairs", her.shuffle_pairs)):
        found.warn(
            off,
            (f"her.{knob}",),
            f"her.{knob} = {str(getattr(her, knob)).lower()} takes out what makes HER work: for comparison only",
            f"her.{knob}={str(not getattr(her, knob)).lower()}",
        )
    _warn_of_both(config, found)
    warn_unread(TWINS, found)
    found.warn(
        len({sampler.temperature for sampler in her.draws}) == 1 and her.draws[0].temperature < 0.5,
        ("her.samplers",),
        f"her.samplers {', '.join(her.samplers)} only exploit: samples collapse to few different images",
        'add one that explores, as "128@0.9"',
    )


def _warn_of_both(config: Config, found: Findings) -> None:
    """What HER and the making of its base share."""
    modules = config.her.target_modules
    found.warn(
        config.model.fast_inference,
        ("model.fast_inference",),
        "HER draws without vLLM: its models are small, and model.fast_inference has no effect here",
        "model.fast_inference=false",
    )
    odd = [name for name in modules if name not in LINEAR]
    near = [match for name in odd for match in difflib.get_close_matches(name, LINEAR, n=1)]
    found.warn(
        bool(odd),
        ("her.target_modules",),
        f"her.target_modules has {', '.join(odd)}: no linear layer of a Qwen or a Llama is called so",
        f"did you mean {', '.join(near)}?" if near else f"theirs are {', '.join(LINEAR)}",
    )


def warn_unread(twins: Mapping[str, str], found: Findings) -> None:
    """Of what was typed with ``--set`` all that is another recipe's, with HER's own knob where it has one."""
    for name, place in found.origins.items():
        section, _, knob = name.partition(".")
        unread = name in twins or section in UNREAD or (section == "run" and knob in UNREAD_RUN)
        if unread and place.startswith("--set"):  # a preset serves every recipe
            hint = f"set her.{twins[name]}" if name in twins else "leave it out"
            found.warn(True, (name,), f"{name} has no effect here", hint)


def check_base(config: Config, found: Findings) -> None:
    """Refuse what `arcslim her pretrain` would do."""
    base = config.her.base
    _warn_of_both(config, found)
    warn_unread(TWINS | BASE_TWINS, found)
    found.refuse(
        base.min_side > base.max_side,
        ("her.base.min_side", "her.base.max_side"),
        f"her.base.min_side {base.min_side} is over her.base.max_side {base.max_side}",
        "set min_side to max_side or less",
    )
    found.refuse(
        base.batch_size % base.per_device_train_batch_size != 0,
        ("her.base.batch_size", "her.base.per_device_train_batch_size"),
        f"an update of her.base.batch_size {base.batch_size} drawings does not divide into micro-batches of "
        f"{base.per_device_train_batch_size}",
        f"set her.base.per_device_train_batch_size to a divisor of {base.batch_size}",
    )
    found.refuse(
        base.model == EMBEDDED and base.prompt != "compact",
        ("her.base.model", "her.base.prompt"),
        f"{EMBEDDED} knows one form of question, and her.base.prompt is {base.prompt}",
        "set her.base.prompt=compact",
    )
