"""Config → tasks → prompts: everything that a run knows before any weight is loaded. ``--dry-run`` stops after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arcslim.config import Config
from arcslim.errors import DataError, ModelError
from arcslim.prompts.nouns import Prompt
from arcslim.prompts.render import Renderer
from arcslim.recipes.sink import PairRow, TaskRow
from arcslim.tasks.split import Split, build_split
from arcslim.tasks.task import Pair, Task


@dataclass(frozen=True)
class Asked:
    """A task with the prompt that asks for it."""

    prompt: Prompt
    task: Task

    @property
    def row(self) -> TaskRow:
        return {
            "prompt_id": self.prompt.prompt_id,
            "task_id": self.task.task_id,
            "source": self.task.source,
            "family": self.task.family,
            "prompt": self.prompt.text,
            "task": {"train": _pair_rows(self.task.train), "test": _pair_rows(self.task.test)},
        }


@dataclass(frozen=True)
class Prepared:
    """The training prompts and the held-out ones: ``held`` by name (``select``, ``test``, ``families``, ``arc1``)."""

    train: tuple[Asked, ...]
    held: dict[str, tuple[Asked, ...]]
    split: Split

    @property
    def longest(self) -> int:
        """Tokens of the longest training prompt."""
        return max(len(asked.prompt.token_ids) for asked in self.train)

    @property
    def too_long(self) -> int:
        return sum(counts.get("too_long", 0) for counts in self.split.counts.values())


def prepare(config: Config, tokenizer: Any, check: Callable[[], None] | None = None) -> Prepared:
    """Draw the tasks and render them; prompts over ``prompt.max_tokens`` are left out and counted in ``split.counts``.

    ``check`` is called now and then; it may raise, to stop.

    Raises:
        DataError: nothing to train on is left, or a holdout cannot be met.
        ModelError: the tokenizer would read the rendered text differently when TRL hands it over as a string.
    """
    renderer = Renderer(tokenizer, config.prompt)

    def fits(task: Task) -> bool:
        return len(renderer.render(task, "").token_ids) <= config.prompt.max_tokens

    split = build_split(config.data, config.run.seed, fits, check)
    if not split.train:
        raise DataError("no training task is left", "raise prompt.max_tokens, or choose other sources")
    train = _asked(renderer, "train", split.train)
    held = {
        "select": _asked(renderer, "select", split.select),
        "test": _asked(renderer, "test", split.test),
        "families": _asked(renderer, "families", split.test_families),
        "arc1": _asked(renderer, "arc1", split.test_arc1),
    }
    return Prepared(train, {name: asked for name, asked in held.items() if asked}, split)


def string_prompt(prompt: Prompt, tokenizer: Any) -> str:
    """The text that TRL's own tokenisation turns into exactly ``prompt.token_ids``.

    TRL adds special tokens to a string prompt. Where the template wrote the opening token already (R1's does), it
    would stand there twice, so it is left out of the text.

    Raises:
        ModelError: no such text exists.
    """
    text = prompt.text
    opener = tokenizer.bos_token
    for candidate in (text, text.removeprefix(opener) if opener else text):
        if tuple(tokenizer(text=candidate)["input_ids"]) == prompt.token_ids:
            return candidate
    raise ModelError(
        "this tokenizer adds special tokens to a prompt that the chat template did not ask for",
        "choose prompt.style = 'base', or mend the tokenizer's post-processor",
    )


def _asked(renderer: Renderer, name: str, tasks: tuple[Task, ...]) -> tuple[Asked, ...]:
    return tuple(Asked(renderer.render(task, f"{name}-{number}"), task) for number, task in enumerate(tasks))


def _pair_rows(pairs: tuple[Pair, ...]) -> list[PairRow]:
    return [
        {"input": pair.input.rows(), "output": None if pair.output is None else pair.output.rows()} for pair in pairs
    ]
