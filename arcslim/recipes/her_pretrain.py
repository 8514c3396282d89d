"""The base for HER: a model learns to read random drawings back into programs, by the SFT recipe."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from arcslim.config import Config, GenerationSection
from arcslim.her_config import BaseSection
from arcslim.policy.generate import generate
from arcslim.policy.load import Policy
from arcslim.prompts.drawing import program_text
from arcslim.recipes.her import adapter_of
from arcslim.recipes.her_base import refuse_other_question
from arcslim.recipes.her_prompt import DrawingPrompts
from arcslim.recipes.sft import run as run_sft
from arcslim.recipes.sft_prepare import SftData, limit_of
from arcslim.recipes.sft_rows import TrainingRow, Truncation, within_limit
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.training import Outcome
from arcslim.tasks.drawing import DrawingRefused, Image
from arcslim.tasks.drawing_choice import Drawing, image_key, same_image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.random_drawings import drawing_at

SOURCE = "random drawings"
HELD_SEED = 1_000_000_007  # added to the run's: no drawing is of both
SAMPLES, BATCH = 8, 128
AT_ONCE = 1000  # drawings between looks at whether a stop is asked for


def run(
    config: Config, sink: Sink, store: RunStore, stop: StopSignal, *, cache_dir: Path, resume_from: Path | None = None
) -> Outcome:
    """Train ``her.base.model`` on random drawings; its figures are the held-out loss and pass@1, pass@8 on unseen ones.

    Raises:
        InputError: a model that cannot be used.
        Stopped: a stop was asked for; everything is saved.
    """
    base = config.her.base
    refuse_other_question(base.model, base.prompt, "her.base.prompt")
    unseen = [_drawing(base, config.run.seed + HELD_SEED, index) for index in range(base.held_out)]

    def measure(policy: Policy) -> dict[str, float]:
        return pass_rates(policy, unseen, config, stop)

    return run_sft(
        as_sft(config), sink, store, stop,
        cache_dir=cache_dir, resume_from=resume_from, prepare=prepare_drawings, measure=measure,
    )  # fmt: skip


def as_sft(config: Config) -> Config:
    """The configuration as the SFT recipe reads it."""
    her, base, run_section = config.her, config.her.base, config.run
    names = (
        "max_steps", "batch_size", "per_device_train_batch_size", "learning_rate", "lr_scheduler_type", "warmup_steps",
    )  # fmt: skip
    sft = config.sft.model_copy(
        update={
            **{name: getattr(base, name) for name in names},
            "packing": "none",
            "lora_r": her.lora_r,
            "lora_alpha": her.lora_alpha,
            "prefill_template": False,  # a program is no thought
            "max_length": None,
            "num_train_epochs": 1.0,
        }
    )
    model = config.model_for("her-pretrain")
    every = base.save_steps
    run = run_section.model_copy(update={"eval_steps": every, "save_steps": every, "early_stop": 0})
    lora = adapter_of(her, config.lora)
    return config.model_copy(update={"sft": sft, "model": model, "lora": lora, "run": run})


def prepare_drawings(config: Config, tokenizer: Any, check: Callable[[], None] | None = None) -> SftData:
    """``her.base.drawings`` random drawings as rows, made once, and ``held_out`` others that none of them equals.

    The program alone is trained. A drawing over the context is counted and left out.
    """
    base = config.her.base
    prompts = DrawingPrompts(tokenizer, base.prompt)
    unseen = list(_rows(base, config.run.seed + HELD_SEED, base.held_out, prompts, check))
    held_keys = {row.key for row in unseen}
    rows, dropped = [], Counter[str]()
    for row in _rows(base, config.run.seed, base.drawings, prompts, check):
        if row.key in held_keys:
            dropped["held_out"] += 1
        else:
            rows.append(row)
    limit = limit_of(config)
    kept = within_limit(rows, "drop", limit, dropped)
    held = within_limit(unseen, "drop", limit, Counter())
    counts = {SOURCE: {"read": base.drawings, "kept": len(kept), **dropped}}
    truncation = Truncation.of(rows, limit, "drop")
    return SftData(tuple(kept), tuple(held), {}, counts, None, truncation, ())


def _drawing(base: BaseSection, seed: int, index: int) -> Drawing:
    return drawing_at(seed, index, min_side=base.min_side, max_side=base.max_side, max_draws=base.max_draws)


def _rows(
    base: BaseSection, seed: int, number: int, prompts: DrawingPrompts, check: Callable[[], None] | None
) -> Iterator[TrainingRow]:
    """Many at a time: a tokenizer has a thread for each core."""
    for start in range(0, number, AT_ONCE):
        if check is not None:
            check()
        indices = range(start, min(start + AT_ONCE, number))
        drawings = [_drawing(base, seed, index) for index in indices]
        asked = prompts.many_ids([(blank_of(drawing), drawing.output) for drawing in drawings])
        answers = prompts.many_program_ids([drawing.program for drawing in drawings])
        for index, drawing, prompt, program in zip(indices, drawings, asked, answers, strict=True):
            ids = np.array([*prompt, *program], dtype=np.int32)
            pair = image_key(blank_of(drawing)) + b">" + image_key(drawing.output)
            yield TrainingRow(f"drawing-{index}", SOURCE, ids, len(prompt), hashlib.sha256(pair).digest())


def blank_of(drawing: Drawing) -> Image:
    """What a random drawing was drawn on; they all have one."""
    assert drawing.input is not None
    return drawing.input


def pass_rates(policy: Policy, drawings: list[Drawing], config: Config, stop: StopSignal) -> dict[str, float]:
    """``eval/pass@1`` and ``eval/pass@8``: programs that draw their image, and images that one of eight draws."""
    base = config.her.base
    prompts = DrawingPrompts(policy.tokenizer, base.prompt)
    questions = prompts.many_ids([(blank_of(drawing), drawing.output) for drawing in drawings])
    longest = max(map(len, prompts.many_program_ids([drawing.program for drawing in drawings])))
    sampling = GenerationSection(max_completion_length=longest, temperature=base.temperature, top_p=config.her.top_p)
    answers = generate(
        policy,
        questions,
        sampling,
        samples=SAMPLES,
        batch=BATCH,
        seed=config.run.seed,
        on_batch=lambda *_: stop.check(),
    )
    right = np.array(
        [[_draws(one.text, drawing) for one in some] for some, drawing in zip(answers, drawings, strict=True)]
    )
    return {"eval/pass@1": float(right.mean()), "eval/pass@8": float(right.any(axis=1).mean()), "eval/n": len(drawings)}


def _draws(text: str, drawing: Drawing) -> bool:
    try:
        return same_image(parse_program(program_text(text)).run(drawing.input), drawing.output)
    except DrawingRefused:
        return False
