"""The order of SFT rows: by seed alone, every row once an epoch, and rows of an update sorted by length."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.recipes.sft_order import in_order
from arcslim.sft_config import SftSection

LENGTHS = st.lists(st.integers(1, 9000), min_size=1, max_size=60)


def section(**knobs: Any) -> SftSection:
    return SftSection(**{"batch_size": 4, "num_train_epochs": 3.0, "learning_rate": 1e-4, **knobs})


def batches(order: list[int], size: int) -> list[list[int]]:
    return [order[start : start + size] for start in range(0, len(order), size)]


@given(lengths=LENGTHS, epochs=st.integers(1, 4), seed=st.integers(0, 2**32), group=st.booleans())
def test_every_row_once_an_epoch_before_any_comes_again(
    lengths: list[int], epochs: int, seed: int, group: bool
) -> None:
    """Sorting must not carry a row over an update's border, wherever the epoch's border lies in it."""
    size = 4
    order = in_order(lengths, section(num_train_epochs=float(epochs), group_by_length=group), seed=seed)
    assert Counter(order) == dict.fromkeys(range(len(lengths)), epochs)
    for updates in range(1, len(order) // size):
        shown = Counter(order[: updates * size])
        assert max(shown.values()) <= 1 + updates * size // len(lengths)
        whole_epochs = updates * size // len(lengths)
        assert all(shown[index] >= whole_epochs for index in range(len(lengths)))


@given(lengths=LENGTHS, seed=st.integers(0, 9), size=st.integers(1, 9))
def test_grouping_changes_no_update(lengths: list[int], seed: int, size: int) -> None:
    """The rows of an update are the same, in another order: the same gradient, with less padding."""
    plain = batches(in_order(lengths, section(group_by_length=False, batch_size=size), seed=seed), size)
    grouped = batches(in_order(lengths, section(group_by_length=True, batch_size=size), seed=seed), size)
    assert [sorted(batch) for batch in plain] == [sorted(batch) for batch in grouped]
    for batch in grouped:
        assert [lengths[index] for index in batch] == sorted(lengths[index] for index in batch)


def test_grouping_saves_padding() -> None:
    """64 rows an update in micro-batches of 8, lengths as of traces: a third of the padding at most."""
    draw = random.Random(0)
    lengths = [int(draw.lognormvariate(6, 1)) + 1 for _ in range(640)]

    def padding(*, group: bool) -> int:
        order = in_order(lengths, section(batch_size=64, group_by_length=group), seed=0)
        micro = [[lengths[index] for index in batch] for batch in batches(order, 8)]
        return sum(max(batch) * len(batch) - sum(batch) for batch in micro)

    assert padding(group=True) < padding(group=False) / 3


def test_the_seed_decides_and_nothing_else() -> None:
    lengths = list(range(1, 101))
    random.seed(1)
    first = in_order(lengths, section(), seed=5)
    random.seed(2)
    state = random.getstate()
    assert in_order(lengths, section(), seed=5) == first, "a resumed run goes on with the same rows"
    assert random.getstate() == state, "it draws from no shared generator"
    assert in_order(lengths, section(), seed=6) != first


def test_each_epoch_is_shuffled_anew() -> None:
    order = in_order([1] * 100, section(batch_size=10), seed=0)
    epochs = batches(order, 100)
    assert len(epochs) == 3
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert all(epoch != list(range(100)) for epoch in epochs)


def test_a_longer_run_begins_as_the_shorter_one() -> None:
    """So that a run may be stopped, given more epochs or steps, and go on."""
    short = in_order([1] * 37, section(num_train_epochs=1.0), seed=3)
    longer = in_order([1] * 37, section(num_train_epochs=5.0), seed=3)
    assert longer[:36] == short[:36]
    steps = in_order([1] * 37, section(max_steps=20), seed=3)
    assert steps == longer[:80]


@pytest.mark.parametrize(
    ("rows", "knobs", "wanted"),
    [
        (10, {"num_train_epochs": 1.0}, 10),
        (10, {"num_train_epochs": 2.5}, 25),
        (10, {"num_train_epochs": 0.26}, 3),
        (10, {"num_train_epochs": 0.01}, 1),  # a run of no rows would learn nothing and say nothing
        (10, {"max_steps": 3}, 12),  # of 4 rows each
        (1, {"max_steps": 3}, 12),
        (10, {"max_steps": 3, "num_train_epochs": 9.0}, 12),
    ],
)  # fmt: skip
def test_how_many_rows_a_run_sees(rows: int, knobs: dict[str, Any], wanted: int) -> None:
    order = in_order([5] * rows, section(**knobs), seed=0)
    assert len(order) == wanted
    assert set(order) <= set(range(rows))


def test_packed_updates_count_sequences_and_lay_out_whole_epochs() -> None:
    """Counted by rows, 100 packed updates would go through 3,200 of 5,000 rows ten times, and never see the others."""
    lengths = [50] * 5000
    sft = section(max_steps=100, batch_size=32)
    assert len(in_order(lengths, sft, seed=0)) == 3200
    order = in_order(lengths, sft, seed=0, packed=500)  # 500 sequences an epoch, 3,200 are wanted
    assert len(order) == 7 * 5000 and set(order[:5000]) == set(range(5000))
