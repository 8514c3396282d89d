"""Rolling out with the real ``generate`` of transformers on a small random model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arcslim.config import GenerationSection
from arcslim.errors import InputError
from arcslim.policy.generate import generate, to_completion
from arcslim.policy.load import Policy
from arcslim.policy.sampling import EntropyMeter, RowTemperatures, Sampling

Load = Callable[..., Policy]
PROMPTS = [[65, 66, 67], list(range(40, 70)), [70], list(range(80, 92))]


@pytest.fixture(scope="module")
def shared() -> dict[str, Policy]:
    return {}


@pytest.fixture
def policy(load: Load, shared: dict[str, Policy]) -> Policy:
    if not shared:
        shared["policy"] = load(load_in_4bit=False)
    return shared["policy"]


def section(length: int = 10, **fields: Any) -> GenerationSection:
    return GenerationSection(max_completion_length=length, **fields)


def test_order_shape_and_batches(policy: Policy) -> None:
    seen = []
    out = generate(policy, PROMPTS, section(), samples=3, batch=5, seed=1, on_batch=lambda *at: seen.append(at))
    assert [len(group) for group in out] == [3, 3, 3, 3]
    assert seen == [(4, 12), (8, 12), (12, 12)]  # three batches it takes, so three alike
    assert all(1 <= len(c.token_ids) <= 10 for group in out for c in group)
    assert len({c.token_ids for group in out for c in group}) == 12  # samples of a group differ


def test_same_seed_same_completions_and_torch_undisturbed(policy: Policy) -> None:
    import torch

    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    first = generate(policy, PROMPTS, section(), samples=2, batch=8, seed=7)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(999)
    assert generate(policy, PROMPTS, section(), samples=2, batch=8, seed=7) == first
    assert generate(policy, PROMPTS, section(), samples=2, batch=8, seed=8) != first


def test_left_padding_changes_nothing(policy: Policy) -> None:
    """Greedy: a prompt in a batch of longer ones completes as it does alone (fp32: sums in bf16 differ by length)."""
    import torch

    policy.model.to(torch.float32)
    greedy = section(8, top_k=1)
    together = generate(policy, PROMPTS, greedy, samples=1, batch=8, seed=0)
    alone = [generate(policy, [prompt], greedy, samples=1, batch=1, seed=0)[0] for prompt in PROMPTS]
    policy.model.to(torch.bfloat16)
    assert together == alone


def test_shared_prompts_and_leaving_rows_change_nothing(policy: Policy) -> None:
    """Greedy, past several sweeps and with rows that end at different times: the same as plain ``generate``."""
    import torch

    from arcslim.policy import generate as module

    policy.model.to(torch.float32)
    ends = tuple(range(0, 250, 25))  # so many that rows do end
    many = Policy(policy.model, policy.tokenizer, ends, (), "cpu")
    prompts = [prompt for prompt in PROMPTS for _ in range(3)]
    greedy = section(40, top_k=1, repetition_penalty=5.0)  # else a random model says one token for ever
    policy.model.eval()
    fast = module._draw_on_cpu(many, prompts, Sampling(greedy), 0)
    plain = module._draw_with_transformers(many, prompts, Sampling(greedy), 0)
    policy.model.train().to(torch.bfloat16)
    fast_completions = [to_completion(many, tokens) for tokens in fast]
    assert fast_completions == [to_completion(many, tokens) for tokens in plain]
    assert len({len(c.token_ids) for c in fast_completions}) > 1
    assert any(not c.cut_off for c in fast_completions)


def test_the_entropy_of_what_is_drawn_is_measured(policy: Policy) -> None:
    """By hand: a coin is worth ln 2, a sure token 0, and a row that has ended does not count."""
    import torch

    meter = EntropyMeter(policy)
    assert meter.mean is None
    end = policy.end_token_ids[0]
    live = next(token for token in range(300) if token not in (*policy.end_token_ids, policy.tokenizer.pad_token_id))
    coin, sure = [0.0, 0.0, -math.inf], [0.0, -math.inf, -math.inf]
    scores = torch.tensor([coin, sure, coin])
    assert meter(torch.tensor([[live], [live], [end]]), scores) is scores
    assert meter.mean == pytest.approx(math.log(2) / 2)


def test_each_row_is_drawn_at_its_own_temperature(policy: Policy) -> None:
    """Nearly greedy rows beside hot ones, past sweeps in which rows leave: the cold ones all say the likeliest."""
    import torch

    policy.model.to(torch.float32)
    ends = (*policy.end_token_ids, *range(0, 250, 10))  # so many that the hot rows do end
    many = Policy(policy.model, policy.tokenizer, ends, (), "cpu")
    heat = [1e-4, 3.0, 1e-4, 3.0, 3.0, 1e-4]
    (mixed,) = generate(many, PROMPTS[:1], section(40, top_p=0.95), samples=6, batch=6, seed=1, temperatures=heat)
    (same,) = generate(many, PROMPTS[:1], section(40, top_k=1), samples=1, batch=1, seed=0)
    policy.model.to(torch.bfloat16)
    assert [row.token_ids for row, at in zip(mixed, heat, strict=True) if at < 1] == [same[0].token_ids] * 3
    hot = [row.token_ids for row, at in zip(mixed, heat, strict=True) if at > 1]
    assert len({*hot, same[0].token_ids}) == 4
    assert len({len(row) for row in hot}) > 1
    with pytest.raises(InputError, match="2 temperatures for 3 samples"):
        generate(policy, PROMPTS[:1], section(), samples=3, batch=1, seed=0, temperatures=[1.0, 1.0])


def test_one_temperature_for_every_row_is_that_temperature(policy: Policy) -> None:
    """Ours comes before top-p, as transformers' own does: the same distribution, so the same tokens."""
    kind = section(12, temperature=0.5, top_p=0.7)
    plain = generate(policy, PROMPTS, kind, samples=2, batch=8, seed=3)
    assert (
        generate(policy, PROMPTS, section(12, top_p=0.7), samples=2, batch=8, seed=3, temperatures=[0.5, 0.5]) == plain
    )
    assert (
        generate(policy, PROMPTS, section(12, top_p=0.7), samples=2, batch=8, seed=3, temperatures=[2.0, 2.0]) != plain
    )


