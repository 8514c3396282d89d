"""The formulas against figures worked out or published elsewhere."""

from __future__ import annotations

import pytest

from arcslim.cards import find_model
from arcslim.config import LORA_TARGETS
from arcslim.memory import formulas as f

GIB = f.GIB


@pytest.mark.parametrize(
    ("name", "packed", "plain", "lora", "kv", "shared", "apart"),
    [
        ("Qwen2.5-7B", 5.17, 14.2, 0.75, 56, 3.9, 7.0),
        ("Qwen3-8B", 5.66, 15.3, 0.81, 144, 10.1, 18),
        ("Qwen2.5-14B", 9.25, 27.5, 1.28, 192, 13.5, 24),
        ("Qwen3-14B", 9.25, 27.5, 1.20, 160, 11.3, 20),
    ],
)
def test_what_was_worked_out_for_8k_prompts_and_8k_completions(
    name: str, packed: float, plain: float, lora: float, kv: int, shared: float, apart: float
) -> None:
    card = find_model(name)
    assert sum(f.held_weights(card, four_bit=True)) / GIB == pytest.approx(packed, abs=0.01)
    assert sum(f.held_weights(card, four_bit=False)) / GIB == pytest.approx(plain, abs=0.06)
    trained = f.lora_parameters(card, 32, LORA_TARGETS)
    assert (trained * 8 + f.optimizer_state(trained, "adamw_8bit")) / GIB == pytest.approx(lora, abs=0.01)
    assert f.kv_per_token(card) == kv * 1024
    assert f.kv_cache(card, 8, 8192, 8192, group=8) / GIB == pytest.approx(shared, abs=0.06)
    assert f.kv_cache(card, 8, 8192, 8192) / GIB == pytest.approx(apart, abs=0.06)


@pytest.mark.parametrize(
    ("name", "bandwidth", "four_bit", "rows", "tokens_per_second"),
    [
        ("Qwen2.5-7B", 1008, True, 1, 195),
        ("Qwen2.5-7B", 1008, True, 8, 799),
        ("Qwen3-8B", 1008, True, 1, 152),
        ("Qwen3-8B", 1008, True, 8, 417),
        ("Qwen2.5-14B", 1008, True, 1, 93),
        ("Qwen3-14B", 1008, True, 8, 329),
        ("Qwen2.5-7B", 3350, False, 32, 2922),
        ("Qwen2.5-14B", 3350, False, 1, 110),
        ("Qwen3-14B", 3350, False, 32, 1160),
    ],
)
def test_decode_ceilings_by_bandwidth(
    name: str, bandwidth: int, four_bit: bool, rows: int, tokens_per_second: int
) -> None:
    ceiling = f.decode_ceiling(find_model(name), rows, 8192 + 8192 / 2, bandwidth=bandwidth, four_bit=four_bit)
    assert ceiling == pytest.approx(tokens_per_second, rel=0.005)


@pytest.mark.parametrize(("rows", "tokens_per_second"), [(8, 256), (64, 1700)])
def test_unpacking_4_bit_weights_pays_for_many_rows(rows: int, tokens_per_second: int) -> None:
    card = find_model("Qwen2.5-7B")
    ceiling = f.decode_ceiling(card, rows, 2048, bandwidth=1008, four_bit=True, unpacks=True)
    assert ceiling == pytest.approx(tokens_per_second, rel=0.01)


def test_a_ceiling_is_above_what_was_measured_with_transformers() -> None:
    """Qwen's README, an A100: 40.93 tokens a second for a 7B in bf16, 32.22 for its 14B."""
    for name, measured in (("Llama-2-7B", 40.93), ("Qwen2.5-14B", 32.22)):
        assert f.decode_ceiling(find_model(name), 1, 1024, bandwidth=2039, four_bit=False) > measured


def test_compute_bounds_decoding_where_many_rows_share_the_weights() -> None:
    card = find_model("Qwen2.5-0.5B")
    free = f.decode_ceiling(card, 4096, 1, bandwidth=1008, four_bit=False)
    assert f.decode_ceiling(card, 4096, 1, bandwidth=1008, tflops=165.2, four_bit=False) < free


