"""What of a configuration decides how much memory it takes."""

from __future__ import annotations

from dataclasses import dataclass

from arcslim.cards import GpuCard, ModelCard
from arcslim.config import Config
from arcslim.tasks.spec import HUB, ROWS, parse_spec

GRPO, SFT = "grpo", "sft"


@dataclass(frozen=True)
class Setup:
    """The knobs that memory depends on. Lengths in tokens, the rest in rows or as the configuration has them.

    ``row``: the longest row of an update, prompt included. ``rolls_out``: whether completions are drawn at all (SFT
    does for evaluations on tasks). ``rollout_rows`` and ``eval_rows``: completions drawn at once.
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
    vllm: bool = False
    standby: bool = False
    vllm_share: float = 0.6

    @property
    def update_tokens(self) -> int:
        """Tokens of one micro-batch whose rows are all as long as they may be."""
        return self.micro_batch * self.row

    @property
    def drawn_at_once(self) -> int:
        """Rows of the larger of rollout and evaluation."""
        return max(self.rollout_rows, self.eval_rows) if self.recipe == GRPO else self.eval_rows

    @property
    def completions_per_rollout(self) -> int:
        return self.micro_batch * self.steps_per_generation

    @property
    def rows_per_update(self) -> int:
        return self.micro_batch * self.accumulation


@dataclass(frozen=True)
class Request:
    """A question: does this setup of this model fit this GPU?"""

    card: ModelCard
    gpu: GpuCard
    setup: Setup


def setup_of(config: Config, recipe: str = GRPO) -> Setup:
    """The setup of a recipe of a configuration; the longest rows and full batches are assumed."""
    model, lora, sft, generation = config.model, config.lora, config.sft, config.generation
    is_sft = recipe == SFT
    prompt, completion = config.prompt.max_tokens, generation.max_completion_length
    kinds = {parse_spec(source).kind for source in config.data.sources}
    return Setup(
        recipe=recipe,
        model_name=model.name,
        four_bit=model.load_in_4bit,
        full_finetuning=model.full_finetuning,
        checkpointing=model.use_gradient_checkpointing,
        lora_r=sft.lora_r if is_sft else lora.r,
        lora_targets=lora.target_modules,
        optim=config.optim.optim,
        reference=not is_sft and config.grpo.beta > 0,
        prompt=prompt,
        completion=completion,
        row=(sft.max_length or model.max_seq_length) if is_sft else prompt + completion,
        micro_batch=sft.per_device_train_batch_size if is_sft else config.optim.per_device_train_batch_size,
        accumulation=sft.filled(full_finetuning=model.full_finetuning).gradient_accumulation_steps
        if is_sft
        else config.optim.gradient_accumulation_steps,
        steps_per_generation=1 if is_sft else config.grpo.steps_per_generation,
        generations=1 if is_sft else config.grpo.num_generations,
        rollout_rows=generation.rollout_batch,
        eval_rows=config.run.eval_batch,
        rolls_out=not is_sft or bool(kinds - {ROWS, HUB}),
        vllm=model.fast_inference,
        standby=model.standby,
        vllm_share=model.gpu_memory_utilization,
    )
