"""What our GRPO step costs over a bare TRL + Unsloth script: the same model, tasks, prompts, batch and rewards.

    python benchmarks/grpo_overhead.py [--steps 8] [--output benchmarks/results/grpo_overhead.json]

Three processes of one thread train side by side and take turns, one step each, so that the noise of a shared machine
falls on all of them:

``bare``    TRL's trainer, its own generation, one plain reward function (the same computation); no records, no watch
``shared``  the same, with our generation and the adapter in fp32, as our recipe has it
``ours``    the recipe: run folder, samples, metrics, watches, console lines

A step runs from one ``on_step_begin`` to the next, so that logging and fetching the batch count. ours / bare is what a
user pays or saves in all; ours / shared is the price of everything but generation, on the same completions. The
learning rate is next to nothing, so that the policies stay alike and a step's work does not drift apart.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from arcslim.config import Config
from arcslim.presets import load_config
from arcslim.runs.environment import cpu_model, git_commit, usable_threads
from arcslim.runs.writing import write_json_atomic

OUTPUT = Path(__file__).parent / "results" / "grpo_overhead.json"
ARMS = ("bare", "shared", "ours")
WARMUP = 2  # steps: allocators, caches, the optimizer's states
GOAL = 1.05
SETTINGS = (
    "data.tasks=400", "data.holdout_select=0", "data.holdout_test=0", "data.holdout_families=[]", "data.holdout_arc1=0",
    "reward.min_thinking.mode=floor", "reward.min_thinking.min_tokens=25", "optim.learning_rate=1e-9",
    "run.save_steps=100000",
)  # fmt: skip
Row = dict[str, float]


class Enough(BaseException):
    """Ends a worker's training from inside; no handler for errors may take it."""


@dataclass
class Turns:
    """A worker's side: waits for its turn at the beginning of each step, and reports what the last one took."""

    pipe: Connection
    began: tuple[float, float] | None = None
    marks: dict[str, float] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        self.marks[name] = time.process_time()

    def step_begins(self) -> None:
        now = (time.process_time(), time.perf_counter())
        if self.began is not None:
            rolled, rewarded = self.marks["rolled"], self.marks["rewarded"]
            phases = {"rollout": rolled - self.began[0], "reward": rewarded - rolled, "update": now[0] - rewarded}
            self.pipe.send({"cpu": now[0] - self.began[0], "wall": now[1] - self.began[1], **phases})
        else:
            self.pipe.send("ready")
        if self.pipe.recv() != "go":
            raise Enough
        self.began = (time.process_time(), time.perf_counter())


# The three ways ------------------------------------------------------------------------------------------------------


def train_ours(config: Config, turns: Turns, place: Path) -> None:
    from arcslim.recipes.grpo import run
    from arcslim.runs.console import Tee, open_view
    from arcslim.runs.folder import RunFolder
    from arcslim.runs.signals import StopRequest

    class Waits(Tee):
        def progress(self, step: int, total: int, **facts: Any) -> None:
            super().progress(step, total, **facts)
            if facts == {"phase": "rollout"}:
                turns.step_begins()
            elif facts.get("phase") == "rollout" and facts["done"] == facts["of"]:
                turns.mark("rolled")

        def samples(self, rows: Any) -> None:
            super().samples(rows)
            turns.mark("rewarded")

    with RunFolder.create(place / "run") as folder, open_view("overhead") as view, StopRequest() as stop:
        run(config, Waits([folder, view]), folder, stop, cache_dir=place / "cache")


