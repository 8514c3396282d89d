"""How fast, and in how much memory: a few steps of a recipe's own trainer on rows as long as the limits allow.

The rows are made up, so that lengths are those that the plan assumes and nothing is drawn or downloaded: digits for
prompts, completions that no end token ends, rewards of chance.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from arcslim.config import Config
from arcslim.policy.generate import generate
from arcslim.policy.load import Policy, adapter_unrounded, ensure_reference_adapter, load_policy, print_to_log
from arcslim.recipes.bench_clock import Clock
from arcslim.recipes.sft_prepare import limit_of
from arcslim.recipes.sft_rows import TrainingRow, to_dataset

Tell = Callable[[str], None]
LOAD, PREFILL, ROLLOUT, UPDATE = "loading the model", "reading the prompts", "the rollout", "the update"


@dataclass(frozen=True)
class Wish:
    """``steps``: to be measured, after one to warm up. ``draw``: tokens drawn a row, None for all; the rest of a row is
    made up. ``seconds``: no step begins that would end later, once one is measured."""

    steps: int
    draw: int | None = None
    seconds: float | None = None


def measure(config: Config, recipe: str, wish: Wish, *, folder: Path, tell: Tell) -> dict[str, Any]:
    """One batch size. ``tell`` is told each phase as it begins.

    Seconds are medians over the steps. ``peaks``: bytes, of the GPU by phase as PyTorch's allocator counts them, else
    the process's own up to the end of each phase.

    Raises what PyTorch raises where memory runs out.
    """
    began = time.monotonic()
    tell(LOAD)
    bench = (_Grpo if recipe == "grpo" else _Sft)(config, folder, tell, wish)
    bench.clock.loaded(time.monotonic() - began)
    bench.trainer.add_callback(_in_time(began, wish))
    with print_to_log():
        bench.trainer.train()
    return bench.figures() | {
        "device": bench.policy.device,
        "steps": int(bench.trainer.state.global_step) - 1,
        "peaks": bench.clock.peaks,
        "notes": [*bench.policy.notes, *bench.notes],
    }


class _Grpo:
    """GRPO: rollouts of ``generation.rollout_batch`` rows at once, and the updates on them."""

    def __init__(self, config: Config, folder: Path, tell: Tell, wish: Wish) -> None:
        from arcslim.recipes.grpo import grpo_config

        arguments = grpo_config(config, folder, folder / "cache")
        arguments.save_strategy = "no"
        from trl import GRPOTrainer  # after Unsloth, which replaces it on a GPU

        self._config, self._tell, self._draw = config, tell, wish.draw
        limit = config.generation.max_completion_length
        self._to_draw = min(wish.draw or limit, limit)
        self.policy = load_policy(config.model, config.lora, seed=config.run.seed, cache_dir=folder / "cache")
        self._endless = _endless(self.policy)
        self.clock = Clock(self.policy.device)
        self.notes: list[str] = []
        self._rows = arguments.per_device_train_batch_size * arguments.steps_per_generation
        self._updated = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
        self._prompts = _prompts(self.policy, self._rows // arguments.num_generations, config.prompt.max_tokens)
        self._rollouts = 0
        self._rollouts_to_come = -(-config.run.max_steps * self._updated // self._rows)
        self._drawn, self._length = 0, 0
        texts = [self.policy.tokenizer.decode(ids) for ids in self._prompts]
        from datasets import Dataset

        with adapter_unrounded(self.policy.model), print_to_log():
            self.trainer = GRPOTrainer(
                model=self.policy.model,
                processing_class=self.policy.tokenizer,
                reward_funcs=[self._reward],
                rollout_func=None if self.policy.fast_inference else self._roll_out,
                args=arguments,
                train_dataset=Dataset.from_list([{"prompt": text} for text in texts] * (config.run.max_steps + 1)),
                callbacks=[_step_callback(self._on_begin, self._on_end)],
            )
        if config.grpo.beta > 0:
            ensure_reference_adapter(self.policy.model)

    def _on_begin(self) -> None:
        rolls_out = self.trainer.state.global_step * self._updated % self._rows == 0
        self._tell(ROLLOUT if rolls_out else UPDATE)
        self.clock.begin()

    def _roll_out(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        groups, samples = self._prompts, self._config.grpo.num_generations
        if self._rollouts or self._rollouts_to_come == 1:  # the first warms up
            self._tell(PREFILL)
            self.clock.begin()
            self._generate(1)
            self.clock.end("prefill")
        self._tell(ROLLOUT)
        self.clock.begin()
        completions = self._generate(self._to_draw)
        self.clock.end("rollout")
        self._drawn = sum(map(len, completions))
        self._rollouts += 1
        return {
            "prompt_ids": [list(ids) for ids in groups for _ in range(samples)],
            "completion_ids": [self._filled(ids) for ids in completions],
            "logprobs": None,
        }

    def _generate(self, tokens: int) -> list[list[int]]:
        section = self._config.generation.model_copy(update={"max_completion_length": tokens})
        samples, batch = self._config.grpo.num_generations, section.rollout_batch
        drawn = generate(self._endless, self._prompts, section, samples=samples, batch=batch, seed=0)
        return [list(one.token_ids) for group in drawn for one in group]

    def _filled(self, ids: list[int]) -> list[int]:
        """A completion as long as the limit, with tokens of prompts where fewer were to be drawn."""
        if self._draw is None:
            return ids
        missing = self._config.generation.max_completion_length - len(ids)
        return ids + list(islice(cycle(self._prompts[0]), missing))

    def _reward(self, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        self._length = sum(len(ids) for ids in completion_ids)
        if self.policy.fast_inference:  # vLLM drew them
            self.clock.end("rollout")
            self._drawn = self._length
        self._tell(UPDATE)
        self.clock.begin()
        return [random.random() for _ in completion_ids]

    def _on_end(self) -> None:
        self.clock.end("update")

    def figures(self) -> dict[str, Any]:
        clock, section = self.clock, self._config
        prefill, rollout, update = (clock.of(phase) for phase in ("prefill", "rollout", "update"))
        assert rollout is not None and update is not None
        batch, prompt = section.generation.rollout_batch, section.prompt.max_tokens
        samples = section.grpo.num_generations
        # On a CPU a prompt is read once for its rows in a batch, elsewhere once a row.
        read = self._rows * prompt
        if self.policy.device == "cpu":
            read = len(self._prompts) * -(-samples // batch) * prompt
        if prefill is None:
            self.notes.append("reading the prompts and drawing were not told apart")
            decode = self._drawn / rollout
        else:
            decode = (self._drawn - self._rows) / max(rollout - prefill, 1e-9)
        trained = self._updated * (prompt + self._length / self._rows)
        return {
            "rows": self._rows,
            "rows_an_update": self._updated,
            "prompt_tokens": prompt,
            "drawn_tokens": self._drawn / self._rows,
            "completion_tokens": self._length / self._rows,
            "seconds": {name: clock.of(name) for name in ("load", "prefill", "rollout", "update")},
            "samples_per_second": 1 / (rollout / self._rows + update / self._updated),
            "tokens_per_second": {
                "prefill": None if prefill is None else read / prefill,
                "decode": decode,
                "update": trained / update,
            },
        }


class _Sft:
    """SFT: updates on ``per_device_train_batch_size`` rows of the longest length, half of it trained."""

    def __init__(self, config: Config, folder: Path, tell: Tell, wish: Wish) -> None:
        from arcslim.recipes.sft import adapter, collator, sft_config

        arguments = sft_config(config, folder, folder / "cache")
        arguments.save_strategy = "no"
        arguments.max_steps = config.sft.max_steps
        from trl import SFTTrainer

        self._tell, self.notes = tell, list[str]()
        self.policy = load_policy(config.model, adapter(config), seed=config.run.seed, cache_dir=folder / "cache")
        self.clock = Clock(self.policy.device)
        self._rows, self._length = config.sft.per_device_train_batch_size, limit_of(config)
        count = self._rows * (config.sft.max_steps or 1)
        rows = [
            TrainingRow(str(number), "bench", np.array(ids, dtype=np.int32), self._length // 2, b"")
            for number, ids in enumerate(_prompts(self.policy, count, self._length))
        ]
        with adapter_unrounded(self.policy.model), print_to_log():
            self.trainer = SFTTrainer(
                model=self.policy.model,
                processing_class=self.policy.tokenizer,
                args=arguments,
                train_dataset=to_dataset(rows),
                data_collator=collator(self.policy.tokenizer),
                callbacks=[_step_callback(self._on_begin, self._on_end)],
            )

    def _on_begin(self) -> None:
        self._tell(UPDATE)
        self.clock.begin()

    def _on_end(self) -> None:
        self.clock.end("update")

    def figures(self) -> dict[str, Any]:
        update = self.clock.of("update")
        assert update is not None
        return {
            "rows": self._rows,
            "rows_an_update": self._rows,
            "prompt_tokens": self._length // 2,
            "completion_tokens": self._length - self._length // 2,
            "seconds": {name: self.clock.of(name) for name in ("load", "update")},
            "samples_per_second": self._rows / update,
            "tokens_per_second": {"prefill": None, "decode": None, "update": self._rows * self._length / update},
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


def _in_time(began: float, wish: Wish) -> Any:
    """Ends training where the next step would be late. ``began``: when loading did."""
    from transformers import TrainerCallback

    class InTime(TrainerCallback):
        def __init__(self) -> None:
            self.longest, self.step_began = 0.0, began

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.step_began = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **__: Any) -> None:
            now = time.monotonic()
            if state.global_step > 1:
                self.longest = max(self.longest, now - self.step_began)
                late = wish.seconds is not None and now - began + self.longest > wish.seconds
                control.should_training_stop = control.should_training_stop or late

    return InTime()
