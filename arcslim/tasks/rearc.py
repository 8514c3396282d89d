"""RE-ARC: new instances of ARC-1's 400 training tasks, from the generators that reasoning-gym ships.

Each instance depends on (seed, family, index) alone, never on which other families are asked for or in what order:
the generators draw from a ``random.Random`` of the instance's own. They are rejection loops without a cap, so that
generator counts its draws, and the loops end (see ``_BudgetedRandom``).

Source: M. Hodel, "Addressing the Abstraction and Reasoning Corpus via Procedural Example Generation" (2024).
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from arcslim.errors import GridError, InputError
from arcslim.tasks.grid import MAX_SIDE, Grid
from arcslim.tasks.task import Pair, Task

SOURCE = "rearc"
_FOLDER = "arc/rearc_utils"
_PACKAGE = "_arcslim_rearc"
_MARK = "generate_"
DRAWS_PER_PAIR = 200_000  # the hungriest honest generator needs under 30,000


@dataclass(frozen=True)
class RearcLimits:
    """What an instance must satisfy. Difficulty bounds are RE-ARC's, within 0 to 1: sizes and clutter grow with them.

    ``attempts`` is how many pairs may be drawn for one task before it is given up.
    """

    pairs: int = 4
    difficulty_min: float = 0.0
    difficulty_max: float = 0.2
    min_side: int = 3
    max_side: int = MAX_SIDE
    allow_identity: bool = False
    attempts: int = 200


class _OutOfDraws(BaseException):
    """Not an ``Exception``: nothing inside a generator may swallow it."""


class _BudgetedRandom(random.Random):
    """A ``Random`` that stops its user after so many draws: an endless rejection loop draws without end."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.left = DRAWS_PER_PAIR

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _OutOfDraws

    def random(self) -> float:
        self._spend()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        self._spend()
        return super().getrandbits(k)


@cache
def _generators() -> dict[str, Callable[[random.Random, float, float], dict[str, Any]]]:
    """The generators alone, as a package of their own: with reasoning_gym around them come a hundred other data sets,
    which take a second to import, in every process.

    Raises:
        InputError: reasoning_gym is not installed, or holds no generators.
    """
    found = importlib.util.find_spec("reasoning_gym")  # finds it, imports nothing
    folders = [] if found is None else [Path(place) / _FOLDER for place in found.submodule_search_locations or ()]
    if not any((folder / "generators").is_dir() for folder in folders):
        raise InputError("RE-ARC's generators come from reasoning-gym, which is not here", "pip install reasoning-gym")
    spec = ModuleSpec(_PACKAGE, None, is_package=True)
    spec.submodule_search_locations = [str(folder) for folder in folders]
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    module = importlib.import_module(f"{_PACKAGE}.generators")
    return {name.removeprefix(_MARK): getattr(module, name) for name in sorted(dir(module)) if name.startswith(_MARK)}


def families() -> tuple[str, ...]:
    """The ids of the 400 generators, sorted."""
    return tuple(_generators())


def check_families(names: tuple[str, ...]) -> None:
    """Raises:
    InputError: for a name that is no generator of RE-ARC.
    """
    unknown = [name for name in names if name not in _generators()]
    if unknown:
        raise InputError(
            f"RE-ARC has no generator {', '.join(unknown)}", "ids are those of ARC-1's training tasks, such as 67a3c6ac"
        )


def generate(
    family: str, index: int, seed: int, limits: RearcLimits, refusals: Counter[str] | None = None
) -> Task | None:
    """The instance ``index`` of a generator: ``limits.pairs`` example pairs and one test pair, all different.

    Pairs that break the limits are passed over and counted in ``refusals`` by reason: ``side_under_min``,
    ``side_over_max``, ``identity``, ``repeated_pair``, ``generator_failed`` (it raised, or drew without end), and
    the reasons of ``GridError``. Returns None, counted as ``gave_up``, when ``limits.attempts`` are used up.
    """
    counts = Counter[str]() if refusals is None else refusals
    rng = _BudgetedRandom(f"{seed}/{family}/{index}")
    pairs: list[Pair] = []
    for _ in range(limits.attempts):
        pair = _draw(family, rng, limits, counts)
        if pair is None:
            continue
        if any(pair.input == other.input for other in pairs):
            counts["repeated_pair"] += 1
            continue
        pairs.append(pair)
        if len(pairs) > limits.pairs:
            name = f"{family}-{seed}-{index}"
            return Task(name, SOURCE, family, tuple(pairs[:-1]), (pairs[-1],))
    counts["gave_up"] += 1
    return None


def _draw(family: str, rng: _BudgetedRandom, limits: RearcLimits, counts: Counter[str]) -> Pair | None:
    rng.left = DRAWS_PER_PAIR
    generator = _generators()[family]
    try:
        drawn = generator(rng, limits.difficulty_min, limits.difficulty_max)
    except (_OutOfDraws, Exception):  # noqa: BLE001 - whatever fails on an unlucky draw: counted, asked again
        counts["generator_failed"] += 1
        return None
    try:
        pair = Pair(Grid(drawn["input"]), Grid(drawn["output"]))
    except GridError as error:
        counts[error.reason] += 1
        return None
    reason = _refusal(pair, limits)
    if reason is not None:
        counts[reason] += 1
        return None
    return pair


def _refusal(pair: Pair, limits: RearcLimits) -> str | None:
    assert pair.output is not None
    sides = (*pair.input.shape, *pair.output.shape)
    if min(sides) < limits.min_side:
        return "side_under_min"
    if max(sides) > limits.max_side:
        return "side_over_max"
    if not limits.allow_identity and pair.input == pair.output:
        return "identity"
    return None
