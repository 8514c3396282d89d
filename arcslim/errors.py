"""Every error that arcslim raises on purpose.

::

    ArcslimError                      exit 1   anything that went wrong at run time
    ├── InputError                    exit 2   what the user gave cannot be used
    │   ├── ConfigError               several problems of a configuration, listed at once
    │   ├── GridError                 a grid that breaks ARC's rules (carries ``reason``)
    │   ├── TaskError                 a task file or row that cannot be read
    │   ├── DataError                 a source with nothing usable, or holdouts that cannot be met
    │   ├── RewardError               a reward that cannot be built, or returns a wrong shape
    │   ├── ModelError                a model name, folder or tokenizer that cannot be used
    │   └── RunFolderError            a run folder that is in the way, or cannot be resumed
    ├── DoesNotFitError               exit 3   the plan exceeds the card
    ├── CollapseError                 exit 1   a watch with action ``stop`` fired (work is saved)
    ├── NonFiniteError                exit 1   a whole batch of rewards was NaN
    └── Stopped                       130/143  a signal asked for a stop, at a safe point (128 + the signal's number)

A message says what was wrong, where, and what to do. ``hint`` holds the last part apart, so that the console can
set it off. No traceback is shown for these unless ``--debug``.
"""

from __future__ import annotations

from dataclasses import dataclass


class ArcslimError(Exception):
    """Base of the family; ``exit_code`` is what the command line returns."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  {self.hint}"


class InputError(ArcslimError):
    """What the user gave cannot be used."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One fault of a configuration: where it stands, what is wrong, and what to do."""

    where: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"
        return text if self.hint is None else f"{text} ({self.hint})"


class ConfigError(InputError):
    """All problems of a configuration at once."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        noun = "problem" if len(problems) == 1 else "problems"
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{len(problems)} {noun} in the configuration:\n{lines}")


class GridError(InputError):
    """A grid that breaks ARC's rules; ``reason`` is a short name to count by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class TaskError(InputError):
    """A task file or row that cannot be read; ``reason`` is a short name to count by."""

    def __init__(self, reason: str, detail: str, hint: str | None = None) -> None:
        super().__init__(detail, hint)
        self.reason = reason


class DataError(InputError):
    """A source with nothing usable in it, or a holdout that cannot be met."""


class RewardError(InputError):
    """A reward that cannot be built, or that returns the wrong number of values."""


class ModelError(InputError):
    """A model name, folder or tokenizer that cannot be used."""


class RunFolderError(InputError):
    """A run folder that is in the way, or that cannot be resumed."""


class DoesNotFitError(ArcslimError):
    """The plan exceeds the card."""

    exit_code = 3


class CollapseError(ArcslimError):
    """A watch with the action ``stop`` fired; what was learned is saved."""


class NonFiniteError(ArcslimError):
    """Every reward of a batch was NaN or infinite."""


class Stopped(ArcslimError):
    """A signal asked for a stop and a safe point was reached; ``signum`` is the signal's number (2 is Ctrl-C)."""

    def __init__(self, message: str, hint: str | None = None, *, signum: int = 2) -> None:
        super().__init__(message, hint)
        self.signum = signum
        self.exit_code = 128 + signum
