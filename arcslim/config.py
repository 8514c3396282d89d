"""The one schema: every knob, its default and what it costs. Defaults stand here (data's and SFT's in files beside it).

A value is resolved field default < preset < ``--set section.key=value`` < named flag (see ``presets.py``).
Names are the field's terms: TRL's, PEFT's and transformers' where they have one.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from arcslim.data_config import DataSection as DataSection
from arcslim.her_config import HerSection as HerSection
from arcslim.section import Count, Positive, Section, Share
from arcslim.sft_config import SftSection

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
Watch = Literal["stop", "warn", "ignore"]


class ModelSection(Section):
    """Which model, and in what form it is held."""

    name: str = Field(
        "tiny", description="a hub id, a model, adapter or run folder, `tiny` (embedded), or `random:CARD`"
    )
    revision: str | None = Field(None, description="a hub branch, tag or commit")
    load_in_4bit: bool = Field(True, description="NF4 base weights: 0.52 instead of 2 bytes a parameter")
    max_seq_length: Positive = Field(10240, description="context: prompt and completion must fit in it together")
    full_finetuning: bool = Field(
        False,
        description="train all weights, in 16 bits: 6 B a parameter with an 8-bit optimizer, 12 with `adamw_torch`",
    )
    use_gradient_checkpointing: Literal["unsloth", "true", "false"] = Field(
        "unsloth", description="`unsloth` also moves activations to host RAM: least memory, a little slower"
    )
    fast_inference: bool = Field(
        False, description="roll out with vLLM (extra `vllm`): faster, holds memory of its own"
    )
    standby: bool = Field(
        False, description="vLLM sleeps while training: lets it have the same memory (needs fast_inference)"
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = Field(0.6, description="vLLM's share of the card")
    trust_remote_code: bool = Field(False, description="run Python code that comes with a model: only if you read it")


class LoraSection(Section):
    """The adapter: PEFT's names."""

    r: Positive = Field(16, description="rank: memory and time grow with it; RL needs little")
    lora_alpha: Positive = 32
    lora_dropout: Share = 0.0
    target_modules: tuple[str, ...] = Field(
        LORA_TARGETS, min_length=1, description="all linear layers; attention-only does worse"
    )
    use_rslora: bool = False
    use_dora: bool = Field(False, description="cannot be served by vLLM")


class PromptSection(Section):
    """How a task becomes text."""

    style: Literal["chat", "base"] = Field(
        "chat", description="`chat`: the model's template; `base`: a written conversation, for base models"
    )
    grid: Literal["compact", "spaced"] = Field(
        "compact", description="`777`, or `7 7 7` at about twice the tokens on Qwen"
    )
    max_tokens: Positive = Field(8192, description="longer prompts are left out, counted and reported")


class GridRewardSection(Section):
    """1.0 right, 0.1 the size is right, 0.01 well-formed, 0 otherwise."""

    weight: Annotated[float, Field(ge=0)] = 1.0
    variant: Literal["graded", "format"] = Field(
        "graded", description="`format`: 1.0 right, 0.1 for any well-formed grid, for comparison only"
    )


class MinThinkingSection(Section):
    """The reward for at least some closed thinking."""

    mode: Literal["none", "bonus", "gate", "floor"] = "floor"
    weight: Annotated[float, Field(ge=0)] = Field(1.0, description="scales the part of the reward")
    min_tokens: Count = Field(
        0,
        description="L, in tokens; 0: half the median thinking of the starting policy's solved rollouts, measured once",
    )
    bonus: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.1, description="mode `bonus`: what full thinking adds; under the 0.9 that a right answer is worth"
    )
    gate_min: Annotated[float, Field(ge=0.2, le=1)] = Field(
        0.5,
        description="mode `gate`: the share of its pay that a right answer without thinking keeps; over the 0.1 of a "
        "wrong answer",
    )
    price: Annotated[float, Field(ge=0, le=0.4)] = Field(0.1, description="mode `floor`: the price to start with")
    price_max: Annotated[float, Field(ge=0, le=0.4)] = Field(0.4, description="mode `floor`: the price's ceiling")
    price_step: Annotated[float, Field(ge=0)] = Field(0.05, description="mode `floor`: how fast the price moves")
    target_shortfall: Share = Field(0.05, description="mode `floor`: the mean shortfall at which the price rests")

    @property
    def is_to_be_measured(self) -> bool:
        """Whether the least thinking is asked for and not said."""
        return self.mode != "none" and not self.min_tokens

    @property
    def span(self) -> float:
        """The most by which the part, weight included, can set two rollouts apart."""
        spans = {"none": 0.0, "bonus": self.bonus, "gate": 1.0 - self.gate_min, "floor": self.price_max}
        return self.weight * spans[self.mode]

    @model_validator(mode="after")
    def _price_under_its_ceiling(self) -> Self:
        if self.mode == "floor" and self.price > self.price_max:
            raise ValueError(f"price {self.price} is over price_max {self.price_max}: lower the one or raise the other")
        return self


