"""``arcslim bench``: how fast and in how much memory each batch size runs, a process a size, until memory runs out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from arcslim.cli.options import Model, Preset, Sets
from arcslim.cli.plan import gib
from arcslim.cli.preflight import gpu_here, plan_for
from arcslim.config import Config
from arcslim.errors import ArcslimError, DoesNotFitError, InputError, Stopped
from arcslim.memory.ceilings import shares
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.memory.plan import Plan
from arcslim.presets import load_config, to_toml
from arcslim.runs.bench_report import markdown, table
from arcslim.runs.environment import environment
from arcslim.runs.signals import StopRequest
from arcslim.runs.writing import write_json_atomic, write_text_atomic

WORKER = (sys.executable, "-m", "arcslim.cli.bench_worker")

Recipe = Annotated[Literal["grpo", "sft"], typer.Option("--recipe", help="which trainer")]
BatchSizes = Annotated[str, typer.Option("--batch-sizes", help="rows at once, drawn and trained, as 1,2,4,8")]
Steps = Annotated[int, typer.Option("--steps", min=1, help="measured steps a size, after one to warm up")]
Out = Annotated[Path | None, typer.Option("--out", help="folder for bench.md, bench.json and bench.png")]


@dataclass(frozen=True)
class Size:
    """A batch size to be measured: its settings, and what the plan says of them."""

    batch: int
    config: Config
    plan: Plan


def bench(
    preset: Preset = None,
    recipe: Recipe = "grpo",
    batch_sizes: BatchSizes = "1,2,4,8",
    model: Model = None,
    steps: Steps = 2,
    out: Out = None,
    sets: Sets = None,
) -> None:
    """Measure: samples/s, tokens/s, peak memory, plan against measured. Rows are as long as the preset's limits."""
    batches = read_batches(batch_sizes)
    folder = out or Path(f"bench-{recipe}")
    settings = [one_size(preset, sets or (), model, recipe, batch, steps) for batch in batches]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {error.strerror}") from error
    rows: list[dict[str, Any]] = []
    stopped: Stopped | None = None
    with StopRequest() as stop:
        try:
            for row in _measured(settings, recipe, steps, folder, stop):
                rows.append(row)
                typer.echo(_line(row))
        except Stopped as error:
            stopped = error
    report = _report(settings[0], recipe, preset, steps, rows)
    _write(report, folder)
    typer.echo("")
    typer.echo(table(report))
    typer.echo(f"\nin {folder}: bench.md, bench.json, bench.png")
    if stopped is not None:
        raise stopped
    if all("failed" in row for row in rows):
        raise DoesNotFitError(f"not even batch {rows[0]['batch']} fits: {rows[0]['failed']}", "see arcslim plan")


def read_batches(text: str) -> list[int]:
    """Batch sizes, smallest first. Raises InputError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= 4096 for word in words):
        raise InputError(f"--batch-sizes {text} is no list of numbers from 1 to 4096", "as --batch-sizes 1,2,4,8")
    return sorted({int(word) for word in words})


def one_size(preset: str | None, sets: Any, model: str | None, recipe: str, batch: int, steps: int) -> Size:
    """The preset at one batch size, and its plan for the GPU that is here (or this machine's RAM)."""
    flags: dict[str, object] = {"model.name": model} | _geometry(preset, sets, recipe, batch, steps)
    config = load_config(preset, sets, flags, recipe=recipe).config
    return Size(batch, config, plan_for(config, recipe, gpu_here().card or _cpu()))


def _geometry(preset: str | None, sets: Any, recipe: str, batch: int, steps: int) -> dict[str, object]:
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


def _cpu() -> Any:
    from arcslim.cards import cpu_card

    return cpu_card()


def _measured(settings: list[Size], recipe: str, steps: int, folder: Path, stop: Any) -> Iterator[dict[str, Any]]:
    """A row a size, up to the first that memory does not suffice for."""
    for size in settings:
        row: dict[str, Any] = {"batch": size.batch, "planned_bytes": planned(size.plan)}
        free = _free_ram()
        if size.plan.request.gpu.is_cpu and size.plan.host_peak > free:
            yield row | {"failed": f"not started: the plan needs {gib(size.plan.host_peak)} GiB, {gib(free)} are free"}
            return
        typer.echo(f"batch {size.batch} …", err=True)
        row |= _run(size, recipe, steps, folder, stop)
        if "failed" in row:
            yield row
            return
        row["measured_bytes"] = max(row["peaks"].values())
        row["planned_share"] = row["measured_bytes"] / row["planned_bytes"]
        row["shares"] = shares(size.plan.request, row["tokens_per_second"])
        yield row


def planned(plan: Plan) -> int:
    """What a measured peak is held against: of a GPU without the CUDA context and the reserve, which no allocator
    counts."""
    if plan.request.gpu.is_cpu:
        return int(plan.host_peak)
    return int(max(phase.gpu_peak for phase in plan.phases) - CUDA_CONTEXT)


def _free_ram() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def _run(size: Size, recipe: str, steps: int, folder: Path, stop: Any) -> dict[str, Any]:
    """One size in a process of its own. Raises ArcslimError where it ends for anything but memory."""
    name = folder / f"batch-{size.batch}"
    settings, result, log = (name.with_suffix(ending) for ending in (".toml", ".json", ".log"))
    result.unlink(missing_ok=True)
    write_text_atomic(settings, to_toml(size.config))
    line = [*WORKER, str(settings), recipe, str(steps), str(result)]
    with log.open("wb") as said:
        process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while process.poll() is None:
                stop.check()
                try:
                    process.wait(timeout=0.3)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:  # a stop
                process.kill()
                process.wait()
                for path in (settings, result, log):
                    path.unlink(missing_ok=True)
    told: dict[str, Any] = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}
    if told.pop("done", False):
        for path in (settings, result, log):
            path.unlink()
        return told
    return {"failed": _why(told, process.returncode, size.batch, log)}


def _why(told: Mapping[str, Any], code: int, batch: int, log: Path) -> str:
    """How memory ran out, in words. Raises ArcslimError where it is something else that went wrong."""
    phase = told.get("phase", "starting")
    if "ran_out" in told:
        return f"out of memory in {phase}"
    if code == -9:
        return f"killed in {phase}: most likely the system's memory ran out"
    if "message" in told:
        error = ArcslimError(f"batch {batch}: {told['message']}", told["hint"])
        error.exit_code = int(told["exit_code"])
        raise error
    last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    raise ArcslimError(f"batch {batch} failed in {phase}: {last}", f"the whole of it: {log}")


def _line(row: Mapping[str, Any]) -> str:
    if "failed" in row:
        return f"batch {row['batch']}: {row['failed']}"
    took = ", ".join(f"{name} {value:.2f} s" for name, value in row["seconds"].items() if value is not None)
    return f"batch {row['batch']}: {row['samples_per_second']:.3g} samples/s ({took})"


def _report(size: Size, recipe: str, preset: str | None, steps: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
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


def _write(report: dict[str, Any], folder: Path) -> None:
    from arcslim.runs.bench_picture import draw

    write_json_atomic(folder / "bench.json", report)
    write_text_atomic(folder / "bench.md", markdown(report))
    if any("failed" not in row for row in report["sizes"]):
        draw(report, folder / "bench.png")
