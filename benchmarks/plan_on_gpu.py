"""Does the plan hold on a card? Random settings that it accepts, each at the longest context that it accepts, are run.

Goal: none runs out of memory, and the median of what they leave unused of the card is at most 12%. Settings that are in
the results already are not run again, so that it can be done in several sittings.

    python benchmarks/plan_on_gpu.py                 # 20 settings on the card that is here
    python benchmarks/plan_on_gpu.py --gib 24        # of a larger card so much: shorter steps, the same formulas
    python benchmarks/plan_on_gpu.py --list --gib 24 # the settings alone; needs no GPU
    python benchmarks/plan_on_gpu.py --small         # two settings of the tiny model on a CPU: tries this script alone
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arcslim.cards import GpuCard, cpu_card, find_gpu, find_model
from arcslim.cli.bench_process import run_size
from arcslim.cli.bench_sizes import RUN, Size, planned
from arcslim.cli.preflight import gpu_here, plan_for
from arcslim.errors import ArcslimError, InputError
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.memory.plan import Plan
from arcslim.memory.setup import GRPO
from arcslim.presets import load_config
from arcslim.runs.writing import write_json_atomic

RESULTS = Path(__file__).parent / "results" / "plan_on_gpu.json"
MODELS = (
    "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-3B", "Qwen2.5-7B", "Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-8B",
    "Llama-3.1-8B", "SmolLM2-1.7B",
)  # fmt: skip
STEP, LEAST, MOST = 64, 256, 32768  # tokens of a row
UNUSED = 0.12  # the goal: the median


@dataclass(frozen=True)
class Drawn:
    """Random settings; ``row`` is the longest that the plan accepts."""

    model: str
    recipe: str
    four_bit: bool
    lora_r: int
    checkpointing: str
    optim: str
    micro_batch: int
    generations: int
    rollout_rows: int
    completion: int
    row: int

    def size(self, gpu: GpuCard) -> Size:
        """As a bench takes it: two steps, the first to warm up."""
        grpo = self.recipe == GRPO
        rows = self.micro_batch * -(-self.generations // self.micro_batch) if grpo else self.micro_batch
        flags: dict[str, object] = {
            "model.name": self.model,
            "model.load_in_4bit": self.four_bit,
            "model.max_seq_length": self.row,
            "model.use_gradient_checkpointing": self.checkpointing,
            "lora.r": self.lora_r,
            "optim.optim": self.optim,
            "prompt.max_tokens": max(1, self.row - self.completion),
            "generation.max_completion_length": self.completion,
            "generation.rollout_batch": self.rollout_rows,
            "run.eval_batch": self.rollout_rows,
            "grpo.num_generations": self.generations,
            "grpo.steps_per_generation": rows // self.micro_batch,
            "grpo.mask_truncated_completions": False,
            "reward.min_thinking.mode": "none",
            "optim.per_device_train_batch_size": self.micro_batch,
            "optim.gradient_accumulation_steps": rows // self.micro_batch,
            "run.max_steps": 2,
            "run.save_steps": 2,
            "sft.max_length": self.row,
            "sft.lora_r": self.lora_r,
            "sft.per_device_train_batch_size": self.micro_batch,
            "sft.batch_size": self.micro_batch,
            "sft.max_steps": 2,
            "sft.packing": "none",
        }
        config = load_config(None, (), flags, recipe=self.recipe).config
        return Size(self.micro_batch, config, plan_for(config, self.recipe, gpu))


def accepted(plan: Plan) -> bool:
    """Of the phases that are run; an SFT's evaluations on tasks are not."""
    if plan.request.gpu.is_cpu:
        return bool(plan.fits)
    peak = max(phase.gpu_peak for phase in plan.phases if phase.name in RUN)
    return bool(peak + plan.reserve <= plan.usable)


