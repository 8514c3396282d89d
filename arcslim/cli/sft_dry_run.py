"""``arcslim sft --dry-run``: rows, lengths and updates of the run, and no weight touched."""

from __future__ import annotations

from rich.console import Console

from arcslim.cli.dry_run import count_lines, section, tokenizer_or_stand_in
from arcslim.cli.preflight import plan_lines
from arcslim.cli.train import check_early, tell_resolved
from arcslim.presets import Resolved


def dry_run(resolved: Resolved) -> None:
    """Print the configuration, the data counts, the truncation report and the updates of an SFT run.

    Raises:
        InputError: anything that would stop the run before its first step.
    """
    from arcslim.recipes.sft import has_gpu, prefill, updates
    from arcslim.recipes.sft_order import in_order
    from arcslim.recipes.sft_prepare import limit_of, prepare_sft
    from arcslim.recipes.sft_rows import truncation_lines

    config, console = resolved.config, Console(highlight=False, emoji=False)
    check_early(config, "sft")
    tell_resolved(resolved, "sft", console)
    tokenizer, notes = tokenizer_or_stand_in(config)
    notes += prefill(config, tokenizer)
    data = prepare_sft(config, tokenizer)
    sizes = {"train": len(data.train), "held out": len(data.held)}
    sizes |= {f"{name} tasks": len(asked) for name, asked in data.asked.items()}
    section(
        console,
        "Data",
        [
            *count_lines(data.counts),
            "sets: " + ", ".join(f"{name} {size}" for name, size in sizes.items()),
            *data.notes,
        ],
    )
    section(console, "Lengths", [*truncation_lines(data.truncation), *notes])
    sft = config.sft
    packs = limit_of(config) if sft.packing != "none" and has_gpu() else None
    run = in_order([len(row) for row in data.train], sft, seed=config.run.seed, packed=packs)
    trained = sum(data.train[index].trained for index in run)
    packed = "" if sft.packing == "none" else f"; with packing {sft.packing} fewer, as rows share a sequence"
    if packed and not has_gpu():
        packed = f"; there is no GPU here, so Unsloth turns packing {sft.packing} off"
    section(
        console,
        "Updates",
        [
            f"updates: {sft.max_steps or updates(len(run), config)}, of {sft.batch_size} rows each "
            f"(batch {sft.per_device_train_batch_size} x {sft.gradient_accumulation_steps} accumulation){packed}",
            f"{len(run)} rows go through, {trained:,} trained tokens",
            f"learning rate {sft.learning_rate:g} ({'all weights' if config.model.full_finetuning else 'adapter'}), "
            f"{sft.lr_scheduler_type}",
        ],
    )
    section(console, "Memory", plan_lines(resolved, "sft"))
    console.print("dry run: no weight was touched", style="bold")