class RewardSection(Section):
    """What pays. Own rewards: `extra`, as `package.module:Name`, with an optional `=weight`."""

    grid: GridRewardSection = GridRewardSection()
    min_thinking: MinThinkingSection = MinThinkingSection()
    extra: tuple[str, ...] = Field((), description="own rewards: `package.module:Name` or `package.module:Name=0.5`")

    @model_validator(mode="after")
    def _right_beats_long(self) -> Self:
        """A right answer is worth 0.9 of the grid's weight more than a wrong one: thinking may move 0.8 of it."""
        allowed = 0.8 * self.grid.weight
        span = self.min_thinking.span
        if span > allowed * (1 + 1e-9):
            raise ValueError(
                f"min_thinking (mode {self.min_thinking.mode}) could move the reward by {span:.3g}, "
                f"and with grid.weight {self.grid.weight:g} at most {allowed:.3g} is allowed, "
                "or a long wrong answer could beat a short right one: "
                "lower min_thinking.weight, raise grid.weight, or set min_thinking.mode to none"
            )
        return self


class GrpoSection(Section):
    """GRPO's own knobs: TRL's names."""

    num_generations: Annotated[int, Field(ge=2)] = Field(
        16, description="completions a prompt: match it to the pass rate (8-16 at 12%, 64 at 2%)"
    )
    steps_per_generation: Positive = Field(8, description="optimisation micro-steps for one rollout")
    num_iterations: Positive = Field(1, description="how often each rollout is gone through")
    loss_type: Literal["dapo", "grpo", "bnpo", "dr_grpo"] = "dapo"
    importance_sampling_level: Literal["token", "sequence"] = "token"
    beta: Annotated[float, Field(ge=0)] = Field(
        0.0, description="weight of the KL to the starting policy; 0 saves a forward pass"
    )
    epsilon: Annotated[float, Field(gt=0)] = 0.2
    epsilon_high: Annotated[float, Field(gt=0)] | None = 0.28
    delta: Annotated[float, Field(gt=1)] | None = Field(
        3.0, description="bounds the ratio where the advantage is negative"
    )
    scale_rewards: Literal["none", "group", "batch"] = Field(
        "none", description="`group` blows format up to the size of correctness where nothing is solved"
    )
    mask_truncated_completions: bool = Field(False, description="masked runaways never learn to stop")
    entropy_coef: Annotated[float, Field(ge=0, le=0.005)] = Field(0.0, description="entropy bonus to start with")
    longest_first: bool = Field(
        False, description="step 0 takes the longest prompts, so that running out of memory happens now, not in an hour"
    )


class OptimSection(Section):
    """The optimizer and the batch: transformers' names."""

    optim: Literal["paged_adamw_8bit", "adamw_8bit", "paged_adamw_32bit", "adamw_torch", "adamw_torch_fused"] = Field(
        "paged_adamw_8bit",
        description="2 B a parameter of state, paged to host RAM when short; `adamw_8bit` if resuming gives trouble",
    )
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"] = (
        "constant_with_warmup"
    )
    lr_min_ratio: Share = Field(0.1, description="floor of `cosine_with_min_lr`, as a share of the peak")
    warmup_steps: Annotated[float, Field(ge=0)] = Field(
        10, description="below 1 a share of all steps, else a number of steps"
    )
    adam_beta1: Share = 0.9
    adam_beta2: Share = Field(0.99, description="runs are shorter than 0.999's memory")
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = Field(0.5, description="a rare solved group spikes")
    per_device_train_batch_size: Positive = Field(
        16, description="completions in one forward and backward: the update's peak memory grows with it"
    )
    gradient_accumulation_steps: Positive = Field(4, description="micro-steps an optimizer step: costs time, no memory")


