"""What the presets say of memory, by the planner: their headers, and the tables of README and docs/presets.md.

    python -m benchmarks.preset_memory            # what each preset plans
    python -m benchmarks.preset_memory --write    # and into the headers and tables

The figures are plans, not measurements: see docs/memory.md. ``tests/benchmarks/test_preset_memory.py`` holds the files
to them. Presets of the tiny model are measured and left alone.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from pathlib import Path

from arcslim.cards import GpuCard, gpu_named_in
from arcslim.cli.plan import plan_for
from arcslim.memory.plan import Plan
from arcslim.memory.setup import GRPO, SFT
from arcslim.presets import Preset, list_presets, load_config

GIB = 1024**3
ROOT = Path(__file__).parent.parent
WIDTH = 118
LEFT = "#           "
ROWS = "Rows of reasoning, in one of the forms of docs/sft.md."
# What olympiccoder-7b's header says of doing with less: each line is on top of those before.
LESS = (
    ("model.full_finetuning=false", "16-bit weights and an adapter (r 64)"),
    ("model.load_in_4bit=true", "and --set model.load_in_4bit=true"),
    ("sft.max_length=16384", "and --set sft.max_length=16384; longer rows are left out and counted"),
)
ADAPTER = ("sft.batch_size=32", "sft.num_train_epochs=3", "sft.learning_rate=2e-4")


def card_of(preset: Preset) -> GpuCard | None:
    """The card that a preset was made for; None of those that need none."""
    return gpu_named_in(preset.entry("Made for"))


def recipe_of(preset: Preset) -> str:
    return SFT if "arcslim sft" in preset.entry("Run") else GRPO


def planned(preset: Preset, recipe: str, *sets: str) -> Plan:
    """The plan on the preset's card. SFT as its header has it: on rows, so that no task is evaluated on."""
    gpu = card_of(preset)
    assert gpu is not None, f"{preset.name} names no card"
    rows = ("data.sources=['traces.jsonl']",) if recipe == SFT and recipe_of(preset) == GRPO else ()
    return plan_for(load_config(preset.name, [*rows, *sets], recipe=recipe).config, recipe, gpu)


def peak(plan: Plan) -> str:
    return f"{plan.peak / GIB:.1f} GiB"


def memory_words(preset: Preset) -> str:
    """A header's ``Memory:``."""
    recipe = recipe_of(preset)
    plan = planned(preset, recipe)
    phases = sorted(
        (phase for phase in plan.phases if phase.name != "load"), key=lambda phase: phase.gpu_peak, reverse=True
    )
    fullest, *rest = ((phase.name, (phase.gpu_peak + plan.reserve) / GIB) for phase in phases)
    others = "".join(f"; {name} {size:.1f}" for name, size in rest)
    return (
        f"planned {peak(plan)} of the {plan.usable / GIB:.1f} that can be used on one {plan.request.gpu.name}, in the "
        f"{fullest[0]}{others}. {plan.host_peak / GIB:.0f} GiB of host RAM. Every row as long as its limits allow; not "
        "measured on a card."
    )


def header_lines(preset: Preset) -> list[str]:
    """``# Memory:`` and what follows it."""
    words = textwrap.wrap(memory_words(preset), WIDTH, initial_indent="# Memory:   ", subsequent_indent=LEFT)
    return [*words, f"{LEFT}Item by item: arcslim plan --preset {preset.name}"]


def sft_lines(preset: Preset) -> list[str]:
    """What the header says below ``# SFT:``."""
    words = f"{ROWS} Planned: {peak(planned(preset, SFT))}; evaluations on tasks: {peak(with_tasks(preset))}."
    return textwrap.wrap(words, WIDTH, initial_indent=LEFT, subsequent_indent=LEFT)


def with_tasks(preset: Preset) -> Plan:
    gpu = card_of(preset)
    assert gpu is not None
    return plan_for(load_config(preset.name, recipe=SFT).config, SFT, gpu)


def less_lines(preset: Preset) -> list[str]:
    lines, sets = [], list(ADAPTER)
    for setting, words in LESS:
        sets.append(setting)
        lines.append(f"#   {peak(planned(preset, SFT, *sets))}  {words}")
    return lines


def with_figures(preset: Preset) -> str:
    """The preset's text, its header with the plan's figures."""
    lines, new = preset.text.splitlines(), []
    inside = ""
    less = less_lines(preset) if recipe_of(preset) == SFT else []
    for line in lines:
        if line.startswith("# Memory:"):
            inside = "memory"
            new += header_lines(preset)
        elif line.startswith("# SFT:"):
            inside = "sft"
            new += [line, *sft_lines(preset)]
        elif inside and line.startswith(LEFT):
            continue
        elif re.match(r"#   [\d.]+ GiB  ", line):
            new.append(less.pop(0))
        else:
            inside = ""
            new.append(line)
    return "\n".join(new) + "\n"


def with_column(text: str) -> str:
    """A document whose tables of presets end in a planned peak: that cell, in each row of a preset with a card.

    A row may name several presets; the largest peak is theirs. In ``docs/presets.md`` the second table is SFT's.
    """
    by_name = {preset.name: preset for preset in list_presets() if card_of(preset)}
    recipe, new = None, []
    for line in text.splitlines():
        if line.startswith("| preset |"):
            recipe = SFT if "a row at most" in line else GRPO
        names = (
            [name for name in re.findall(r"`([\w-]+)`", line.split("|")[1]) if name in by_name]
            if (recipe and line.startswith("| `"))
            else []
        )
        if names:
            plans = [planned(by_name[name], SFT if recipe_of(by_name[name]) == SFT else str(recipe)) for name in names]
            cells = line.rstrip().rstrip("|").split("|")
            cells[-1] = f" {peak(max(plans, key=lambda plan: plan.peak))} "
            line = "|".join(cells) + "|"
        elif not line.startswith("|"):
            recipe = None
        new.append(line)
    return "\n".join(new) + "\n"


DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "presets.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into the presets' headers and the documents' tables")
    write = parser.parse_args().write
    for preset in list_presets():
        if card_of(preset) is None:
            continue
        print(f"{preset.name}: {memory_words(preset)}")
        if write:
            preset.path.write_text(with_figures(preset), encoding="utf-8")
    for document in DOCUMENTS if write else ():
        document.write_text(with_column(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
