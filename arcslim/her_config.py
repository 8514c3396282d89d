"""``[her]``: learning to draw a target by hindsight. It starts from a model that draws, with an adapter of its own."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator

from arcslim.section import Count, Positive, Section, Share

_SAMPLER = re.compile(r"([0-9]{1,9})@([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)")
EMBEDDED, TINY_RATE, RATE = "tiny-draw", 1e-3, 1e-5
NO_COUNT = 'a sampler is COUNT@TEMPERATURE, as "128@0.9"'


class Sampler(NamedTuple):
    """``number`` programs an epoch are drawn at this temperature."""

    number: int
    temperature: float


class BaseSection(Section):
    """`arcslim her pretrain`: any model learns to read random drawings back, by the SFT recipe."""

    model: str = Field("Qwen/Qwen2.5-Coder-0.5B-Instruct", description="what learns to draw")
    prompt: Literal["compact", "chat"] = Field("chat", description="the question's form; HER must use the same")
    drawings: Positive = Field(
        96_000, description="random drawings, made once; beyond them they are gone through again"
    )
    max_steps: Positive = Field(6000, description="optimizer steps")
    save_steps: Positive = Field(1500, description="optimizer steps between checkpoints, each with a measurement")
    batch_size: Positive = Field(16, description="drawings an update")
    per_device_train_batch_size: Positive = Field(16, description="drawings in one forward and backward")
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 1e-4
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "linear"
    warmup_steps: Annotated[float, Field(ge=0)] = Field(0.05, description="below 1 a share of all steps")
    min_side: Annotated[int, Field(ge=1, le=30)] = 3
    max_side: Annotated[int, Field(ge=1, le=30)] = 10
    max_draws: Positive = Field(5, description="calls of a program, at most")
    held_out: Positive = Field(100, description="drawings that are never trained on, to measure with")
    temperature: Annotated[float, Field(gt=0)] = Field(
        0.5, description="of the eight samples that pass@8 is taken from"
    )


class HerSection(Section):
    """Hindsight experience replay on the drawing language: sample programs, relabel each with what it drew, learn."""

    target: str = Field(
        "9-vertical-lines", description="a name (`12-squares`, `chick`), a PNG or grid file, TASK.json#test0, arc1:ID"
    )
    model: str = Field(
        EMBEDDED, description="what to start from: a model that draws, as `arcslim her pretrain` makes; or embedded"
    )
    prompt: Literal["compact", "chat"] = Field(
        "compact",
        description="`compact`: as tiny-draw was made on; `chat`: a question that explains the language",
    )
    load_in_4bit: bool = Field(False, description="NF4 base weights: small models lose by it more than they save")
    base: BaseSection = BaseSection()
    lora_r: Positive = Field(32, description="the adapter's rank; an adapter that comes with the model keeps its own")
    lora_alpha: Positive = 32
    target_modules: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj"), min_length=1, description="attention alone, as first tried"
    )
    use_rslora: bool = Field(True, description="scale by alpha / sqrt(r): keeps high ranks learning")
    use_dora: bool = Field(False, description="weight and direction apart: about a third slower")
    samplers: tuple[str, ...] = Field(
        ("8@0.1", "128@0.9"),
        min_length=1,
        description="programs an epoch, COUNT@TEMPERATURE: one that exploits, one that explores",
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    rollout_batch: Positive = Field(
        256, description="programs drawn at once, of all samplers together: the KV cache holds this many rows"
    )
    max_completion_length: Positive = Field(
        1024, description="tokens of a program at most; of a Qwen 20 squares take 550, 36 take 1,000"
    )
    learning_rate: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description=f"none: {RATE:g}, and of {EMBEDDED} {TINY_RATE:g}"
    )
    warmup: Share = Field(0.1, description="share of an epoch's updates over which the rate rises; then it is constant")
    batch_size: Positive = Field(1, description="programs an update")
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    keep_optimizer: bool = Field(True, description="one optimizer for all epochs; false: a fresh one each epoch")
    order: Literal["asc", "random", "desc"] = Field(
        "asc", description="of an epoch's programs, by how near they come to the target: asc trains the best last"
    )
    max_epochs: Positive = Field(200, description="epochs at most")
    max_generations: Positive = Field(20_000, description="programs drawn at most, over all epochs")
    patience: Count = Field(20, description="stop after so many epochs without a new image; 0: never")
    save_epochs: Positive = Field(5, description="epochs between checkpoints; one that ends the run is always saved")
    train: bool = Field(True, description="false: sample only, for comparison")
    relabel: bool = Field(True, description="false: programs are trained as if they had drawn the target, to compare")
    shuffle_pairs: bool = Field(False, description="true: each program with another one's image, for comparison")
    novel_only: bool = Field(True, description="never train on an image again")
    shortest_only: bool = Field(True, description="of programs of one image the shortest; false: the first")
    replay: Literal["none", "uniform", "lap"] = Field(
        "none", description="also train on earlier programs again: drawn evenly, or by their error (LAP)"
    )
    replay_rows: Positive = Field(32, description="earlier programs an epoch trains on again")

    @property
    def rate(self) -> float:
        """The learning rate in force: a million parameters want a hundred times what half a billion do."""
        if self.learning_rate is not None:
            return self.learning_rate
        return TINY_RATE if self.model == EMBEDDED else RATE

    @property
    def draws(self) -> tuple[Sampler, ...]:
        """The samplers, read."""
        return tuple(read_sampler(text) for text in self.samplers)

    @property
    def generations_an_epoch(self) -> int:
        return sum(sampler.number for sampler in self.draws)

    @field_validator("samplers")
    @classmethod
    def _samplers_can_be_read(cls, samplers: tuple[str, ...]) -> tuple[str, ...]:
        for text in samplers:
            read_sampler(text)
        return samplers


def read_sampler(text: str) -> Sampler:
    """``8@0.1``. Raises ValueError for anything else."""
    found = _SAMPLER.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{NO_COUNT}; it is {text!r}")
    sampler = Sampler(int(found[1]), float(found[2]))
    if sampler.number < 1 or not math.isfinite(sampler.temperature) or sampler.temperature <= 0:
        raise ValueError(f"{NO_COUNT}, both above 0; it is {text!r}")
    return sampler
