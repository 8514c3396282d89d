"""The loop's small parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcslim.config import Config
from arcslim.her_config import HerSection
from arcslim.recipes.her import replay, why_it_ends
from arcslim.recipes.her_learner import Learner, optimizer_class, warmed_up
from arcslim.recipes.her_state import HerState
from arcslim.recipes.hindsight import Pair
from arcslim.tasks.drawing import Call, Program
from arcslim.tasks.targets import target


def test_the_rate_warms_up_over_a_tenth_of_an_epoch() -> None:
    assert [warmed_up(update, 20, 0.1) for update in (0, 1, 2, 19)] == [0.5, 1.0, 1.0, 1.0]
    assert warmed_up(0, 5, 0.1) == 1.0  # a tenth of five is no update
    assert warmed_up(0, 20, 0.0) == 1.0


@pytest.mark.parametrize(
    ("state", "her", "reason"),
    [
        (HerState(solved_at=7), {}, "solved"),
        (HerState(generations=30), {"max_generations": 100, "samplers": ("71@1",)}, "her.max_generations = 100"),
        (HerState(epoch=3), {"max_epochs": 3}, "her.max_epochs = 3"),
        (HerState(dry=2), {"patience": 2}, "her.patience = 2"),
    ],
)
def test_what_ends_a_run(state: HerState, her: dict[str, object], reason: str) -> None:
    ended = why_it_ends(state, Config(her=HerSection.model_validate(her)))
    assert ended is not None and ended.startswith(reason)


def test_a_budget_is_never_passed() -> None:
    her = HerSection(max_generations=100, samplers=("70@1",))
    assert why_it_ends(HerState(generations=30), Config(her=her)) is None
    assert why_it_ends(HerState(generations=31), Config(her=her)) is not None


def test_a_run_with_no_time_left_ends_before_its_limit() -> None:
    config = Config()
    config = config.model_copy(update={"run": config.run.model_copy(update={"max_hours": 1.0})})
    assert why_it_ends(HerState(epoch=10, seconds=3000.0), config) is None
    assert str(why_it_ends(HerState(epoch=10, seconds=3400.0), config)).startswith("run.max_hours")


def test_replay_gives_earlier_programs_with_their_own_images() -> None:
    source = "def task(img):\n    img = draw_pixel(img, point=(0, 0), color=3)\n    return img\n"
    other = source.replace("color=3", "color=5")
    state = HerState(errors={source: 50.0, other: 0.1})
    drawn = {}
    for kind in ("uniform", "lap"):
        rng, one = np.random.default_rng(0), HerSection(replay=kind, replay_rows=1)
        first = [replay(state, BLANK, one, rng)[0] for _ in range(2000)]
        assert all(pair.image.shape == BLANK.shape for pair in first)
        drawn[kind] = sum(int(pair.image.sum()) == 3 for pair in first) / 2000
        both = replay(state, BLANK, HerSection(replay=kind, replay_rows=9), rng)
        assert {int(pair.image.sum()) for pair in both} == {3, 5} and len(both) == 2  # none twice in an epoch
    # LAP: max(50, 1)^0.4 = 4.78 against max(0.1, 1)^0.4 = 1
    assert drawn["uniform"] == pytest.approx(0.5, abs=0.04)
    assert drawn["lap"] == pytest.approx(4.782 / 5.782, abs=0.03)
    assert replay(state, target("4-squares").blank, HerSection(), np.random.default_rng(0)) == []


def test_what_was_not_learned_from_may_come_again() -> None:
    """A loss that is not finite changed nothing, and would break the priorities of a replay."""
    blank = np.zeros((2, 2), dtype=np.int8)
    pairs = tuple(Pair.of(Program((Call("draw_pixel", (0, column, 3)),)), blank) for column in (0, 1))
    state = HerState()
    state.trained(pairs, (float("nan"), 2.5), (True, True), keep=True)
    assert len(state.seen) == 1 and list(state.errors.values()) == [2.5]
    state = HerState()
    state.trained(pairs, (1.5, 2.5), (False, True), keep=True)  # an update that was left out, as fp16's first ones are
    assert len(state.seen) == 1 and list(state.errors.values()) == [2.5]


Make = Callable[..., Learner]
BLANK = target("4-squares").blank


def pairs_of(*columns: int) -> list[Pair]:
    return [Pair.of(Program((Call("draw_vertical_line", (column, column + 1)),)), BLANK) for column in columns]


@pytest.fixture
def make(stack: Path) -> Make:
    """Learners on the embedded model, each loaded anew, with an adapter that has no dropout."""
    from arcslim.policy.load import load_policy
    from arcslim.presets import load_config
    from arcslim.recipes.her import adapter_of
    from arcslim.recipes.her_prompt import DrawingPrompts

    def made(*sets: str) -> Learner:
        config = load_config("cpu", sets, {}, recipe="her").config
        adapter = adapter_of(config.her, config.lora)
        policy = load_policy(config.model_for("her"), adapter, seed=0, cache_dir=stack)
        return Learner(policy, DrawingPrompts(policy.tokenizer, "compact"), BLANK, config)

    return made


def weights(learner: Learner) -> list[Any]:
    return [weight.detach().clone() for weight in learner._weights]


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    import torch

    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_pairs_are_gone_through_in_their_order(make: Make) -> None:
    """No sampler shuffles: the batches are the pairs as they come, and another order learns something else."""
    learner = make("her.batch_size=2")
    asked: list[list[int]] = []
    real = learner._batch
    learner._batch = lambda pairs: asked.append([int(pair.image.max()) for pair in pairs]) or real(pairs)  # type: ignore
    learned = learner.epoch(pairs_of(3, 0, 2, 1, 0))
    assert asked == [[4, 1], [3, 2], [1]]
    assert learned.applied == (True,) * 5
    assert len(learned.errors) == 5 and learned.updates == 3 and learned.skipped == 0
    assert learned.learning_rate == pytest.approx(1e-3) and learned.grad_norm > 0
    straight, turned = make("her.batch_size=1"), make("her.batch_size=1")
    assert same(weights(straight), weights(turned))
    straight.epoch(pairs_of(0, 1, 2))
    turned.epoch(pairs_of(2, 1, 0))
    assert not same(weights(straight), weights(turned))


def test_the_loss_is_that_of_the_program_alone(make: Make) -> None:
    """Against transformers' own loss, row by row; padding and prompt count for nothing."""
    import torch

    learner = make()
    pairs = [*pairs_of(0), Pair.of(Program((Call("draw_pixel", (0, 0, 3)), Call("draw_pixel", (1, 1, 4)))), BLANK)]
    ids, labels = learner._batch(pairs)
    with torch.no_grad():
        together = learner._losses(ids, labels)
        for row, pair in enumerate(pairs):
            one, own = learner._batch([pair])
            loss = learner._policy.model(input_ids=one, labels=own).loss
            counted = int((own[:, 1:] != -100).sum())
            assert counted == len(learner._prompts.program_ids(pair.program))
            assert float(together[row]) == pytest.approx(float(loss) * counted, rel=2e-2)  # sums in bf16 differ


