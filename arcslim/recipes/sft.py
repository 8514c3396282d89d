"""The SFT recipe: config → rows → model → trainer → run folder, read from top to bottom.

A row is rendered and tokenised by us (``sft_rows.py``); TRL is given token ids and labels and changes neither. Rows
are put in order by us as well (``sft_order.py``), epoch after epoch, so that a resumed run goes on with the next one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arcslim.config import Config, LoraSection
from arcslim.errors import RunFolderError
from arcslim.policy.load import Policy, adapter_unrounded, load_policy, print_to_log, start_unsloth
from arcslim.prompts.template import prefill_template
from arcslim.recipes.arguments import run_arguments, schedule_arguments
from arcslim.recipes.sft_loss import HeldLoss
from arcslim.recipes.sft_order import in_order
from arcslim.recipes.sft_prepare import SftData, limit_of, prepare_sft
from arcslim.recipes.sft_rows import TrainingRow, to_dataset, truncation_lines
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.start import Evaluator, look_at_the_start, tell_counts
from arcslim.recipes.state import LOSS, PASS_AT_1, Goal, RunState
from arcslim.recipes.training import Outcome, Plan, Training

SMALLER_UPDATE = "halve sft.per_device_train_batch_size (the update stays as it is), or lower sft.max_length"


Prepare = Callable[[Config, Any, Callable[[], None]], SftData]
Measure = Callable[[Policy], dict[str, float]]


def run(
    config: Config,
    sink: Sink,
    store: RunStore,
    stop: StopSignal,
    *,
    cache_dir: Path,
    resume_from: Path | None = None,
    prepare: Prepare = prepare_sft,
    measure: Measure | None = None,
) -> Outcome:
    """Train on reasoning traces, and leave the best adapter (or model) in ``final/``.

    ``prepare`` makes the rows of a configuration and a tokenizer. ``measure`` gives further ``eval/`` figures of the
    policy beside the held-out loss.

    Raises:
        InputError: a model, source or row file that cannot be used.
        Stopped: a stop was asked for; everything is saved.
    """
    knobs = {"r": "sft.lora_r", "lora_alpha": "sft.lora_alpha"}
    policy = load_policy(config.model, adapter(config), seed=config.run.seed, cache_dir=cache_dir, knobs=knobs)
    for note in (*policy.notes, *prefill(config, policy.tokenizer)):
        sink.event(0, "start", note)
    stop.check()

    data = prepare(config, policy.tokenizer, stop.check)
    tell_rows(data, sink)
    stop.check()

    arguments, limit = sft_config(config, store.path, cache_dir), limit_of(config)
    packed = packing_in_force(config, arguments, sink)
    from trl import SFTTrainer  # after Unsloth, which replaces it on a GPU

    order = in_order(
        [len(row) for row in data.train], config.sft, seed=config.run.seed, packed=limit if packed else None
    )
    with adapter_unrounded(policy.model), print_to_log():
        trainer = SFTTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=arguments,
            train_dataset=to_dataset(data.train).select(order),
            data_collator=None if packed else collator(policy.tokenizer),
        )
    if packed:  # TRL packs the longest first
        trainer.train_dataset = trainer.train_dataset.shuffle(seed=config.run.seed)
    max_steps = config.sft.max_steps or updates(len(trainer.train_dataset), config)
    arguments.max_steps = trainer.args.max_steps = max_steps
    trainer.args.warmup_steps = warm_up(config, max_steps, sink)
    for line in geometry_lines(config, data, len(order), trainer, max_steps):
        sink.event(0, "start", line)

    held_loss = HeldLoss(trainer, data.held, collator(policy.tokenizer), arguments.per_device_eval_batch_size, stop)
    losses = held_loss if measure is None else lambda: held_loss() | measure(policy)
    evaluator = Evaluator(config, policy, data.asked, sink, stop, losses if data.held else None)
    state = RunState(goal_of(data), parts={"rows": SameRows(data)})
    plan, tokens = Plan(max_steps, SMALLER_UPDATE), StepTokens(data.train, order, config, trainer)
    training = Training(config, policy, trainer, plan, tokens, evaluator, state, sink, store, stop, resume_from)
    training.add_callbacks()
    with training.memory_explained():
        if resume_from is None:
            look_at_the_start(state, evaluator, sink)
        else:
            state.load(resume_from)
    stop.check()

    training.train()
    training.keep_best()
    training.tell_why_it_ended()
    return training.sum_up()


def packing_in_force(config: Config, arguments: Any, sink: Sink) -> bool:
    """Whether rows share sequences, whatever was asked for."""
    packed = bool(arguments.packing)
    if config.sft.packing != "none" and not packed:
        words = "sft.packing: Unsloth's CPU backend turns packing off; each row is a sequence of its own"
        sink.event(0, "warning", words)
    return packed


def has_gpu() -> bool:
    """Whether there is one that torch can use; Unsloth is not asked, as that would load it."""
    import torch

    return torch.cuda.is_available()


def goal_of(data: SftData) -> Goal:
    """pass@1 where all that is held out are ARC tasks, else the loss on the held-out rows."""
    only_tasks = "select" in data.asked and all(row.task is not None for row in data.held)
    return PASS_AT_1 if only_tasks else LOSS


class SameRows:
    """A run that is resumed goes on with the rows that it began with: their digest is in its state."""

    def __init__(self, data: SftData) -> None:
        digest = hashlib.sha256()
        for row in (*data.train, *data.held):
            digest.update(row.ids.tobytes() + row.prompt_length.to_bytes(4, "big"))
        self._digest = digest.hexdigest()

    def state_dict(self) -> dict[str, Any]:
        return {"sha256": self._digest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises RunFolderError where the rows are others by now."""
        if state["sha256"] != self._digest:
            raise RunFolderError(
                "the rows are not those that this run began with: data, tokenizer or template changed",
                "go on with the data as they were, or start a new run from its final/ by --model",
            )


