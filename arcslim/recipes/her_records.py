"""What a HER run writes down: figures and drawings of an epoch, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from arcslim.policy.load import Policy, save_adapter
from arcslim.prompts.nouns import Completion
from arcslim.recipes.her_learner import Learned, Learner
from arcslim.recipes.her_prompt import DrawingPrompts
from arcslim.recipes.her_state import HerState
from arcslim.recipes.hindsight import CUT_OFF, LookedBack
from arcslim.recipes.sink import DrawingRow, RunStore, Sink, TaskRow
from arcslim.tasks.drawing_choice import code_length, pixel_accuracy
from arcslim.tasks.targets import Target

SOURCE, ACCURACY = "draw", "pixel_accuracy"
MOST_ROWS = 24  # drawings of an epoch that are written down, the nearest first


def figures(state: HerState, looked: LookedBack, learned: Learned | None, reached: float) -> dict[str, float]:
    """The metrics row of an epoch; rates are shares of the programs that it drew."""
    drawn = max(looked.drawn, 1)
    values = {
        "her/best_pixel_accuracy": state.best_accuracy,
        "her/epoch_pixel_accuracy": reached,
        "her/generations_total": float(state.generations),
        "her/valid_rate": len(looked.valid) / drawn,
        "her/unique_rate": len(looked.distinct) / drawn,
        "her/novel_rate": len(looked.new) / drawn,
        "her/trained_images": float(len(state.seen)),
        "her/solved": float(state.solved_at is not None),
        "completion/tokens_mean": looked.tokens / drawn,
        "completion/cut_off_rate": looked.refused[CUT_OFF] / drawn,
        "tokens/completion": float(looked.tokens),
    }
    values |= {f"her/refused/{reason}": number / drawn for reason, number in looked.refused.items()}
    if looked.distinct:
        lines = [code_length(drawing.program)[0] for drawing in looked.distinct]
        values["her/code_lines_mean"] = sum(lines) / len(lines)
    if learned is not None:
        values |= {
            "loss": learned.loss,
            "optim/grad_norm": learned.grad_norm,
            "optim/lr": learned.learning_rate,
            "tokens/trained": float(learned.tokens),
            "her/updates": float(learned.updates),
            "her/skipped_updates": float(learned.skipped),
        }
    return values


def sample_rows(looked: LookedBack, wanted: Target, epoch: int) -> list[DrawingRow]:
    """The drawings of an epoch that come nearest, best first, as rows of ``samples.jsonl``; then one program of each
    reason for which some came to nothing."""
    scored = [(pixel_accuracy(drawing.output, wanted.image), drawing) for drawing in looked.distinct]
    scored.sort(key=lambda item: -item[0])
    rows = []
    for accuracy, drawing in scored[:MOST_ROWS]:
        row = _row(epoch, looked.written[drawing], accuracy)
        row["answer"], row["program"] = drawing.output.tolist(), drawing.program.to_source()
        rows.append(row)
    return rows + [_row(epoch, completion, 0.0, reason) for reason, completion in looked.spoiled.items()]


def record(sink: Sink, looked: LookedBack, wanted: Target, epoch: int, values: dict[str, float]) -> None:
    """An epoch's drawings and figures; updates that a broken gradient cost are told."""
    sink.samples(sample_rows(looked, wanted, epoch))
    sink.metrics(epoch, "train", values)
    if values.get("her/skipped_updates"):
        words = f"{values['her/skipped_updates']:.0f} updates had a gradient that was not finite: they change nothing"
        sink.event(epoch, "skipped_step", words)


def _row(epoch: int, written: Completion, accuracy: float, reason: str | None = None) -> DrawingRow:
    return {
        "step": epoch,
        "group": 0,
        "prompt_id": SOURCE,
        "task_id": SOURCE,
        "completion": written.text,
        "thinking": "",
        "answer": None,
        "reason": reason,
        "cut_off": written.cut_off,
        "thinking_tokens": 0,
        "completion_tokens": len(written.token_ids),
        "score": {"total": accuracy, "parts": {ACCURACY: accuracy}, "weights": {ACCURACY: 1.0}},
        "advantage": 0.0,
    }


def task_row(wanted: Target, prompts: DrawingPrompts) -> TaskRow:
    """The target as a row of ``tasks.jsonl``: a task without examples, whose truth is the image."""
    blank, image = wanted.blank.tolist(), wanted.image.tolist()
    return {
        "prompt_id": SOURCE,
        "task_id": SOURCE,
        "source": f"{SOURCE}:{wanted.name}",
        "family": SOURCE,
        "prompt": prompts.text(wanted.blank, wanted.image),
        "task": {"train": [], "test": [{"input": blank, "output": image}]},
    }


def checkpoint(policy: Policy, learner: Learner, state: HerState, sink: Sink, store: RunStore, *, keep: int) -> None:
    """Write ``checkpoint-EPOCH``: weights and tokenizer first, then the optimizer, and last what makes it whole."""
    folder = store.path / f"checkpoint-{state.epoch}"
    save_adapter(policy.model, policy.tokenizer, folder)
    learner.save(folder)
    _write_json(folder / "trainer_state.json", {"global_step": state.epoch, "trainer": False})
    state.save(folder)
    sink.event(state.epoch, "checkpoint", folder.name)
    store.prune(keep)


def _write_json(path: Any, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