def test_the_optimizer_is_kept_or_made_anew(make: Make) -> None:
    kept, reset = make("her.keep_optimizer=true"), make("her.keep_optimizer=false")
    for learner in (kept, reset):
        learner.epoch(pairs_of(0, 1))
        learner.epoch(pairs_of(2))

    def steps(learner: Learner) -> set[int]:
        return {int(state["step"]) for state in learner._optimizer.state.values()}

    assert steps(kept) == {2} and steps(reset) == {1}  # batch of 4: an update an epoch
    assert not same(weights(kept), weights(reset))


def test_a_gradient_that_is_not_finite_changes_nothing(make: Make) -> None:
    """Also with momentum from the epochs before: AdamW moves by it where gradients are zeroed and not taken away."""
    learner = make("her.batch_size=1")
    learner.epoch(pairs_of(0, 1))
    before = weights(learner)
    real = learner._losses
    learner._losses = lambda ids, labels: real(ids, labels) * math.nan  # type: ignore[method-assign]
    learned = learner.epoch(pairs_of(2, 3))
    assert learned.skipped == learned.updates == 2 and math.isnan(learned.grad_norm)
    assert same(weights(learner), before) and learned.applied == (False, False)
    learner._losses = real  # type: ignore[method-assign]
    assert learner.epoch(pairs_of(2)).skipped == 0 and not same(weights(learner), before)


def test_what_is_saved_goes_on_the_same(make: Make, tmp_path: Path) -> None:
    """With dropout in the adapter as well: it draws by the epoch's seed."""
    import torch

    first, second = (make("lora.lora_dropout=0.1", "her.batch_size=1") for _ in range(2))
    first.seed(1)
    first.epoch(pairs_of(0, 1))
    first.save(tmp_path)
    with torch.no_grad():
        for there, here in zip(second._weights, first._weights, strict=True):
            there.copy_(here)
    second.load(tmp_path)
    for learner in (first, second):
        learner.seed(2)
        learner.epoch(pairs_of(2, 3))
    assert same(weights(first), weights(second))
    second.seed(3)
    first.seed(4)
    for learner in (first, second):
        learner.epoch(pairs_of(0))
    assert not same(weights(first), weights(second))  # dropout is on while training


def test_fp16_scales_its_losses(make: Make) -> None:
    """On a card before Ampere; here on the CPU, which can. The norm that is told is of the gradient itself."""
    import torch

    plain, half = make("her.batch_size=1"), make("her.batch_size=1")
    half._cast, half._scaler = torch.float16, torch.amp.GradScaler("cpu", init_scale=2.0**10)
    expected, learned = plain.epoch(pairs_of(0)), half.epoch(pairs_of(0))
    assert learned.skipped == 0 and learned.grad_norm == pytest.approx(expected.grad_norm, rel=0.05)


def test_a_gpu_trains_with_what_optim_names() -> None:
    import bitsandbytes.optim as eight_bit
    import torch

    from arcslim.config import OptimSection

    for name in OptimSection.model_fields["optim"].annotation.__args__:  # type: ignore[union-attr]
        assert issubclass(optimizer_class(name, on_gpu=True), torch.optim.Optimizer), name
        assert optimizer_class(name, on_gpu=False) is torch.optim.AdamW
    assert optimizer_class("paged_adamw_8bit", on_gpu=True) is eight_bit.PagedAdamW8bit
    assert optimizer_class("paged_adamw_8bit", on_gpu=True, kept=False) is eight_bit.AdamW8bit


def test_the_rate_fits_the_model() -> None:
    assert HerSection().rate == 1e-3 and HerSection(model="a/b").rate == 1e-5
    assert HerSection(model="a/b", learning_rate=2e-4).rate == HerSection(learning_rate=2e-4).rate == 2e-4