def train_bare(config: Config, turns: Turns, place: Path, *, shared: bool = False) -> None:
    """The script that one would write by hand. The tasks come from our split, so that all see the same."""
    from arcslim.policy.load import Policy, adapter_unrounded, start_unsloth
    from arcslim.policy.sources import resolve

    start_unsloth(place / "cache")
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from unsloth import FastLanguageModel

    from arcslim.recipes.grpo import train_dataset, trainer_arguments
    from arcslim.recipes.prepare import prepare

    model, tokenizer = FastLanguageModel.from_pretrained(
        resolve(config.model.name).name,
        max_seq_length=config.model.max_seq_length,
        load_in_4bit=config.model.load_in_4bit,
        dtype="float32",  # as ours has it on a CPU
        use_gradient_checkpointing=False,
    )
    model = FastLanguageModel.get_peft_model(
        model,
        r=config.lora.r,
        lora_alpha=config.lora.lora_alpha,
        target_modules=list(config.lora.target_modules),
        use_gradient_checkpointing=False,
        random_state=config.run.seed,
    )
    policy = Policy(model, tokenizer, (tokenizer.eos_token_id,), (), "cpu")
    prepared = prepare(config, tokenizer)
    arguments = trainer_arguments(config, place / "run", on_gpu=False)
    arguments |= {"save_strategy": "no", "entropy_coef": 0.0}

    class Waits(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            turns.step_begins()

    with adapter_unrounded(model) if shared else contextlib.nullcontext():
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[plain_reward(config, policy, prepared.train, turns)],
            rollout_func=our_generation(config, policy, prepared.train) if shared else None,
            args=GRPOConfig(**arguments),
            train_dataset=train_dataset(config, prepared, tokenizer),
            callbacks=[Waits()],
        )
    trainer.train()


def plain_reward(config: Config, policy: Any, asked: Sequence[Any], turns: Turns) -> Callable[..., list[float]]:
    """grid and min_thinking as one function of TRL's kind, without groups, shares, metrics or samples."""
    from arcslim.policy.generate import to_completion
    from arcslim.recipes.rollouts import Reader
    from arcslim.rewards.base import local_mean
    from arcslim.rewards.grid import GridReward
    from arcslim.rewards.thinking import MinThinkingReward

    grid, thinking = GridReward(config.reward.grid.variant), MinThinkingReward(config.reward.min_thinking)
    reader, by_id = Reader(policy.tokenizer), {one.prompt.prompt_id: one for one in asked}

    def reward(completion_ids: list[list[int]], prompt_id: list[str], **_: Any) -> list[float]:
        turns.mark("rolled")
        questions = [by_id[name] for name in prompt_id]
        rollouts = reader.read(questions, [to_completion(policy, ids) for ids in completion_ids])
        totals = [a + b for a, b in zip(grid(rollouts), thinking(rollouts), strict=True)]
        thinking.end_rollout(rollouts, local_mean)
        turns.mark("rewarded")
        return totals

    return reward


