"""Checks over the knobs of SFT; called from ``checks.py``, and of the same form."""

from __future__ import annotations

from arcslim.config import Config
from arcslim.findings import Findings
from arcslim.sft_config import SftSection

# Swept by others for models of 7B: outside, an adapter hardly moves or forgets. `tiny` is ten times as quick.
LORA_RATES = (4e-5, 4e-4)
FULL_RATES = (1e-5, 8e-5)
TINY_IS_QUICKER = 10
OF_GRPO = ("grpo", "reward", "watch")  # sections
TWINS = {
    "run.max_steps": "max_steps",
    "lora.r": "lora_r",
    "lora.lora_alpha": "lora_alpha",
    "optim.gradient_accumulation_steps": "batch_size",
}


def check_sft(config: Config, found: Findings) -> None:
    """Refuse and warn. Of ``config.sft`` what is not ``filled`` yet is not looked at."""
    _check_lengths(config, found)
    _check_update(config, found)
    _warn_packing(config.sft, found)
    _warn_rate(config, found)
    _warn_what_has_no_effect(config, found)


def warn_what_is_of_grpo(found: Findings) -> None:
    """For SFT alone: what was typed and only GRPO reads."""
    for name, place in found.origins.items():
        if not place.startswith("--set"):
            continue  # a preset serves every recipe
        section, _, knob = name.rpartition(".")
        twin = f"sft.{TWINS.get(name, knob)}"
        ignored = section.startswith(OF_GRPO) or (
            name in TWINS or (section == "optim" and knob in SftSection.model_fields)
        )
        has_twin = twin.partition(".")[2] in SftSection.model_fields
        found.warn(
            ignored,
            (name,),
            f"{name} is GRPO's and has no effect on SFT",
            f"set {twin}" if has_twin else "leave it out",
        )


def _check_lengths(config: Config, found: Findings) -> None:
    sft, context = config.sft, config.model.max_seq_length
    limit = sft.max_length or context
    found.refuse(
        limit > context,
        ("sft.max_length", "model.max_seq_length"),
        f"sft.max_length {limit} is over the context, model.max_seq_length {context}",
        f"raise model.max_seq_length to {limit} as well (memory is paid for what rows use), or lower sft.max_length",
    )
    found.warn(
        limit <= config.prompt.max_tokens,
        ("sft.max_length", "prompt.max_tokens"),
        f"a prompt may have prompt.max_tokens {config.prompt.max_tokens}, and a row of sft.max_length {limit} then has "
        "no room for thinking and answer",
        "raise sft.max_length, or lower prompt.max_tokens",
    )
    found.warn(
        sft.over_length == "truncate",
        ("sft.over_length",),
        "sft.over_length = truncate cuts the end of long rows off, and the answer stands at the end: it teaches "
        "thinking that never comes to one",
        "drop leaves those rows out and counts them; a larger sft.max_length keeps them",
    )


def _check_update(config: Config, found: Findings) -> None:
    sft = config.sft
    micro = sft.per_device_train_batch_size
    rows = sft.batch_size or micro
    fitting = max(1, round(rows / micro)) * micro
    found.refuse(
        rows % micro != 0,
        ("sft.batch_size", "sft.per_device_train_batch_size"),
        f"an update of sft.batch_size {rows} rows does not divide into micro-batches of {micro} "
        "(sft.per_device_train_batch_size)",
        f"set sft.batch_size={fitting}, or sft.per_device_train_batch_size to a divisor of {rows}",
    )
    found.warn(
        sft.max_steps is not None and sft.warmup_steps >= max(sft.max_steps, 1),
        ("sft.warmup_steps", "sft.max_steps"),
        f"the warm-up of {sft.warmup_steps:g} steps is not over when the run ends at {sft.max_steps}",
        "sft.warmup_steps=0.03 is 3% of the run, however long it is",
    )


def _warn_packing(sft: SftSection, found: Findings) -> None:
    found.warn(
        sft.packing != "none",
        ("sft.packing",),
        f"sft.packing = {sft.packing} keeps rows whole, but fewer and longer sequences make an update, and traces "
        "share it; packing made reasoning worse on every data set that OlympicCoder's authors tried",
        "none (--no-packing) gives each row a sequence of its own, and sft.group_by_length saves most of the padding",
    )


def _warn_rate(config: Config, found: Findings) -> None:
    full, rate = config.model.full_finetuning, config.sft.learning_rate
    if rate is None:
        return
    low, high = FULL_RATES if full else LORA_RATES
    high *= TINY_IS_QUICKER if config.model.name == "tiny" else 1
    what = "all weights" if full else "an adapter"
    found.warn(
        not low <= rate <= high,
        ("sft.learning_rate", "model.full_finetuning"),
        f"sft.learning_rate {rate:g} is {'low' if rate < low else 'high'} for SFT of {what}: {low:g} to {high:g} is "
        "what others found to work",
        "4e-5 is the published rate for all weights; 2e-4 is usual for an adapter",
    )


def _warn_what_has_no_effect(config: Config, found: Findings) -> None:
    sft, plain = config.sft, SftSection()
    changed = [name for name in ("lora_r", "lora_alpha") if getattr(sft, name) != getattr(plain, name)]
    found.warn(
        config.model.full_finetuning and bool(changed),
        tuple(f"sft.{name}" for name in changed),
        f"{', '.join(f'sft.{name}' for name in changed)} has no effect with model.full_finetuning: there is no adapter",
        "leave it out, or set model.full_finetuning=false",
    )
    found.warn(
        not sft.prefill_template and config.prompt.style == "chat",
        ("sft.prefill_template",),
        "sft.prefill_template = false: <think> is part of every prompt that is trained on, so the model does not learn "
        "to write it, and the saved chat template will not open it either",
        "whoever serves the model must end each prompt in <think> and a newline, as arcslim's own commands do; true "
        "puts it into the template",
    )
    found.warn(
        sft.neftune_noise_alpha is not None,
        ("sft.neftune_noise_alpha",),
        "noise on the embeddings (NEFTune) helped short chat answers; nobody showed it for reasoning, and the "
        "loss that is logged contains it",
        "sft.neftune_noise_alpha=none",
    )
