"""A plan for people: tables of what each phase holds, and what follows from it in sentences."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from arcslim.cli.plan import gib
from arcslim.memory.decode import Decoding, fused_rows
from arcslim.memory.knobs import put
from arcslim.memory.phases import Item, Phase, vllm_starts
from arcslim.memory.plan import ERROR_BAND, FITS, TIGHT, VLLM_TOO_SMALL, Plan
from arcslim.memory.setup import HER

_STYLES = {FITS: "green", TIGHT: "yellow"}


def show_plan(plan: Plan, console: Console | None = None) -> None:
    """Print the plan: verdict first, then why, then what to change."""
    console = console or Console(highlight=False, emoji=False)
    request, gpu = plan.request, plan.request.gpu
    size = request.card.parameters
    billions = f"{size / 1e9:.2f} billion parameters" if size >= 1e8 else f"{size / 1e6:.2f} million parameters"
    console.print(
        f"{request.setup.recipe} of {request.setup.model_name} ({billions}) on {'a CPU' if gpu.is_cpu else gpu.name}, "
        f"{gib(plan.usable)} GiB usable",
        style="bold",
        markup=False,
    )
    _verdict(plan, console)
    if not gpu.is_cpu:
        console.print(_phase_table("GiB on the GPU", plan.phases, on_gpu=True))
        console.print()
    console.print(_phase_table("GiB in host RAM", plan.phases, on_gpu=False))
    _section(console, "How far each could go, the others as they are", _limit_lines(plan))
    if plan.decoding is not None:
        _section(console, "Decoding, at most", _decoding_lines(plan, plan.decoding))
    if not plan.fits:
        _section(console, "What to change, cheapest first" if plan.mends else "What to change", _mend_lines(plan))
    _section(console, "To know", [_band_line(plan), *plan.notes])


def _verdict(plan: Plan, console: Console) -> None:
    style = _STYLES.get(plan.verdict, "red")
    fullest = max(plan.phases, key=lambda phase: phase.host_peak if plan.request.gpu.is_cpu else phase.gpu_peak)
    spare = plan.usable - plan.peak
    rest = f"{gib(spare)} GiB to spare" if spare >= 0 else f"{gib(-spare)} GiB too much"
    words = {
        FITS: "it fits",
        TIGHT: "it fits by the estimate, not at the upper end of its error band",
    }.get(plan.verdict, "it does not fit")
    line = f"{words}: {gib(plan.peak)} GiB in the {fullest.name}"
    line += f" ({gib(plan.reserve)} of it reserve)" if plan.reserve else ""
    line = f"{line}, {rest}" if vllm_starts(plan.request) else VLLM_TOO_SMALL.format(plan.request.setup)
    console.print(line, style=f"bold {style}", markup=False)
    if plan.mends:
        first = plan.mends[0]
        what = "cheapest single knob" if first.single else "cheapest change"
        console.print(f"{what}: {first.what} ({first.cost}): {' '.join(first.settings)}", style="bold", markup=False)
    console.print()


def _phase_table(title: str, phases: tuple[Phase, ...], *, on_gpu: bool) -> Table:
    """A row an item, a column a phase. What takes turns with a larger item is in parentheses."""
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column(title, no_wrap=True)
    for phase in phases:
        table.add_column(phase.name, justify="right", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    items = [{item.name: item for item in (phase.gpu if on_gpu else phase.host)} for phase in phases]
    for name in dict.fromkeys(name for phase in items for name in phase):
        found = [phase.get(name) for phase in items]
        note = next(item.note for item in reversed(found) if item is not None)
        table.add_row(name, *(_cell(item) for item in found), note)
    peaks = [phase.gpu_peak if on_gpu else phase.host_peak for phase in phases]
    turns = any(not item.counts for phase in items for item in phase.values())
    table.add_row(
        "together", *(gib(peak) for peak in peaks), "in parentheses: takes turns" if turns else "", style="bold"
    )
    return table


def _cell(item: Item | None) -> str:
    if item is None:
        return ""
    return gib(item.bytes) if item.counts else f"({gib(item.bytes)})"


def _limit_lines(plan: Plan) -> list[str]:
    lines = []
    for limit in plan.limits:
        value = f"{limit.value:,}" if limit.value is not None else "none fits"
        lines.append(f"{limit.what}: {value}; {limit.note}" if limit.note else f"{limit.what}: {value}")
    return lines


def _decoding_lines(plan: Plan, decoding: Decoding) -> list[str]:
    setup, gpu = plan.request.setup, plan.request.gpu
    knob = "her.rollout_batch" if setup.recipe == HER else "generation.rollout_batch"
    lines = []
    for rate in decoding.rates:
        rows = "1 row" if rate.rows == 1 else f"{rate.rows} rows"
        line = f"{rows} at once: {rate.tokens_per_second:,.0f} tokens/s"
        if setup.four_bit and rate.rows > fused_rows(gpu) and not setup.vllm:
            line += f" ({rate.fused_tokens_per_second:,.0f} if 4-bit weights were not unpacked)"
        lines.append(
            f"{line}; a rollout of {setup.completions_per_rollout} in {rate.rollout_seconds / 60:.1f} min or more"
        )
    lines.append(
        f"by {gpu.bandwidth:,.0f} GB/s, rows of {decoding.context:,} tokens, completions as long as allowed: "
        "a bound, not a forecast"
    )
    if setup.vllm:
        lines.append("vLLM draws as many rows at once as its cache holds")
    elif decoding.best_rows is None:
        lines.append("not even one row at once fits")
    else:
        lines.append(
            f"fastest within the memory: {put(knob, decoding.best_rows)} "
            f"(now {setup.rollout_rows}; at most {decoding.most_rows} fit)"
        )
    return lines


def _mend_lines(plan: Plan) -> list[str]:
    if not plan.mends:
        return ["no setting that is searched makes it fit: a larger GPU, or a smaller model"]
    return [f"{mend.what} ({mend.cost}): {' '.join(mend.settings)}" for mend in plan.mends]


def _band_line(plan: Plan) -> str:
    low, high = plan.band
    more = plan.request.may_be_more
    wider = f" and {gib(more)} GiB more for the weights" if more else ""
    return (
        f"error band ±{ERROR_BAND:.0%}{wider}, {gib(low)} to {gib(high)} GiB without the reserve: as far as "
        "predictions lay from published measurements (docs/memory.md); of Unsloth's own rollouts there are none"
    )


def _section(console: Console, heading: str, lines: list[str]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        table.add_row("·", line)
    console.print(f"\n{heading}", style="bold")
    console.print(table, markup=False)