class GenerationSection(Section):
    """Sampling of rollouts. The log-probabilities are of the full softmax: cutting the tail biases them."""

    max_completion_length: Positive = Field(2048, description="tokens; the KV cache and the update grow with it")
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Count = Field(0, description="0: off")
    min_p: Share | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    rollout_batch: Positive = Field(
        16, description="completions generated at once in a rollout: the KV cache holds this many rows; costs time only"
    )


class WatchSection(Section):
    """Signs of collapse. Each has a threshold and what to do: `stop`, `warn` or `ignore`."""

    patience: Positive = Field(10, description="rollouts in a row that must show a sign before it counts")
    cut_off: Watch = "warn"
    cut_off_rate: Share = 0.5
    thinking: Watch = "warn"
    thinking_share: Share = Field(0.5, description="of the first rollouts' thinking length")
    repetition: Watch = "warn"
    repetition_rate: Share = Field(0.5, description="share of repeated 4-grams in a completion, mean")
    spread: Watch = "warn"
    no_spread_rate: Share = Field(0.9, description="groups in which every reward is the same")
    correct_spread_rate: Share = Field(
        0.3, description="warned of at the start, when fewer groups differ in correctness"
    )
    entropy: Watch = "warn"
    entropy_share: Share = Field(0.5, description="of the first rollouts' entropy")
    entropy_coef_max: Annotated[float, Field(ge=0, le=0.005)] = Field(
        0.005, description="how far the watch may raise grpo.entropy_coef when entropy falls under its share"
    )


class RunSection(Section):
    """The run: where, how long, how often."""

    dir: str | None = Field(None, description="run folder; default runs/RECIPE-PRESET-TIME")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    max_steps: Positive = Field(500, description="optimizer steps")
    save_steps: Positive = Field(50, description="optimizer steps between checkpoints")
    save_total_limit: Positive = Field(3, description="checkpoints kept, besides the best")
    eval_steps: Positive = Field(25, description="optimizer steps between evaluations on held-out tasks")
    eval_samples: Positive = Field(4, description="completions a held-out task")
    eval_batch: Positive = Field(64, description="completions generated at once in an evaluation")
    test_samples: Positive = Field(8, description="completions a task of the final test: pass@1 and pass@k")
    early_stop: Count = Field(0, description="stop after so many evaluations without a new best; 0: never")
    max_hours: Annotated[float, Field(gt=0)] | None = Field(None, description="stops in time with everything saved")
    price_per_hour: Annotated[float, Field(ge=0)] | None = Field(
        None, description="what the machine costs: the console shows the projected bill"
    )
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = ()
    sample_every: Positive = Field(1, description="rollouts between writes of samples.jsonl")


MODEL_KNOBS = {"her": "her.model", "her-pretrain": "her.base.model"}
"""Where a recipe names a model of its own; the others have ``model.name``."""


class Config(Section):
    """A whole run."""

    model: ModelSection = ModelSection()
    lora: LoraSection = LoraSection()
    data: DataSection = DataSection()
    prompt: PromptSection = PromptSection()
    reward: RewardSection = RewardSection()
    grpo: GrpoSection = GrpoSection()
    sft: SftSection = SftSection()
    her: HerSection = HerSection()
    optim: OptimSection = OptimSection()
    generation: GenerationSection = GenerationSection()
    watch: WatchSection = WatchSection()
    run: RunSection = RunSection()

    def model_for(self, recipe: str | None) -> ModelSection:
        """The model section as a recipe reads it: HER and its base have a model of their own, in a form of its own, and
        draw without vLLM. A revision is of the model that it was given for, and of no other."""
        own = {"her": self.her.model, "her-pretrain": self.her.base.model}.get(str(recipe))
        if own is None:
            return self.model
        revision = self.model.revision if self.model.name == own else None
        same = {"load_in_4bit": self.her.load_in_4bit, "fast_inference": False, "standby": False}
        return self.model.model_copy(update={"name": own, "revision": revision, **same})
