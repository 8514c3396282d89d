"""What HER starts from: on which form of question a model was made."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from arcslim.errors import InputError
from arcslim.her_config import BaseSection, HerSection
from arcslim.policy.sources import TINY_DRAW, resolve, tiny_folder
from arcslim.recipes.her_prompt import DrawingPrompts
from arcslim.tasks.drawing import LIMITS
from arcslim.tasks.plain_program import plain_program
from arcslim.tasks.targets import Target

RESOLVED, ENVIRONMENT = "resolved.toml", "environment.json"


def question_form(name: str) -> tuple[str, str] | None:
    """The form that the model ``name`` was made on, and what says so; None where nothing does.

    A run of `arcslim her pretrain`, or of HER on it, says it in its ``resolved.toml``; the embedded model, and an
    adapter on it, know one form alone.

    Raises:
        ModelError: there is no such model.
    """
    source = resolve(name)
    folder = Path(source.name)
    for place in (folder, folder.resolve().parent):
        if source.kind in ("model", "adapter") and (place / RESOLVED).is_file():
            written = _form_of_run(place)
            if written is not None:
                return written, str(place / RESOLVED)
    embedded = str(tiny_folder(TINY_DRAW))
    if embedded in (source.name, source.base):
        return "compact", TINY_DRAW
    return None


def _form_of_run(run: Path) -> str | None:
    """``her.base.prompt`` of a run that made a base, ``her.prompt`` of one that drew; None of another recipe's, or
    where its files cannot be read."""
    try:
        recipe = json.loads((run / ENVIRONMENT).read_text(encoding="utf-8"))["recipe"]
        her: dict[str, Any] = tomllib.loads((run / RESOLVED).read_text(encoding="utf-8")).get("her", {})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if recipe == "her":
        return str(her.get("prompt", HerSection().prompt))
    if recipe == "her-pretrain":
        return str(her.get("base", {}).get("prompt", BaseSection().prompt))
    return None


def notes_on_base(name: str) -> tuple[str, ...]:
    """A doubt where nothing says that the model was made to draw. Raises ModelError where there is no such model."""
    if question_form(name) is not None:
        return ()
    return (
        f"nothing says that {name} was made on drawings: one that was not draws hardly anything to learn from. "
        "`arcslim her pretrain` makes a model ready; give its run with --model",
    )


def notes_on_room(prompts: DrawingPrompts, wanted: Target, her: HerSection) -> tuple[str, ...]:
    """A doubt where the plainest program of the target is longer than a program may be."""
    program = plain_program(wanted.image)
    tokens, room, calls = len(prompts.program_ids(program)), her.max_completion_length, len(program.calls)
    plain = f"a call for each block of one colour makes a program of {calls} calls and {tokens} tokens"
    if calls > LIMITS.max_calls:
        return (f"{plain}, and {LIMITS.max_calls} calls are read at most: unless a shorter one draws it, none can",)
    if tokens > room:
        return (
            f"{plain}, and her.max_completion_length is {room}: unless a shorter one draws it, none can. Raise it to "
            f"{tokens} or more",
        )
    return ()


def refuse_other_question(name: str, form: str, knob: str) -> None:
    """A model that was made on one form of question reads nothing in another.

    Raises:
        InputError: ``form`` is not the model's.
        ModelError: there is no such model.
    """
    known = question_form(name)
    if known is not None and known[0] != form:
        raise InputError(f"{knob} is {form}, and {name} was made on {known[0]} ({known[1]})", f"set {knob}={known[0]}")
