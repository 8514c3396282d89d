"""What of a configuration decides how much memory it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from arcslim.cards import GpuCard, ModelCard
from arcslim.config import Config
from arcslim.memory.drawings import drawing_tokens, question_tokens
from arcslim.memory.formulas import nf4
from arcslim.memory.packing import ALL_PACKED, Packing
from arcslim.tasks.spec import HUB, ROWS, parse_spec

GRPO, SFT, HER, PRETRAIN = "grpo", "sft", "her", "her-pretrain"
RECIPES = (GRPO, SFT, HER, PRETRAIN)
PRETRAIN_EVAL_ROWS = 128  # programs that `her pretrain` draws at once when it measures
PRETRAIN_EVAL_SAMPLES = 8  # and how many of them for one drawing


@dataclass(frozen=True)
class Setup:
    """The knobs that memory depends on. Lengths in tokens, the rest in rows or as the configuration has them.

    ``row``: the longest row of an update, prompt included. ``rolls_out``: whether completions are drawn at all (SFT
    does for evaluations on tasks). ``rollout_rows`` and ``eval_rows``: completions drawn at once. ``rollout``: those of
    a whole rollout. ``generations`` and ``eval_samples``: completions of a prompt. ``one_prompt``: all are of the same.
    ``nucleus``: top-p is below 1. ``row_temperatures``: rows have temperatures of their own. ``whole_logits``: the loss
    takes the logits of a micro-batch at once. ``context``: ``model.max_seq_length``; 0: not known.
    """

    recipe: str
    model_name: str
    four_bit: bool
    full_finetuning: bool
    checkpointing: str
    lora_r: int
    lora_targets: tuple[str, ...]
    optim: str
    reference: bool
    prompt: int
    completion: int
    row: int
    micro_batch: int
    accumulation: int
    steps_per_generation: int
    generations: int
    rollout_rows: int
    eval_rows: int
    rolls_out: bool
    rollout: int = 0
    eval_samples: int = 1
    one_prompt: bool = False
    nucleus: bool = False
    row_temperatures: bool = False
    whole_logits: bool = False
    vllm: bool = False
    standby: bool = False
    vllm_share: float = 0.6
    context: int = 0

    @property
    def update_tokens(self) -> int:
        """Tokens of one micro-batch whose rows are all as long as they may be."""
        return self.micro_batch * self.row

    @property
    def learns_from_rollouts(self) -> bool:
        """Whether an update's rows are a prompt with a completion that was drawn for it."""
        return self.recipe in (GRPO, HER)

    @property
    def drawn_at_once(self) -> int:
        """Rows of the larger of rollout and evaluation."""
        return max(self.rollout_rows, self.eval_rows) if self.learns_from_rollouts else self.eval_rows

    def is_padded(self, *, evaluation: bool) -> bool:
        """Whether a batch that is drawn may hold prompts of different lengths.

        Rows lie prompt by prompt and are cut into equal batches (policy/generate.py): only a batch that divides a
        prompt's completions holds one prompt.
        """
        rows, samples = (self.eval_rows, self.eval_samples) if evaluation else (self.rollout_rows, self.generations)
        return not self.one_prompt and samples % rows != 0

    @property
    def completions_per_rollout(self) -> int:
        return self.rollout or self.micro_batch * self.steps_per_generation

    @property
    def rows_per_update(self) -> int:
        return self.micro_batch * self.accumulation


@dataclass(frozen=True)
class Request:
    """A question: does this setup of this model fit this GPU? ``packing``: what of 4-bit weights stays in 16 bits."""

    card: ModelCard
    gpu: GpuCard
    setup: Setup
    packing: Packing = ALL_PACKED

    @property
    def kept(self) -> int:
        """Weights of linear maps in 16 bits although 4 are asked for."""
        return self.packing.kept if self.setup.four_bit else 0

    @property
    def may_be_more(self) -> float:
        """Bytes by which what is kept may be more, where it is an estimate."""
        if not self.setup.four_bit:
            return 0.0
        return max(0.0, (self.packing.most - self.packing.kept) * (2 - nf4(1)))