def test_a_temperature_divides_its_own_row() -> None:
    import torch

    scores = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    assert RowTemperatures([0.5, 2.0])(torch.zeros(2, 1), scores).tolist() == [[2.0, 4.0], [0.5, 1.0]]


def test_training_mode_is_as_before_and_dropout_is_off(policy: Policy) -> None:
    model: Any = policy.model
    modes = []
    hook = model.get_input_embeddings().register_forward_hook(lambda module, *_: modes.append(module.training))
    checkpointing = [m.gradient_checkpointing for m in model.modules() if hasattr(m, "gradient_checkpointing")]
    model.train()
    generate(policy, PROMPTS[:1], section(2), samples=1, batch=1, seed=0)
    hook.remove()
    assert modes
    assert not any(modes)
    assert model.training
    assert all(module.training for module in model.modules())
    assert model.config.use_cache is False
    now = [m.gradient_checkpointing for m in model.modules() if hasattr(m, "gradient_checkpointing")]
    assert now == checkpointing
    assert any(now)  # there was something to restore
    model.eval()
    generate(policy, PROMPTS[:1], section(2), samples=1, batch=1, seed=0)
    assert not model.training
    model.train()


def test_interrupt_between_batches_restores_everything(policy: Policy) -> None:
    """Case 25: Ctrl-C during generation: it passes, and the model can go on training."""
    import torch

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    policy.model.train()
    state = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        generate(policy, PROMPTS, section(2), samples=1, batch=2, seed=0, on_batch=stop)
    assert policy.model.training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.fixture
def forced(policy: Policy) -> Iterator[Callable[[int], None]]:
    """``forced(token)``: the model then says that token and nothing else."""
    import torch

    head = policy.model.get_output_embeddings()
    hooks = []

    def force(token: int) -> None:
        def only(_module: Any, _inputs: Any, logits: Any) -> Any:
            bent = torch.full_like(logits, -1e4)
            bent[..., token] = 0.0
            return bent

        hooks.append(head.register_forward_hook(only))

    yield force
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>"])
def test_each_end_token_ends(policy: Policy, forced: Callable[[int], None], end: str) -> None:
    """Case 13: a completion that ends on the second end token stops there and is not cut off."""
    token = policy.tokenizer.convert_tokens_to_ids(end)
    forced(int(token))
    [[completion]] = generate(policy, [[65]], section(6), samples=1, batch=1, seed=0)
    assert completion.token_ids == (token,)
    assert completion.text == ""
    assert not completion.cut_off


def test_cut_off_when_no_end_comes(policy: Policy, forced: Callable[[int], None]) -> None:
    forced(ord("7"))
    [[completion]] = generate(policy, [[65]], section(6), samples=1, batch=1, seed=0)
    assert completion.text == "777777"
    assert completion.cut_off


def test_text_keeps_tags_and_leaves_end_and_pad_out(policy: Policy) -> None:
    """Case 12: the end token stays in the ids (it is trained on). Tags that are special tokens stay in the text."""
    text = "so</think>\n<answer>\n77\n</answer>"
    ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    pad, end = policy.tokenizer.pad_token_id, policy.tokenizer.eos_token_id
    completion = to_completion(policy, [*ids, end, pad, pad])
    assert completion.text == text
    assert completion.token_ids == (*ids, end)
    assert pad not in policy.end_token_ids


def test_bad_requests(policy: Policy) -> None:
    with pytest.raises(InputError, match="prompt 1 is empty"):
        generate(policy, [[65], []], section(), samples=1, batch=1, seed=0)
    with pytest.raises(InputError, match="at least 1"):
        generate(policy, [[65]], section(), samples=0, batch=1, seed=0)
    assert generate(policy, [], section(), samples=1, batch=1, seed=0) == []
