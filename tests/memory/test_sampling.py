"""What drawing a token holds: the plan's copies against those that transformers and our meter make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arcslim.cards import find_gpu, find_model
from arcslim.cli.plan import plan_for
from arcslim.memory import formulas as f
from arcslim.memory.setup import GRPO, HER, PRETRAIN, SFT, setup_of
from arcslim.policy.sampling import EntropyMeter, RowTemperatures
from arcslim.presets import load_config
from tests.memory.made import live_bytes

ROWS, VOCABULARY = 8, 4096
POLICY: Any = SimpleNamespace(end_token_ids=(1,), tokenizer=SimpleNamespace(pad_token_id=0))


def copies(*, top_p: float, temperature: float | None, entropy: bool) -> float:
    """How many fp32 copies of the logits are held at once, by a step as transformers' ``_sample`` makes it.

    ``temperature`` None: rows have their own.
    """
    torch = pytest.importorskip("torch")
    warpers = pytest.importorskip("transformers.generation.logits_process")
    processors = warpers.LogitsProcessorList()
    if temperature is None:
        processors.append(RowTemperatures([0.5 + row / ROWS for row in range(ROWS)]))
    if entropy:
        processors.append(EntropyMeter(POLICY))
    if temperature is not None:
        processors.append(warpers.TemperatureLogitsWarper(temperature))
    if top_p < 1:
        processors.append(warpers.TopPLogitsWarper(top_p))
    ids = torch.full((ROWS, 3), 5)

    def step() -> Any:
        logits = torch.randn(ROWS, VOCABULARY).to(torch.bfloat16)
        copied = logits.to(copy=True, dtype=torch.float32)
        scores = processors(ids, copied)
        return torch.multinomial(torch.softmax(scores, dim=-1), num_samples=1)

    return live_bytes(step)[1] / (4 * ROWS * VOCABULARY)


def planned(**how: bool) -> float:
    card = find_model("Qwen2.5-7B")
    return f.sampling(card, 1, **how) / (4 * card.vocab_size)


@pytest.mark.parametrize("entropy", [True, False])
def test_without_top_p(entropy: bool) -> None:
    held = copies(top_p=1.0, temperature=0.9, entropy=entropy)
    assert held <= planned() == 6
    assert not entropy or held > planned() - 2, held


def test_with_top_p_and_temperatures_of_rows() -> None:
    one, own = copies(top_p=0.95, temperature=0.7, entropy=False), copies(top_p=0.95, temperature=None, entropy=False)
    # Sorting's own room, which a dispatcher does not see, is what is left: places and values once more at the least.
    assert planned(nucleus=True) - 2 < one <= planned(nucleus=True) == 9, one
    assert own <= planned(nucleus=True, row_temperatures=True) == 10, own


def test_which_recipe_draws_how() -> None:
    for recipe, how in ((GRPO, (False, False)), (SFT, (False, False)), (HER, (True, True)), (PRETRAIN, (True, False))):
        setup = setup_of(load_config("4090", recipe=recipe).config, recipe)
        assert (setup.nucleus, setup.row_temperatures) == how, recipe
    config = load_config("4090", ["generation.top_p=0.9"], recipe=GRPO).config
    assert setup_of(config, GRPO).nucleus


def test_it_is_an_item_of_the_plan() -> None:
    plan = plan_for(load_config("4090", recipe=HER).config, HER, find_gpu("4090"))
    (item,) = [item for item in plan.phase("rollout").gpu if item.name == "sampling"]
    assert item.bytes == plan.request.setup.rollout_rows * plan.request.card.vocab_size * 4 * 10