def draw(seed: int, gpu: GpuCard, *, small: bool = False) -> Iterator[Drawn]:
    """Settings without end, each as long as the plan allows. Those that it never accepts, or accepts at the most tokens
    that there may be, are passed over: they would say nothing of its edge."""
    dice = random.Random(seed)
    while True:
        micro, group = dice.choice((1, 2, 4, 8)), dice.choice((4, 8, 16))
        one = Drawn(
            model="tiny" if small else f"random:{dice.choice(MODELS)}",
            recipe=dice.choice(("grpo", "sft")),
            four_bit=dice.random() < 0.7,
            lora_r=dice.choice((8, 16, 32, 64, 128)),
            checkpointing=dice.choice(("unsloth", "true")),
            optim=dice.choice(("paged_adamw_8bit", "adamw_8bit", "adamw_torch")),
            micro_batch=min(micro, group),
            generations=group,
            rollout_rows=dice.choice((group, max(2, group // 2))),
            completion=dice.choice((64, 128, 256)),
            row=LEAST + STEP,
        )
        if small:
            yield Drawn(**{**asdict(one), "completion": 8, "row": 32, "lora_r": 8, "generations": 4, "micro_batch": 2})
            continue
        longest = longest_row(one, gpu)
        if longest is not None:
            yield Drawn(**{**asdict(one), "row": longest})


def longest_row(one: Drawn, gpu: GpuCard) -> int | None:
    """The longest row that the plan accepts, to ``STEP`` tokens; None where there is no edge between the bounds."""

    def fits(row: int) -> bool:
        return accepted(Drawn(**{**asdict(one), "row": row}).size(gpu).plan)

    low, high = LEAST + STEP, min(MOST, find_model(one.model).max_position_embeddings)
    if not fits(low) or fits(high):
        return None
    while high - low > STEP:
        middle = (low + high) // 2 // STEP * STEP
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Never:
    def check(self) -> None: ...


def run(one: Drawn, gpu: GpuCard) -> dict[str, Any]:
    """What it took. ``unused``: the share of the card, CUDA's context counted as used."""
    size, began = one.size(gpu), time.monotonic()
    row: dict[str, Any] = {"drawn": asdict(one), "gpu": gpu.name, "usable_bytes": gpu.usable_bytes}
    row["planned"] = planned(size.plan)
    worker = None if gpu.is_cpu else (sys.executable, __file__, "--worker", str(gpu.usable_bytes))
    wish = {"steps": 1, "draw": None, "seconds": None}
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = run_size(size.config, size.batch, one.recipe, wish, Path(folder), Never(), lambda _: None, worker)
        except ArcslimError as error:
            told = {"error": str(error)}
    row |= {key: told[key] for key in ("failed", "error", "peaks", "seconds", "notes") if key in told}
    if "peaks" in told:
        context = 0 if gpu.is_cpu else CUDA_CONTEXT
        row["unused"] = 1 - (max(told["peaks"].values()) + context) / gpu.usable_bytes
    return row | {"took": time.monotonic() - began}


def worker(usable: str, *words: str) -> int:
    """A bench's worker that has so much of the card as the plan was told."""
    import torch

    _, total = torch.cuda.mem_get_info()
    share = (int(usable) - CUDA_CONTEXT) / total
    torch.cuda.set_per_process_memory_fraction(min(1.0, share))
    from arcslim.cli.bench_worker import main as work

    return work(*words)


def summary(rows: Sequence[dict[str, Any]]) -> tuple[bool, str]:
    """Whether the goal is met, and in words."""
    ran_out = [row for row in rows if "failed" in row]
    broken = [row for row in rows if "error" in row]
    unused = [row["unused"] for row in rows if "unused" in row]
    middle = statistics.median(unused) if unused else float("nan")
    words = (
        f"{len(rows)} settings: {len(ran_out)} ran out of memory, {len(broken)} failed otherwise; "
        f"median unused {middle:.1%} (goal {UNUSED:.0%})"
    )
    return bool(unused) and not ran_out and not broken and middle <= UNUSED, words


def card(gib: float | None, *, small: bool) -> GpuCard:
    """The card, or so much of it. Raises InputError where there is none."""
    if small:
        return cpu_card()
    if gib is not None:
        return find_gpu(f"{gib:g}")
    here = gpu_here()
    if here.card is None:
        raise InputError(f"no GPU to run on: {here.why}", "--list --gib 24 shows the settings without one")
    return here.card


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gib", type=float, help="so much of the card, as the plan's `--gpu GIB`")
    parser.add_argument("--minutes", type=float, default=60.0, help="no setting is begun after so long")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true", help="the settings and what is planned; nothing is run")
    parser.add_argument("--small", action="store_true", help="the tiny model on a CPU: says nothing of a card")
    arguments = parser.parse_args(words)
    gpu, began = card(arguments.gib, small=arguments.small), time.monotonic()
    wanted = draw(arguments.seed, gpu, small=arguments.small)
    settings = [next(wanted) for _ in range(arguments.count)]
    if arguments.list:
        for one in settings:
            print(json.dumps(asdict(one) | {"planned": planned(one.size(gpu).plan)}))
        return 0
    rows: list[dict[str, Any]] = json.loads(arguments.out.read_text()) if arguments.out.is_file() else []
    done = [(row["drawn"], row["gpu"]) for row in rows]
    for one in settings:
        if (asdict(one), gpu.name) in done:
            continue
        if time.monotonic() - began > 60 * arguments.minutes:
            print("the time is up: give the same command again")
            break
        rows.append(run(one, gpu))
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(arguments.out, rows)
        last = rows[-1]
        said = last.get("failed") or last.get("error") or f"unused {last['unused']:.1%}"
        print(f"{one.model} {one.recipe}, rows of {one.row:,}: {said} ({last['took']:.0f} s)", flush=True)
    met, said = summary(rows)
    print(said)
    return 0 if met or arguments.small else 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    try:
        sys.exit(worker(*arguments[1:]) if arguments[:1] == ["--worker"] else main(arguments))
    except ArcslimError as error:
        sys.exit(f"error: {error}")