class StepTokens:
    """What stands in the place of GRPO's rollouts: no drawing, and the tokens of each step's rows.

    Figures: ``tokens/trained`` (with loss) and ``tokens/prompt`` of a step; none with packing, where rows share
    sequences.
    """

    is_drawing = False
    rolled_out_at = scored_at = -math.inf

    def __init__(self, rows: Sequence[TrainingRow], order: Sequence[int], config: Config, trainer: Any) -> None:
        self._rows, self._order, self._trainer = rows, order, trainer
        self._batch = 0 if trainer.args.packing else config.sft.batch_size or 0

    def take_pending(self) -> dict[str, float]:
        step = int(self._trainer.state.global_step)
        rows = [self._rows[index] for index in self._order[(step - 1) * self._batch : step * self._batch]]
        if not rows:
            return {}
        trained = sum(row.trained for row in rows)
        return {"tokens/trained": float(trained), "tokens/prompt": float(sum(map(len, rows)) - trained)}


def adapter(config: Config) -> LoraSection:
    """The adapter's section with SFT's own rank and alpha."""
    return config.lora.model_copy(update={"r": config.sft.lora_r, "lora_alpha": config.sft.lora_alpha})


def prefill(config: Config, tokenizer: Any) -> list[str]:
    """Let the chat template open the thinking itself, where that is asked for; what was done, in words."""
    if not config.sft.prefill_template or config.prompt.style != "chat":
        return []
    note = prefill_template(tokenizer)
    return [] if note is None else [note]


def tell_rows(data: SftData, sink: Sink) -> None:
    trained = sum(row.trained for row in data.train)
    words = f"{len(data.train)} training rows, {trained} trained tokens; {len(data.held)} rows held out"
    sink.event(0, "start", words)
    tell_counts(data.counts, sink)
    for line in truncation_lines(data.truncation):
        sink.event(0, "start", line)
    for note in data.notes:
        sink.event(0, "warning", note)
    for asked in data.asked.values():
        sink.task_rows(one.row for one in asked)


