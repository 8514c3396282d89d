"""``arcslim bench``: how fast and in how much memory each batch size runs, a process a size, until memory runs out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from arcslim.cli.bench_process import Stop, run_size
from arcslim.cli.bench_sizes import Size, one_size, planned, read_batches
from arcslim.cli.full_disk import disk_explained
from arcslim.cli.options import Model, Preset, Sets
from arcslim.cli.plan import gib, recipe_of
from arcslim.errors import ArcslimError, DoesNotFitError, InputError
from arcslim.memory.ceilings import shares
from arcslim.runs.bench_report import markdown, table
from arcslim.runs.environment import environment
from arcslim.runs.signals import StopRequest
from arcslim.runs.writing import write_json_atomic, write_text_atomic

PRESET = "preset"  # in the place of batch sizes

Recipe = Annotated[
    Literal["grpo", "sft"] | None, typer.Option("--recipe", help="which trainer; else the preset's own, else grpo")
]
BatchSizes = Annotated[
    str,
    typer.Option("--batch-sizes", help="rows at once, drawn and trained, as 1,2,4,8; `preset`: as the preset has them"),
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="measured steps a size, after one to warm up")]
Draw = Annotated[
    int | None,
    typer.Option(min=2, help="of each completion draw so many tokens and make up the rest: a shorter rollout"),
]
Seconds = Annotated[
    float | None, typer.Option(min=1, help="a size takes about so long at most: fewer steps then, one or more")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="folder for bench.md, bench.json and bench.png; else bench-RECIPE")
]


def bench(
    preset: Preset = None,
    recipe: Recipe = None,
    batch_sizes: BatchSizes = "1,2,4,8",
    model: Model = None,
    steps: Steps = 2,
    draw: Draw = None,
    seconds: Seconds = None,
    out: Out = None,
    sets: Sets = None,
) -> None:
    """Measure: samples/s, tokens/s, peak memory, plan against measured. Rows are as long as the preset's limits.

    A batch size is the rows at once, drawn and trained. Sizes grow until memory runs out, and where is told.
    """
    chosen = recipe or recipe_of(preset)
    if chosen not in ("grpo", "sft"):
        raise InputError(f"a bench is of grpo or of sft, and {preset} is for {chosen}", "give --recipe grpo or sft")
    if draw is not None and chosen == "sft":
        raise InputError("--draw is of a rollout, and a bench of SFT draws nothing", "leave it out")
    batches = [None] if batch_sizes.strip() == PRESET else read_batches(batch_sizes)
    folder = out or Path(f"bench-{chosen}")
    wish = {"steps": steps, "draw": draw, "seconds": seconds}
    settings = [one_size(preset, sets or (), model, chosen, batch, steps, draw) for batch in batches]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {error.strerror}") from error
    rows: list[dict[str, Any]] = []
    ended: ArcslimError | None = None
    with disk_explained(folder, "give the same command again"):
        with StopRequest() as stop:
            try:
                for row in measured(settings, chosen, wish, folder, stop):
                    rows.append(row)
                    typer.echo(_line(row))
            except ArcslimError as error:  # what was measured before it is written all the same
                ended = error
        if rows or ended is None:
            _tell(report_of(settings[0], chosen, preset, wish, rows), folder)
    if ended is not None:
        raise ended
    if all("failed" in row for row in rows):
        raise DoesNotFitError(f"not even batch {rows[0]['batch']} fits: {rows[0]['failed']}", "see arcslim plan")


def measured(
    settings: Sequence[Size], recipe: str, wish: Mapping[str, Any], folder: Path, stop: Stop
) -> Iterator[dict[str, Any]]:
    """A row a size, up to the first that memory does not suffice for."""
    console = Console(stderr=True, highlight=False, emoji=False)
    for size in settings:
        request = size.plan.request
        row: dict[str, Any] = {"batch": size.batch, "drawn_at_once": size.drawn_at_once}
        row |= {"planned_bytes": max(planned(size.plan).values())}
        free = _free_ram()
        if request.gpu.is_cpu and size.plan.host_peak > free:
            yield row | {"failed": f"not started: the plan needs {gib(size.plan.host_peak)} GiB, {gib(free)} are free"}
            return
        console.print(f"batch {size.batch} …")
        with console.status("starting") as status:
            row |= run_size(size.config, size.batch, recipe, wish, folder, stop, status.update)
        if "failed" not in row:
            on_cpu = row.pop("device") == "cpu"
            row["measured_bytes"] = max(row["peaks"].values())
            row["planned_share"] = row["measured_bytes"] / row["planned_bytes"]
            row["shares"] = shares(request, row["tokens_per_second"])
            if not on_cpu:  # a process's peak only ever grows: its phases are not told apart
                row["planned_peaks"] = planned(size.plan)
        yield row
        if "failed" in row:
            return


def _free_ram() -> int:
    from arcslim.cards_ram import host_ram

    return int(host_ram().free)


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"batch {row['batch']}: {row['failed']}"
    took = ", ".join(f"{name} {value:.2f} s" for name, value in row["seconds"].items() if value is not None)
    return f"batch {row['batch']}: {row['samples_per_second']:.3g} samples/s ({took})"


def report_of(
    size: Size, recipe: str, preset: str | None, wish: Mapping[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """What ``bench.json`` holds."""
    setup, gpu = size.plan.request.setup, size.plan.request.gpu
    return {
        "recipe": recipe,
        "preset": preset,
        "model": size.config.model.name,
        "four_bit": setup.four_bit,
        "gpu": None if gpu.is_cpu else gpu.name,
        "prompt_tokens": setup.prompt if recipe == "grpo" else None,
        "completion_tokens": setup.row - setup.prompt if recipe == "grpo" else None,
        "drawn_tokens": setup.completion if recipe == "grpo" else None,
        "row_tokens": setup.row,
        "steps": wish["steps"],
        "seconds": wish["seconds"],
        "sizes": rows,
        "environment": environment(world_size=1, recipe=recipe),
    }


def _tell(report: dict[str, Any], folder: Path) -> None:
    """Write the report, and show its table; the picture comes last, as it is missed least."""
    write_json_atomic(folder / "bench.json", report)
    write_text_atomic(folder / "bench.md", markdown(report))
    typer.echo(f"\n{table(report)}\n")
    picture = folder / "bench.png"
    picture.unlink(missing_ok=True)  # an earlier bench's
    written, no_picture = ["bench.md", "bench.json"], ""
    if all("failed" in row for row in report["sizes"]):
        no_picture = "nothing was measured"
    elif importlib.util.find_spec("matplotlib") is None:
        no_picture = "matplotlib is not installed (pip install matplotlib)"
    else:
        from arcslim.runs.bench_picture import draw

        draw(report, picture)
        written.append(picture.name)
    typer.echo(f"in {folder}: {', '.join(written)}")
    if no_picture:
        typer.echo(f"no picture: {no_picture}")
