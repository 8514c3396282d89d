"""``arcslim data stats``: how long prompts and rows are, what fits which context, and what each source gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from arcslim.cli.data_options import Specs, Tasks, resolve, without_holdouts
from arcslim.cli.options import Model, Preset, Seed, Sets
from arcslim.errors import InputError
from arcslim.tasks.rows import ROW_KINDS
from arcslim.tasks.spec import or_hub, parse_spec

if TYPE_CHECKING:
    from arcslim.recipes.data_stats import Measured

BAR = 40  # columns of the longest bar
FORMS = {"rows": "rows, prompt and completion", "trained": "the part of them that gets loss"}


def stats(
    specs: Specs = None,
    tasks: Tasks = None,
    preset: Preset = None,
    model: Model = None,
    seed: Seed = None,
    sets: Sets = None,
) -> None:
    """Token histogram, how many prompts fit 2k, 4k, 8k and 16k tokens in both grid formats, counts by source."""
    from arcslim.cli.dry_run import count_lines, tokenizer_or_stand_in
    from arcslim.recipes.data_stats import row_stats, task_stats

    config = without_holdouts(resolve(specs, preset, model, seed, sets, {"data.tasks": tasks}).config)
    of_rows = [or_hub(parse_spec(text)).kind in ROW_KINDS for text in config.data.sources]
    if any(of_rows) and not all(of_rows):
        raise InputError(
            "tasks and rows are measured apart: prompts of the ones, whole rows of the others",
            "give them in two commands",
        )
    tokenizer, notes = tokenizer_or_stand_in(config)
    found = row_stats(config, tokenizer) if all(of_rows) else task_stats(config, tokenizer)
    console = Console(highlight=False, emoji=False)
    what = "rows" if all(of_rows) else f"prompts, style {config.prompt.style}"
    console.print(f"Tokens of {what}, counted with the tokenizer of {config.model.name}", style="bold", markup=False)
    for form in dict.fromkeys(one.form for one in found.measured):
        of_form = [one for one in found.measured if one.form == form]
        console.print(f"\n{FORMS.get(form, f'prompts, {form} grids')}", style="bold")
        console.print(_table(of_form))
        console.print(_bars(of_form[-1]))  # of all sources together, or of the only one
    console.print()
    for form, longest in found.longest_answer.items():
        console.print(f"the longest answer takes {longest} tokens more with {form} grids, thinking apart")
    if not all(of_rows):
        rules = ", ".join(f"{name} {number}" for name, number in sorted(found.trivial.items()))
        words = f"trivial, by rule (--drop-trivial leaves them out): {rules or 'none'}"
        console.print(words, markup=False, soft_wrap=True)
    for line in (*count_lines(found.counts), *found.notes, *notes):
        console.print(line, style="dim", markup=False, soft_wrap=True)


def _table(measured: Sequence[Measured]) -> Table:
    from arcslim.recipes.data_stats import LIMITS

    table = Table(box=None, pad_edge=False)
    table.add_column("source", no_wrap=True, max_width=26)
    for heading in ("count", "median", "longest", *(f"≤ {limit // 1024}k" for limit in LIMITS)):
        table.add_column(heading, justify="right")
    for one in measured:
        table.add_row(
            one.source,
            str(len(one.lengths)),
            f"{np.median(one.lengths):.0f}",
            str(one.lengths.max()),
            *(str(one.fitting(limit)) for limit in LIMITS),
        )
    last = measured[-1]
    table.add_row("", "", "", "", *(_share(last.fitting(limit), len(last.lengths)) for limit in LIMITS))
    return table


def _share(part: int, whole: int) -> str:
    """In per cent; 100% and 0% mean all and none."""
    percent = round(100 * part / whole)
    return f"{percent if part in (0, whole) else min(max(percent, 1), 99)}%"


def _bars(one: Measured) -> Table:
    from arcslim.recipes.data_stats import EDGES

    numbers = one.histogram()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    last = max(index for index, number in enumerate(numbers) if number)
    first = next(index for index, number in enumerate(numbers) if number)
    for index in range(first, last + 1):
        upper = f"{EDGES[index + 1]}" if index + 1 < len(EDGES) else "more"
        bar = "█" * round(BAR * numbers[index] / max(numbers)) or ("▏" if numbers[index] else "")
        table.add_row(f"{EDGES[index] + (index > 0)} – {upper}", bar, str(numbers[index]))
    return table