def test_the_two_fitted_constants_are_what_is_left_of_unsloths_law() -> None:
    """7.37 GiB + 227,540 B a token, through the first and last column of its table."""
    card = find_model("Llama-3.1-8B")
    slope = (80 - 8) * GIB / (342_733 - 2_972)
    assert slope == pytest.approx(227_540, abs=5)
    left = slope - f.layer_work(card, 1)
    assert left / card.hidden_size == pytest.approx(f.RESIDUAL_PER_HIDDEN, abs=0.01)
    trained = f.lora_parameters(card, 32, LORA_TARGETS)
    itemised = sum(f.held_weights(card, four_bit=True)) + trained * 8 + f.optimizer_state(trained, "adamw_8bit")
    itemised += f.CUDA_CONTEXT + f.dequantised_map(card)
    assert 80 * GIB - 342_733 * slope - itemised == pytest.approx(f.RESIDUAL, rel=0.01)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        # 2 B x (gate + up, queries + attention's output, keys + values, the norms' inputs and outputs)
        ("Qwen2.5-7B", 2 * (2 * 18_944 + 2 * 3_584 + 2 * 512 + 4 * 3_584)),  # 120,832 B
        ("Qwen3-8B", 2 * (2 * 12_288 + 2 * 4_096 + 2 * 1_024 + 4 * 4_096)),  # 102,400 B
        ("Qwen3-4B", 2 * (2 * 9_728 + 2 * 4_096 + 2 * 1_024 + 4 * 2_560)),  # heads are wider than the hidden size
    ],
)
def test_what_a_layer_keeps_without_checkpoints(name: str, token: int) -> None:
    card = find_model(name)
    assert f.kept_layer(card, 1) == token
    assert f.kept_layer(card, 24_576, 4) == 2 * 24_576 * token


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("Qwen2.5-7B", 2 * (3 * 18_944 + 2 * 3_584 + 2 * 512 + 7 * 3_584)),  # 176 KiB, as docs/memory.md has it
        ("Qwen3-8B", 2 * (3 * 12_288 + 2 * 4_096 + 2 * 1_024 + 7 * 4_096)),
    ],
)
def test_what_a_layer_works_with_in_its_backward(name: str, token: int) -> None:
    assert f.layer_work(find_model(name), 1) == token


def test_reading_prompts_takes_the_gated_mlp_of_one_layer() -> None:
    assert f.prefill(find_model("Qwen2.5-7B"), 1) == 2 * (3 * 18_944 + 4 * 3_584)
    assert f.prefill(find_model("Qwen2.5-7B"), 65_536, 4) == 4 * 65_536 * (3 * 18_944 + 4 * 3_584)


def test_full_finetuning_states_and_those_of_an_adapter() -> None:
    assert f.optimizer_state(1000, "paged_adamw_8bit") == pytest.approx(2031, abs=1)
    assert f.optimizer_state(1000, "adamw_torch") == 8000
    assert f.optimizer_state(1000, "adamw_torch", full_bf16=True) == 4000


def test_a_chunk_of_logits_is_bounded_whatever_the_batch() -> None:
    card = find_model("Qwen2.5-7B")
    whole = 400_000 * card.vocab_size * 4
    assert f.logits_chunk(card, 400_000) < whole / 50
    assert f.logits_chunk(card, 400_000) <= 2 * 4096 * card.vocab_size * 4
    assert f.logits_chunk(card, 10) == 10 * card.vocab_size * 8


def test_pinned_blocks_take_a_power_of_two() -> None:
    card = find_model("Qwen2.5-7B")
    exact, pinned = f.checkpoints(card, 24_576), f.pinned_checkpoints(card, 24_576)
    assert exact == 28 * 24_576 * 3584 * 2
    assert pinned == 28 * 256 * 1024**2 >= exact
    assert f.pinned_checkpoints(card, 0) == 0