def updates(rows: int, config: Config) -> int:
    """Optimizer steps that ``rows`` sequences take, in transformers' arithmetic."""
    micro_batches = math.ceil(rows / config.sft.per_device_train_batch_size)
    return max(1, math.ceil(micro_batches / config.sft.gradient_accumulation_steps))


def warm_up(config: Config, max_steps: int, sink: Sink) -> int:
    """Steps of the warm-up. A share is rounded, where transformers rounds it up: the first step of a warm-up has the
    rate 0, and of a run of one step nothing would be learned."""
    asked = config.sft.warmup_steps
    steps = round(asked * max_steps) if asked < 1 else int(asked)
    if steps >= max_steps:
        words = f"sft.warmup_steps: the warm-up of {steps} steps is not over when the run ends at {max_steps}"
        sink.event(0, "warning", f"{words}; set sft.warmup_steps=0")
    return steps


def geometry_lines(config: Config, data: SftData, order: int, trainer: Any, max_steps: int) -> list[str]:
    """What an update is, and how many; ``order`` rows were laid out."""
    sft = config.sft
    what = (
        "rows" if not trainer.args.packing else f"sequences of up to {limit_of(config)} tokens (packing {sft.packing})"
    )
    laid = order / len(data.train)  # epochs that stand in the order; the trainer may end before them
    epochs = laid * min(max_steps * (sft.batch_size or 1) / len(trainer.train_dataset), 1.0)
    accumulation = trainer.args.gradient_accumulation_steps
    lines = [
        f"update: {sft.batch_size} {what} (batch {trainer.args.per_device_train_batch_size} x {accumulation} "
        f"accumulation)",
        f"{max_steps} updates in all: {len(data.train)} rows, {epochs:.3g} epochs",
    ]
    if len(data.train) < (sft.batch_size or 1):
        lines.append(f"an update takes more rows ({sft.batch_size}) than there are ({len(data.train)})")
    return lines


def collator(tokenizer: Any) -> Any:
    """TRL's: pads on the right, labels with -100 by position, so that a pad that equals the end token costs nothing."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return DataCollatorForLanguageModeling(pad_token_id=int(tokenizer.pad_token_id))


def sft_config(config: Config, run_dir: Path, cache_dir: Path) -> Any:
    """TRL's ``SFTConfig`` as Unsloth gives it, whose import this starts."""
    unsloth = start_unsloth(cache_dir, standby=False)
    from trl import SFTConfig

    with print_to_log():
        return SFTConfig(**trainer_arguments(config, run_dir, on_gpu=str(unsloth.DEVICE_TYPE) != "cpu"))


def trainer_arguments(config: Config, run_dir: Path, *, on_gpu: bool) -> dict[str, Any]:
    """The arguments of TRL's ``SFTConfig``, all that this recipe sets and no default of ours besides."""
    sft = config.sft
    arguments: dict[str, Any] = {
        **run_arguments(config, run_dir, on_gpu=on_gpu),
        **schedule_arguments(sft),
        "max_length": limit_of(config),
        "packing": sft.packing != "none",
        "padding_free": sft.packing == "bfd",
        "num_train_epochs": 1,  # the epochs stand one after the other in the dataset
        "max_steps": sft.max_steps or -1,
        "train_sampling_strategy": "sequential",
        "optim": config.optim.optim,
        "per_device_eval_batch_size": sft.per_device_train_batch_size,
        "gradient_accumulation_steps": sft.gradient_accumulation_steps,
        "adam_beta1": config.optim.adam_beta1,
        **{name: getattr(sft, name) for name in (
            "adam_beta2", "weight_decay", "max_grad_norm", "per_device_train_batch_size", "neftune_noise_alpha",
        )},
    }  # fmt: skip
    if sft.packing == "none":
        arguments["dataset_kwargs"] = {"skip_prepare_dataset": True}  # the rows are as they are to be trained
    else:
        arguments["packing_strategy"] = sft.packing
    return arguments
