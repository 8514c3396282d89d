"""How fast, and in how much memory: a few steps of a recipe's own trainer on rows as long as the limits allow.

The rows are made up, so that lengths are those that the plan assumes and nothing is drawn or downloaded: digits for
prompts, completions that no end token ends, rewards of chance.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from arcslim.config import Config
from arcslim.policy.generate import generate
from arcslim.policy.load import Policy, adapter_unrounded, ensure_reference_adapter, load_policy, print_to_log
from arcslim.recipes.peaks import memory_peaks
from arcslim.recipes.sft_prepare import limit_of
from arcslim.recipes.sft_rows import TrainingRow, to_dataset

Tell = Callable[[str], None]
LOAD, PREFILL, ROLLOUT, UPDATE = "loading the model", "reading the prompts", "the rollout", "the update"


def measure(config: Config, recipe: str, *, steps: int, folder: Path, tell: Tell) -> dict[str, Any]:
    """One batch size: a step to warm up, then ``steps`` that are measured. ``tell`` is told each phase as it begins.

    Seconds are medians over the steps. ``peaks``: bytes, of the GPU by phase as PyTorch's allocator counts them, else
    the process's own up to the end of each phase.

    Raises what PyTorch raises where memory runs out.
    """
    began = time.monotonic()
    tell(LOAD)
    bench = (_Grpo if recipe == "grpo" else _Sft)(config, folder, tell)
    bench.clock.loaded(time.monotonic() - began)
    with print_to_log():
        bench.trainer.train()
    return bench.figures(steps)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


class _Clock:
    """Seconds and peaks of each phase; the first step's are passed over where there are more."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.seconds: dict[str, list[float]] = {}
        self.peaks: dict[str, int] = {}
        self._began = 0.0

    def now(self) -> float:
        if self._device != "cpu":
            torch.cuda.synchronize()
        return time.monotonic()

    def loaded(self, seconds: float) -> None:
        """The model and the trainer are there; they took so long."""
        self.seconds["load"] = [seconds]
        self.peaks["load"] = self._peak()

    def begin(self) -> None:
        if self._device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        self._began = self.now()

    def end(self, phase: str) -> float:
        """Close a phase that ``begin`` opened; its seconds."""
        took = self.now() - self._began
        self.seconds.setdefault(phase, []).append(took)
        self.peaks[phase] = max(self.peaks.get(phase, 0), self._peak())
        return took

    def _peak(self) -> int:
        if self._device != "cpu":
            return int(torch.cuda.max_memory_allocated())
        return int(memory_peaks()["memory/host_peak_bytes"])

    def of(self, phase: str) -> float | None:
        values = self.seconds.get(phase, [])
        return median(values[1:] or values) if values else None