def our_generation(config: Config, policy: Any, asked: Sequence[Any]) -> Callable[..., dict[str, Any]]:
    from arcslim.policy.generate import generate
    from arcslim.recipes.prepare import string_prompt
    from arcslim.recipes.rollouts import rollout_seed

    by_text = {string_prompt(one.prompt, policy.tokenizer): one.prompt.token_ids for one in asked}
    samples = config.grpo.num_generations

    def roll_out(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = [by_text[text] for text in prompts[::samples]]
        seed = rollout_seed(config.run.seed, trainer.state.global_step, 0)
        batch = config.generation.rollout_batch
        drawn = generate(policy, ids, config.generation, samples=samples, batch=batch, seed=seed)
        completions = [list(completion.token_ids) for group in drawn for completion in group]
        return {"prompt_ids": [list(one) for one in ids for _ in range(samples)], "completion_ids": completions,
                "logprobs": None}  # fmt: skip

    return roll_out


# Taking turns --------------------------------------------------------------------------------------------------------


def work(arm: str, steps: int, pipe: Connection, log: Path) -> None:
    """A worker process: train until told that it is enough."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import torch

    torch.set_num_threads(1)
    config = load_config("cpu", [*SETTINGS, f"run.max_steps={steps + 1}"], {}).config
    turns = Turns(pipe)
    with tempfile.TemporaryDirectory(prefix="arcslim-overhead-") as place, contextlib.suppress(Enough):
        if arm == "ours":
            train_ours(config, turns, Path(place))
        else:
            train_bare(config, turns, Path(place), shared=arm == "shared")


def measure(steps: int, logs: Path) -> dict[str, list[Row]]:
    """The steps of each arm after the warm-up, in turns; the order is turned round every time."""
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for arm in ARMS:
        pipes[arm], theirs = context.Pipe()
        process = context.Process(target=work, args=(arm, steps + WARMUP, theirs, logs / f"{arm}.log"), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
    rows: dict[str, list[Row]] = {arm: [] for arm in ARMS}
    try:
        for pipe in pipes.values():
            pipe.recv()  # ready
        for turn in range(steps + WARMUP):
            for arm in ARMS if turn % 2 == 0 else reversed(ARMS):
                pipes[arm].send("go")
                rows[arm].append(pipes[arm].recv())
        for pipe in pipes.values():
            pipe.send("enough")
    except EOFError:
        for log in sorted(logs.glob("*.log")):
            print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-15:], sep="\n", file=sys.stderr)
        raise SystemExit("a worker ended early: its last lines are above") from None
    for process in processes:
        process.join(timeout=60)
    return {arm: some[WARMUP:] for arm, some in rows.items()}


def compare(above: Sequence[Row], below: Sequence[Row], what: str) -> dict[str, float]:
    """The ratio of the means, and of the pairs' ratios the median, the quartiles and the range."""
    pairs = [a[what] / b[what] for a, b in zip(above, below, strict=True)]
    low, _, high = statistics.quantiles(pairs, n=4)
    means = [statistics.fmean(row[what] for row in rows) for rows in (above, below)]
    return {
        "of_means": means[0] / means[1], "median": statistics.median(pairs), "quartile_1": low, "quartile_3": high,
        "lowest": min(pairs), "highest": max(pairs),
    }  # fmt: skip


def tell(rows: Mapping[str, Sequence[Row]], ratios: Mapping[str, Mapping[str, float]]) -> None:
    print(f"{'CPU seconds a step':24}{'rollout':>9}{'reward':>9}{'update':>9}{'all':>9}{'wall':>9}")
    for arm, some in rows.items():
        means = (statistics.fmean(row[name] for row in some) for name in ("rollout", "reward", "update", "cpu", "wall"))
        print(f"{arm:24}" + "".join(f"{mean:9.3f}" for mean in means))
    print(f"\n{'ratio':24}{'of means':>9}{'median':>9}{'quartiles':>16}{'range':>16}")
    for name, r in ratios.items():
        quartiles, span = (f"{r[a]:.3f}–{r[b]:.3f}" for a, b in (("quartile_1", "quartile_3"), ("lowest", "highest")))
        print(f"{name:24}{r['of_means']:9.3f}{r['median']:9.3f}{quartiles:>16}{span:>16}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="measured steps of each arm")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    with tempfile.TemporaryDirectory(prefix="arcslim-overhead-logs-") as logs:
        rows = measure(options.steps, Path(logs))
    ratios = {
        f"ours / {other}, {what}": compare(rows["ours"], rows[other], key)
        for other in ("bare", "shared")
        for what, key in (("CPU", "cpu"), ("wall", "wall"))
    }
    ratios |= {f"ours / {other}, update": compare(rows["ours"], rows[other], "update") for other in ("bare", "shared")}
    tell(rows, ratios)
    met = all(ratios[f"ours / {other}, CPU"]["of_means"] <= GOAL for other in ("bare", "shared"))
    print(f"\ngoal: at most {GOAL} against both, CPU time: {'met' if met else 'MISSED'}")
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(Path(__file__).parent),
        "machine": f"{usable_threads()} cores, {cpu_model()}",
        "settings": ["preset cpu", *SETTINGS],
        "steps": options.steps,
        "goal": GOAL,
        "met": met,
        "ratios": ratios,
        "means": {
            arm: {name: statistics.fmean(row[name] for row in some) for name in some[0]} for arm, some in rows.items()
        },
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(options.output, record)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
