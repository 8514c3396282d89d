"""``arcslim bench``: how fast and in how much memory each batch size runs, a process a size, until memory runs out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from arcslim.cards import cpu_card
from arcslim.cli.bench_process import Stop, run_size
from arcslim.cli.full_disk import disk_explained
from arcslim.cli.options import Model, Preset, Sets
from arcslim.cli.plan import gib, recipe_of
from arcslim.cli.preflight import gpu_here, plan_for
from arcslim.config import Config
from arcslim.errors import ArcslimError, DoesNotFitError, InputError
from arcslim.memory.ceilings import shares
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.memory.plan import Plan
from arcslim.presets import load_config
from arcslim.runs.bench_report import markdown, table
from arcslim.runs.environment import environment
from arcslim.runs.signals import StopRequest
from arcslim.runs.writing import write_json_atomic, write_text_atomic

RUN = ("load", "rollout", "update")  # phases of the plan that a bench goes through: it never evaluates

Recipe = Annotated[
    Literal["grpo", "sft"] | None, typer.Option("--recipe", help="which trainer; else the preset's own, else grpo")
]
BatchSizes = Annotated[str, typer.Option("--batch-sizes", help="rows at once, drawn and trained, as 1,2,4,8")]
Steps = Annotated[int, typer.Option("--steps", min=1, help="measured steps a size, after one to warm up")]
Out = Annotated[
    Path | None, typer.Option("--out", help="folder for bench.md, bench.json and bench.png; else bench-RECIPE")
]


@dataclass(frozen=True)
class Size:
    """A batch size to be measured: its settings, and what the plan says of them."""

    batch: int
    config: Config
    plan: Plan


def bench(
    preset: Preset = None,
    recipe: Recipe = None,
    batch_sizes: BatchSizes = "1,2,4,8",
    model: Model = None,
    steps: Steps = 2,
    out: Out = None,
    sets: Sets = None,
) -> None:
    """Measure: samples/s, tokens/s, peak memory, plan against measured. Rows are as long as the preset's limits.

    A batch size is the rows at once, drawn and trained. Sizes grow until memory runs out, and where is told.
    """
    recipe = recipe or recipe_of(preset)
    batches = read_batches(batch_sizes)
    folder = out or Path(f"bench-{recipe}")
    settings = [one_size(preset, sets or (), model, recipe, batch, steps) for batch in batches]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {error.strerror}") from error
    rows: list[dict[str, Any]] = []
    ended: ArcslimError | None = None
    with disk_explained(folder, "give the same command again"):
        with StopRequest() as stop:
            try:
                for row in measured(settings, recipe, steps, folder, stop):
                    rows.append(row)
                    typer.echo(_line(row))
            except ArcslimError as error:  # what was measured before it is written all the same
                ended = error
        if rows or ended is None:
            _tell(report_of(settings[0], recipe, preset, steps, rows), folder)
    if ended is not None:
        raise ended
    if all("failed" in row for row in rows):
        raise DoesNotFitError(f"not even batch {rows[0]['batch']} fits: {rows[0]['failed']}", "see arcslim plan")


def read_batches(text: str) -> list[int]:
    """Batch sizes, smallest first. Raises InputError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= 4096 for word in words):
        raise InputError(f"--batch-sizes {text!r} is no list of numbers from 1 to 4096", "as --batch-sizes 1,2,4,8")
    return sorted({int(word) for word in words})


def one_size(preset: str | None, sets: Sequence[str], model: str | None, recipe: str, batch: int, steps: int) -> Size:
    """The preset at one batch size, and its plan for the GPU that is here (or this machine's RAM).

    Raises InputError where a GPU is here whose memory is not known.
    """
    flags: dict[str, object] = {"model.name": model} | _geometry(preset, sets, recipe, batch, steps)
    config = load_config(preset, sets, flags, recipe=recipe).config
    here = gpu_here()
    if here.is_there and here.card is None:
        raise InputError(f"no plan to hold the measurement against: {here.why}")
    return Size(batch, config, plan_for(config, recipe, here.card or cpu_card()))


