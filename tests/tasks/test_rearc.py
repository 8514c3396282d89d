from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from arcslim.errors import InputError
from arcslim.tasks import rearc
from arcslim.tasks.rearc import RearcLimits, check_families, families, generate

SAMPLE = ("67a3c6ac", "68b16354", "74dd1130", "ce22a75a", "3c9b0459", "a416b8f3", "97a05b5b", "0d3d703e")


def install(monkeypatch: pytest.MonkeyPatch, generator: Callable[..., Any]) -> None:
    monkeypatch.setattr(rearc, "_generators", lambda: {"made": generator})


def test_there_are_400_generators() -> None:
    assert len(families()) == len(set(families())) == 400
    assert list(families()) == sorted(families())


def test_a_task_has_pairs_plus_one_and_a_name() -> None:
    task = generate("67a3c6ac", 3, 7, RearcLimits(pairs=2), Counter())
    assert task is not None
    assert (task.task_id, task.family, task.source) == ("67a3c6ac-7-3", "67a3c6ac", "rearc")
    assert (len(task.train), len(task.test)) == (2, 1)


def test_an_instance_depends_on_seed_family_and_index_alone() -> None:
    limits = RearcLimits()
    asked = [(name, index) for name in SAMPLE for index in range(3)]
    forth = {place: generate(*place, 5, limits, Counter()) for place in asked}
    back = {place: generate(*place, 5, limits, Counter()) for place in reversed(asked[::2])}
    assert any(task is not None for task in forth.values())
    assert all(forth[place] == task for place, task in back.items())
    assert forth != {place: generate(*place, 6, limits, Counter()) for place in asked}
    hashes = [task.content_hash() for task in forth.values() if task is not None]
    assert len(set(hashes)) == len(hashes)


def test_an_instance_does_not_depend_on_hash_seeds_or_the_global_generator() -> None:
    code = (
        "import random; random.seed(); from arcslim.tasks.rearc import *\n"
        f"for name in {SAMPLE!r}:\n"
        "    task = generate(name, 1, 5, RearcLimits())\n"
        "    print(task and task.content_hash())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == len(SAMPLE)


@pytest.mark.parametrize("limits", [RearcLimits(), RearcLimits(min_side=4, max_side=8, attempts=100)])
def test_pairs_keep_the_limits_and_refusals_are_counted(limits: RearcLimits) -> None:
    refusals = Counter[str]()
    made = [generate(name, 0, 0, limits, refusals) for name in families()[:60]]
    drawn = [task for task in made if task is not None]
    assert len(drawn) > 10
    for task in drawn:
        pairs = task.train + task.test
        assert len({pair.input for pair in pairs}) == len(pairs)
        for pair in pairs:
            assert pair.output is not None
            assert pair.input != pair.output
            sides = (*pair.input.shape, *pair.output.shape)
            assert limits.min_side <= min(sides) <= max(sides) <= limits.max_side
    assert refusals["gave_up"] == made.count(None)
    assert refusals["side_under_min"] > 0
    assert refusals["identity"] > 0


def test_identity_is_kept_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(rng: random.Random, low: float, high: float) -> dict[str, Any]:
        cells = tuple(tuple(rng.randrange(10) for _ in range(3)) for _ in range(3))
        return {"input": cells, "output": cells}

    install(monkeypatch, same)
    refusals = Counter[str]()
    assert generate("made", 0, 0, RearcLimits(attempts=20), refusals) is None
    assert refusals == {"identity": 20, "gave_up": 1}
    assert generate("made", 0, 0, RearcLimits(allow_identity=True), Counter()) is not None


def test_the_attempt_cap_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def always_small(rng: random.Random, low: float, high: float) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"input": ((1,),), "output": ((2,),)}

    install(monkeypatch, always_small)
    refusals = Counter[str]()
    assert generate("made", 0, 0, RearcLimits(attempts=17), refusals) is None
    assert asked == 17
    assert refusals == {"side_under_min": 17, "gave_up": 1}


@pytest.mark.parametrize(
    "draw", [lambda rng: rng.choice([1, 2]), lambda rng: rng.random(), lambda rng: rng.sample(range(9), 3)]
)
def test_a_generator_that_draws_for_ever_is_stopped(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[[random.Random], object]
) -> None:
    def endless(rng: random.Random, low: float, high: float) -> dict[str, Any]:
        while True:
            try:
                draw(rng)
            except Exception:  # noqa: BLE001 - as a careless generator would
                continue

    install(monkeypatch, endless)
    refusals = Counter[str]()
    assert generate("made", 0, 0, RearcLimits(attempts=2), refusals) is None
    assert refusals == {"generator_failed": 2, "gave_up": 1}


@pytest.mark.parametrize("error", [IndexError("empty"), RecursionError(), AssertionError(), MemoryError()])
def test_a_generator_that_raises_is_counted_and_asked_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def moody(rng: random.Random, low: float, high: float) -> dict[str, Any]:
        if rng.random() < 0.5:
            raise error
        cells = tuple(tuple(rng.randrange(10) for _ in range(3)) for _ in range(3))
        return {"input": cells, "output": cells[::-1]}

    install(monkeypatch, moody)
    refusals = Counter[str]()
    assert generate("made", 0, 0, RearcLimits(), refusals) is not None
    assert refusals["generator_failed"] > 0


@pytest.mark.parametrize(
    ("output", "reason"), [([[1, 2], [3]], "ragged"), ([[11] * 3] * 3, "bad_colour"), ([[0] * 31] * 3, "too_large")]
)
def test_a_grid_that_breaks_the_rules_is_counted(
    monkeypatch: pytest.MonkeyPatch, output: list[list[int]], reason: str
) -> None:
    install(monkeypatch, lambda rng, low, high: {"input": [[0] * 3] * 3, "output": output})
    refusals = Counter[str]()
    assert generate("made", 0, 0, RearcLimits(attempts=3), refusals) is None
    assert refusals == {reason: 3, "gave_up": 1}


def test_an_unknown_generator_is_named() -> None:
    with pytest.raises(InputError, match="nosuch"):
        check_families(("67a3c6ac", "nosuch"))


def test_no_such_generator_is_no_unlucky_draw() -> None:
    with pytest.raises(KeyError):
        generate("nosuch", 0, 0, RearcLimits())


def test_the_generators_are_reasoning_gyms_own_without_the_rest_of_it() -> None:
    code = (
        "import sys; from arcslim.tasks.rearc import families; print(len(families()), 'reasoning_gym' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["400", "False"]
    from reasoning_gym.arc.rearc_utils import generators
    from reasoning_gym.arc.rearc_utils.utils import get_generators

    own = get_generators(generators)
    assert families() == tuple(sorted(own))
    for name in families()[::40]:
        assert rearc._generators()[name](random.Random(3), 0.0, 0.2) == own[name](random.Random(3), 0.0, 0.2)
