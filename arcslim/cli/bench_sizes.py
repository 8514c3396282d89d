"""The sizes that ``arcslim bench`` measures: what each makes of a preset's settings, and what the plan says of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from arcslim.cards import cpu_card
from arcslim.cli.preflight import gpu_here, plan_for
from arcslim.config import Config
from arcslim.errors import InputError
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.memory.plan import Plan, make_plan
from arcslim.presets import load_config

RUN = ("load", "rollout", "update")  # phases of the plan that a bench goes through: it never evaluates


@dataclass(frozen=True)
class Size:
    """A batch size to be measured: its settings, and what the plan says of them."""

    batch: int
    config: Config
    plan: Plan

    @property
    def drawn_at_once(self) -> int:
        setup = self.plan.request.setup
        return setup.rollout_rows if setup.recipe == "grpo" else self.batch


def read_batches(text: str) -> list[int]:
    """Batch sizes, smallest first. Raises InputError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= 4096 for word in words):
        raise InputError(f"--batch-sizes {text!r} is no list of numbers from 1 to 4096", "as --batch-sizes 1,2,4,8")
    return sorted({int(word) for word in words})


def one_size(
    preset: str | None,
    sets: Sequence[str],
    model: str | None,
    recipe: str,
    batch: int | None,
    steps: int,
    draw: int | None = None,
) -> Size:
    """The preset at one batch size (None: at its own), and its plan for the GPU that is here (or this machine's RAM).

    Raises InputError where a GPU is here whose memory is not known, or ``draw`` cannot be done.
    """
    asked = load_config(preset, sets, {"model.name": model}, recipe=recipe).config
    flags = _sft_knobs(asked, batch, steps) if recipe == "sft" else _grpo_knobs(asked, batch, steps)
    config = load_config(preset, sets, {"model.name": model} | flags, recipe=recipe).config
    here = gpu_here()
    if here.is_there and here.card is None:
        raise InputError(f"no plan to hold the measurement against: {here.why}")
    plan = plan_for(config, recipe, here.card or cpu_card())
    if draw is not None and recipe == "grpo":
        if config.model.fast_inference:
            raise InputError(
                "--draw is not for vLLM, which draws by itself", "leave it out, or --set model.fast_inference=false"
            )
        drawn = min(draw, config.generation.max_completion_length)
        plan = make_plan(replace(plan.request, setup=replace(plan.request.setup, completion=drawn)))
    rows = config.sft.per_device_train_batch_size if recipe == "sft" else config.optim.per_device_train_batch_size
    return Size(rows, config, plan)


def _sft_knobs(asked: Config, batch: int | None, steps: int) -> dict[str, object]:
    """The knobs that make a step of one micro-batch."""
    rows = batch or asked.sft.per_device_train_batch_size
    return {
        "sft.per_device_train_batch_size": rows,
        "sft.batch_size": rows,
        "sft.max_steps": steps + 1,
        "sft.packing": "none",
    }


def _grpo_knobs(asked: Config, batch: int | None, steps: int) -> dict[str, object]:
    """The knobs that make steps of ``batch`` rows at once, or as few as the preset's own sizes make whole groups of."""
    if batch is None:
        micro, group = asked.optim.per_device_train_batch_size, asked.grpo.num_generations
        drawn = asked.generation.rollout_batch
        whole = math.lcm(micro, group)
        rows = whole * -(-drawn // whole)
        updates = 2 if rows // micro % 2 == 0 else 1  # of a rollout
    else:
        micro = drawn = batch
        rows, updates = max(batch, 2), 1  # a group has two completions or more
        fitting = [size for size in range(2, rows + 1) if rows % size == 0 and size <= asked.grpo.num_generations]
        group = max(fitting, default=rows)
    return {
        "optim.per_device_train_batch_size": micro,
        "optim.gradient_accumulation_steps": rows // micro // updates,
        "grpo.steps_per_generation": rows // micro,
        "grpo.num_generations": group,
        "grpo.num_iterations": 1,
        "grpo.mask_truncated_completions": False,
        "reward.min_thinking.mode": "none",  # rewards are chance
        "generation.rollout_batch": drawn,
        "run.eval_batch": drawn,
        "run.max_steps": steps + 1,
        "run.save_steps": (steps + 1) * updates,
    }


def planned(plan: Plan) -> dict[str, int]:
    """What measured peaks are held against, by phase. Of a GPU without the CUDA context and the reserve, which no
    allocator counts."""
    phases = [phase for phase in plan.phases if phase.name in RUN]
    if plan.request.gpu.is_cpu:
        return {phase.name: int(phase.host_peak) for phase in phases}
    return {phase.name: int(phase.gpu_peak - CUDA_CONTEXT) for phase in phases}
