"""Arguments of transformers' trainers that every recipe sets in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arcslim.config import Config, OptimSection
from arcslim.policy.precision import mixed_precision
from arcslim.sft_config import SftSection


def run_arguments(config: Config, run_dir: Path, *, on_gpu: bool) -> dict[str, Any]:
    """The trainer's arguments that do not depend on the recipe: where, how often, on what, in which precision."""
    run = config.run
    return {
        "output_dir": str(run_dir),
        "save_steps": run.save_steps,
        "seed": run.seed,
        "data_seed": run.seed,
        "report_to": list(run.report_to) or "none",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "use_cpu": not on_gpu,
        **mixed_precision(on_gpu=on_gpu),
        "gradient_checkpointing": config.model.use_gradient_checkpointing != "false",
    }


def schedule_arguments(section: OptimSection | SftSection) -> dict[str, Any]:
    """The learning rate over the steps, with the floor of a cosine that has one."""
    arguments: dict[str, Any] = {
        name: getattr(section, name) for name in ("learning_rate", "lr_scheduler_type", "warmup_steps")
    }
    if section.lr_scheduler_type == "cosine_with_min_lr":
        arguments["lr_scheduler_kwargs"] = {"min_lr_rate": section.lr_min_ratio}
    return arguments
