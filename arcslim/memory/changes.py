"""Changes to a setup, tried by planning again, and searches for how far one may go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from arcslim.memory.decode import most_rows
from arcslim.memory.phases import fits
from arcslim.memory.setup import Request

LENGTH_STEP = 64  # lengths are searched in steps of so many tokens
LEAST_LENGTH = 256
MOST_ROWS = 1024


def changed(request: Request, **changes: object) -> Request:
    """The request with some of its setup's fields changed."""
    return replace(request, setup=replace(request.setup, **changes))  # type: ignore[arg-type]


def with_completion(request: Request, completion: int) -> Request:
    setup = request.setup
    row = setup.prompt + completion if setup.learns_from_rollouts else setup.row
    return changed(request, completion=completion, row=row)


def with_prompt(request: Request, prompt: int) -> Request:
    setup = request.setup
    return changed(request, prompt=prompt, row=prompt + setup.completion if setup.learns_from_rollouts else setup.row)


def longest(make: Callable[[int], Request], ceiling: int) -> int | None:
    """The longest length up to ``ceiling``, a multiple of ``LENGTH_STEP``, with which the plan fits; None if none."""
    steps = most_rows(lambda steps: fits(make(steps * LENGTH_STEP)), ceiling // LENGTH_STEP)
    return steps * LENGTH_STEP if steps and steps * LENGTH_STEP >= LEAST_LENGTH else None