class _Grpo:
    """GRPO: a rollout of ``per_device_train_batch_size`` rows at once, and the update on it."""

    def __init__(self, config: Config, folder: Path, tell: Tell) -> None:
        from arcslim.recipes.grpo import grpo_config

        arguments = grpo_config(config, folder, folder / "cache")
        arguments.save_strategy = "no"
        from trl import GRPOTrainer  # after Unsloth, which replaces it on a GPU

        self._config, self._tell = config, tell
        policy = load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=folder / "cache")
        self._policy = _endless(policy)
        self.notes = policy.notes
        self.clock = _Clock(policy.device)
        self._rows = arguments.per_device_train_batch_size * arguments.steps_per_generation
        self._prompts = _prompts(policy, self._rows // arguments.num_generations, config.prompt.max_tokens)
        self._drawn = 0
        texts = [policy.tokenizer.decode(ids) for ids in self._prompts]
        from datasets import Dataset

        with adapter_unrounded(policy.model), print_to_log():
            self.trainer = GRPOTrainer(
                model=policy.model,
                processing_class=policy.tokenizer,
                reward_funcs=[self._reward],
                rollout_func=None if policy.fast_inference else self._roll_out,
                args=arguments,
                train_dataset=Dataset.from_list([{"prompt": text} for text in texts] * (config.run.max_steps + 1)),
                callbacks=[_step_callback(self._on_begin, self._on_end)],
            )
        if config.grpo.beta > 0:
            ensure_reference_adapter(policy.model)

    def _on_begin(self) -> None:
        self._tell(ROLLOUT)
        self.clock.begin()

    def _roll_out(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        section, batch = self._config.generation, self._config.generation.rollout_batch
        groups, samples = self._prompts, self._config.grpo.num_generations
        self._tell(PREFILL)
        self.clock.begin()
        first = section.model_copy(update={"max_completion_length": 1})
        generate(self._policy, groups, first, samples=samples, batch=batch, seed=0)
        self.clock.end("prefill")
        self._tell(ROLLOUT)
        self.clock.begin()
        drawn = generate(self._policy, groups, section, samples=samples, batch=batch, seed=0)
        completions = [list(one.token_ids) for group in drawn for one in group]
        return {
            "prompt_ids": [list(ids) for ids in groups for _ in range(samples)],
            "completion_ids": completions,
            "logprobs": None,
        }

    def _reward(self, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        self.clock.end("rollout")
        self._drawn = sum(len(ids) for ids in completion_ids)
        self._tell(UPDATE)
        self.clock.begin()
        return [random.random() for _ in completion_ids]

    def _on_end(self) -> None:
        self.clock.end("update")

    def figures(self, steps: int) -> dict[str, Any]:
        clock, section = self.clock, self._config
        prefill, rollout, update = (clock.of(phase) for phase in ("prefill", "rollout", "update"))
        assert rollout is not None and update is not None
        batch, prompt = section.generation.rollout_batch, section.prompt.max_tokens
        samples = section.grpo.num_generations
        # On a CPU a prompt is read once for its rows in a batch, elsewhere once a row.
        read = self._rows * prompt
        if self._policy.device == "cpu":
            read = len(self._prompts) * -(-samples // batch) * prompt
        decode = None if prefill is None else (self._drawn - self._rows) / max(rollout - prefill, 1e-9)
        return {
            "device": self._policy.device,
            "rows": self._rows,
            "prompt_tokens": prompt,
            "completion_tokens": self._drawn / self._rows,
            "seconds": {name: clock.of(name) for name in ("load", "prefill", "rollout", "update")},
            "samples_per_second": self._rows / (rollout + update),
            "tokens_per_second": {
                "prefill": None if prefill is None else read / prefill,
                "decode": decode if decode is not None else self._drawn / rollout,
                "update": (self._rows * prompt + self._drawn) / update,
            },
            "peaks": clock.peaks,
            "steps": steps,
            "notes": list(self.notes),
        }


class _Sft:
    """SFT: updates on ``per_device_train_batch_size`` rows of the longest length, half of it trained."""

    def __init__(self, config: Config, folder: Path, tell: Tell) -> None:
        from arcslim.recipes.sft import adapter, collator, sft_config

        arguments = sft_config(config, folder, folder / "cache")
        arguments.save_strategy = "no"
        arguments.max_steps = config.sft.max_steps
        from trl import SFTTrainer

        self._tell = tell
        policy = load_policy(config.model, adapter(config), seed=config.run.seed, cache_dir=folder / "cache")
        self.notes, self._device = policy.notes, policy.device
        self.clock = _Clock(policy.device)
        self._rows, self._length = config.sft.per_device_train_batch_size, limit_of(config)
        count = self._rows * (config.sft.max_steps or 1)
        rows = [
            TrainingRow(str(number), "bench", np.array(ids, dtype=np.int32), self._length // 2, b"")
            for number, ids in enumerate(_prompts(policy, count, self._length))
        ]
        with adapter_unrounded(policy.model), print_to_log():
            self.trainer = SFTTrainer(
                model=policy.model,
                processing_class=policy.tokenizer,
                args=arguments,
                train_dataset=to_dataset(rows),
                data_collator=collator(policy.tokenizer),
                callbacks=[_step_callback(self._on_begin, self._on_end)],
            )

    def _on_begin(self) -> None:
        self._tell(UPDATE)
        self.clock.begin()

    def _on_end(self) -> None:
        self.clock.end("update")

    def figures(self, steps: int) -> dict[str, Any]:
        update = self.clock.of("update")
        assert update is not None
        return {
            "device": self._device,
            "rows": self._rows,
            "prompt_tokens": self._length // 2,
            "completion_tokens": self._length - self._length // 2,
            "seconds": {name: self.clock.of(name) for name in ("load", "update")},
            "samples_per_second": self._rows / update,
            "tokens_per_second": {"prefill": None, "decode": None, "update": self._rows * self._length / update},
            "peaks": self.clock.peaks,
            "steps": steps,
            "notes": list(self.notes),
        }


def _endless(policy: Policy) -> Policy:
    """The policy with an end token that no row of its embedding stands for, so that completions have full length."""
    rows = policy.model.get_input_embeddings().weight.shape[0]
    return dataclasses.replace(policy, end_token_ids=(rows,))


def _prompts(policy: Policy, count: int, length: int) -> list[list[int]]:
    """Token ids of random digits, all different."""
    digits = [policy.tokenizer(str(digit), add_special_tokens=False)["input_ids"][-1] for digit in range(10)]
    drawn = random.Random(0)
    return [[drawn.choice(digits) for _ in range(length)] for _ in range(count)]


def _step_callback(begin: Callable[[], None], end: Callable[[], None]) -> Any:
    from transformers import TrainerCallback

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            end()

    return Steps()