def setup_of(config: Config, recipe: str = GRPO) -> Setup:
    """The setup of a recipe of a configuration; the longest rows and full batches are assumed.

    Raises InputError where HER's target cannot be read.
    """
    make = {GRPO: _grpo, SFT: _sft, HER: _her, PRETRAIN: _pretrain}[recipe]
    return replace(make(config), context=config.model.max_seq_length)


def _shared(config: Config, recipe: str) -> dict[str, Any]:
    """What every recipe takes from the same sections, of the model that it loads."""
    model = config.model_for(recipe)
    return {
        "recipe": recipe,
        "model_name": model.name,
        "four_bit": model.load_in_4bit,
        "full_finetuning": model.full_finetuning,
        "checkpointing": model.use_gradient_checkpointing,
        "optim": config.optim.optim,
        "lora_r": config.lora.r,
        "lora_targets": config.lora.target_modules,
        "reference": False,
        "prompt": config.prompt.max_tokens,
        "completion": config.generation.max_completion_length,
        "nucleus": config.generation.top_p < 1,
        "rollout_rows": config.generation.rollout_batch,
        "eval_rows": config.run.eval_batch,
        "eval_samples": math.gcd(config.run.eval_samples, config.run.test_samples),
        "vllm": model.fast_inference,
        "standby": model.standby,
        "vllm_share": model.gpu_memory_utilization,
    }


def _grpo(config: Config) -> Setup:
    grpo, optim, shared = config.grpo, config.optim, _shared(config, GRPO)
    return Setup(
        **shared | {"reference": grpo.beta > 0},
        row=shared["prompt"] + shared["completion"],
        micro_batch=optim.per_device_train_batch_size,
        accumulation=optim.gradient_accumulation_steps,
        steps_per_generation=grpo.steps_per_generation,
        generations=grpo.num_generations,
        rolls_out=True,
    )


def _sft(config: Config) -> Setup:
    sft = config.sft
    kinds = {parse_spec(source).kind for source in config.data.sources}
    return Setup(
        **_shared(config, SFT) | {"lora_r": sft.lora_r},
        row=sft.max_length or config.model.max_seq_length,
        micro_batch=sft.per_device_train_batch_size,
        accumulation=sft.filled(full_finetuning=config.model.full_finetuning).gradient_accumulation_steps,
        steps_per_generation=1,
        generations=1,
        rolls_out=bool(kinds - {ROWS, HUB}),
    )


def _own_adapter(config: Config, recipe: str) -> dict[str, Any]:
    """What HER and its base share: their adapter is another than `[lora]`."""
    return _shared(config, recipe) | {
        "lora_r": config.her.lora_r,
        "lora_targets": config.her.target_modules,
        "nucleus": config.her.top_p < 1,
    }


def _her(config: Config) -> Setup:
    """An epoch draws all its programs for one question, and learns from them in batches."""
    her = config.her
    question = min(question_tokens(her), config.model.max_seq_length)
    at_once = min(her.rollout_batch, her.generations_an_epoch)
    own = {"prompt": question, "completion": her.max_completion_length, "rollout_rows": at_once, "eval_rows": at_once}
    return Setup(
        **_own_adapter(config, HER) | own,
        row=question + her.max_completion_length,
        micro_batch=her.batch_size,
        accumulation=1,
        steps_per_generation=1,
        generations=at_once,
        rolls_out=True,
        rollout=her.generations_an_epoch,
        one_prompt=True,
        row_temperatures=True,
        whole_logits=True,
    )


def _pretrain(config: Config) -> Setup:
    """SFT on drawings, which are short; evaluations draw eight programs for each that is held out."""
    base = config.her.base
    question, program = drawing_tokens(base)
    own = {
        "prompt": question,
        "completion": program,
        "eval_rows": PRETRAIN_EVAL_ROWS,
        "eval_samples": PRETRAIN_EVAL_SAMPLES,
    }
    return Setup(
        **_own_adapter(config, PRETRAIN) | own,
        row=min(question + program, config.model.max_seq_length),
        micro_batch=base.per_device_train_batch_size,
        accumulation=max(base.batch_size // base.per_device_train_batch_size, 1),
        steps_per_generation=1,
        generations=1,
        rolls_out=True,
    )
