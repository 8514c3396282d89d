"""The sections of the schema that SFT adds: its own learning, and how its rows name their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from arcslim.section import Count, Positive, Section, Share


class ColumnsSection(Section):
    """How SFT rows name their columns; a name given here must be there. `none`: looked for under its usual names."""

    messages: str | None = Field(None, description="a conversation; usually `messages` or `conversations`")
    prompt: str | None = Field(None, description="usually `prompt`; goes with completion")
    completion: str | None = Field(None, description="usually `completion`")
    question: str | None = Field(None, description="usually `question`; goes with reasoning and answer")
    reasoning: str | None = Field(None, description="usually `reasoning`, `reasoning_content` or `thinking`")
    answer: str | None = Field(None, description="usually `answer`")


class SftSection(Section):
    """SFT's own knobs, beside `model`, `data`, `prompt`, `run`. Its learning is not RL's, so its rates stand here.

    Where a default depends on `model.full_finetuning`, it is `none` here and a number in the resolved file (`filled`).
    """

    packing: Literal["none", "bfd"] = Field(
        "none", description="`none`: a row is a sequence. Packing hurts reasoning traces; `bfd` keeps rows whole"
    )
    max_length: Positive | None = Field(
        None, description="tokens of a row, prompt included: memory grows with it; none: model.max_seq_length"
    )
    over_length: Literal["drop", "truncate", "error"] = Field(
        "drop", description="rows over max_length; `truncate` cuts the end off, and the answer goes with it"
    )
    prefill_template: bool = Field(
        True, description="the saved chat template opens <think> itself, so that every server gives the trained prompt"
    )
    samples_per_task: Count = Field(
        4, description="right rollouts of a task that `samples:RUN` takes, different ones; 0: all"
    )
    num_train_epochs: Annotated[float, Field(gt=0)] | None = None
    max_steps: Positive | None = Field(None, description="optimizer steps, whatever the epochs say")
    learning_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"] = (
        "cosine_with_min_lr"
    )
    lr_min_ratio: Share = Field(0.1, description="floor of `cosine_with_min_lr`, as a share of the peak")
    warmup_steps: Annotated[float, Field(ge=0)] = Field(
        0.03, description="below 1 a share of all steps, else a number of steps"
    )
    adam_beta2: Share = 0.999
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 0.2
    batch_size: Positive | None = Field(None, description="rows an update")
    per_device_train_batch_size: Positive = Field(
        1, description="rows in one forward and backward: memory grows with it; the rest is accumulated"
    )
    group_by_length: bool = Field(
        True, description="rows of like length in one batch: little padding; nothing changes at batch 1"
    )
    lora_r: Positive = Field(64, description="the adapter's rank for SFT: capacity follows the trained tokens")
    lora_alpha: Positive = 64
    neftune_noise_alpha: Annotated[float, Field(gt=0)] | None = Field(
        None, description="noise on embeddings; none: off"
    )

    def filled(self, *, full_finetuning: bool) -> SftSection:
        """With a number for each knob whose default depends on what is trained.

        All weights: as OlympicCoder's authors published it. An adapter: a higher rate, as LoRA needs, and a smaller
        batch for the fewer tokens that it is given.
        """
        rate, rows, epochs = (4e-5, 128, 10.0) if full_finetuning else (2e-4, 32, 3.0)
        return self.model_copy(
            update={
                "learning_rate": self.learning_rate or rate,
                "batch_size": self.batch_size or rows,
                "num_train_epochs": self.num_train_epochs or epochs,
            }
        )

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches an update; only of a section that is `filled`."""
        assert self.batch_size is not None
        return self.batch_size // self.per_device_train_batch_size