def _geometry(preset: str | None, sets: Sequence[str], recipe: str, batch: int, steps: int) -> dict[str, object]:
    """The knobs that make a step of ``batch`` rows at once."""
    if recipe == "sft":
        return {
            "sft.per_device_train_batch_size": batch,
            "sft.batch_size": batch,
            "sft.max_steps": steps + 1,
            "sft.packing": "none",
        }
    rows = max(batch, 2)  # a group has two completions or more
    most = load_config(preset, sets, {}, recipe=recipe).config.grpo.num_generations
    fitting = [size for size in range(2, rows + 1) if rows % size == 0 and size <= most]
    return {
        "optim.per_device_train_batch_size": batch,
        "optim.gradient_accumulation_steps": rows // batch,
        "grpo.steps_per_generation": rows // batch,
        "grpo.num_generations": max(fitting, default=rows),
        "grpo.num_iterations": 1,
        "grpo.mask_truncated_completions": False,
        "reward.min_thinking.mode": "none",  # rewards are chance
        "generation.rollout_batch": batch,
        "run.eval_batch": batch,
        "run.max_steps": steps + 1,
        "run.save_steps": steps + 1,
    }


def measured(settings: Sequence[Size], recipe: str, steps: int, folder: Path, stop: Stop) -> Iterator[dict[str, Any]]:
    """A row a size, up to the first that memory does not suffice for."""
    console = Console(stderr=True, highlight=False, emoji=False)
    for size in settings:
        request = size.plan.request
        row: dict[str, Any] = {"batch": size.batch, "planned_bytes": max(planned(size.plan).values())}
        free = _free_ram()
        if request.gpu.is_cpu and size.plan.host_peak > free:
            yield row | {"failed": f"not started: the plan needs {gib(size.plan.host_peak)} GiB, {gib(free)} are free"}
            return
        console.print(f"batch {size.batch} …")
        with console.status("starting") as status:
            row |= run_size(size.config, size.batch, recipe, steps, folder, stop, status.update)
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


def planned(plan: Plan) -> dict[str, int]:
    """What measured peaks are held against, by phase. Of a GPU without the CUDA context and the reserve, which no
    allocator counts."""
    phases = [phase for phase in plan.phases if phase.name in RUN]
    if plan.request.gpu.is_cpu:
        return {phase.name: int(phase.host_peak) for phase in phases}
    return {phase.name: int(phase.gpu_peak - CUDA_CONTEXT) for phase in phases}


def _free_ram() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"batch {row['batch']}: {row['failed']}"
    took = ", ".join(f"{name} {value:.2f} s" for name, value in row["seconds"].items() if value is not None)
    return f"batch {row['batch']}: {row['samples_per_second']:.3g} samples/s ({took})"


def report_of(size: Size, recipe: str, preset: str | None, steps: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``bench.json`` holds."""
    setup, gpu = size.plan.request.setup, size.plan.request.gpu
    return {
        "recipe": recipe,
        "preset": preset,
        "model": size.config.model.name,
        "four_bit": setup.four_bit,
        "gpu": None if gpu.is_cpu else gpu.name,
        "prompt_tokens": setup.prompt if recipe == "grpo" else None,
        "completion_tokens": setup.completion if recipe == "grpo" else None,
        "row_tokens": setup.row,
        "steps": steps,
        "sizes": rows,
        "environment": environment(world_size=1, recipe=recipe),
    }


def _tell(report: dict[str, Any], folder: Path) -> None:
    """Write the report, and show its table."""
    write_json_atomic(folder / "bench.json", report)
    write_text_atomic(folder / "bench.md", markdown(report))
    written = ["bench.md", "bench.json"]
    picture, no_picture = folder / "bench.png", ""
    picture.unlink(missing_ok=True)  # an earlier bench's
    if all("failed" in row for row in report["sizes"]):
        no_picture = "nothing was measured"
    elif importlib.util.find_spec("matplotlib") is None:
        no_picture = "matplotlib is not installed (pip install matplotlib)"
    else:
        from arcslim.runs.bench_picture import draw

        draw(report, picture)
        written.append(picture.name)
    typer.echo(f"\n{table(report)}\n\nin {folder}: {', '.join(written)}")
    if no_picture:
        typer.echo(f"no picture: {no_picture}")
