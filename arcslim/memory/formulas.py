"""What takes memory, and what bounds decoding: a function a formula. Everything in bytes unless a name says otherwise.

Where a formula comes from is said with it: *counted* (sizes of tensors that must exist), *read* (in the source of
Unsloth 2026.10.9, unsloth_zoo 2026.10.9 or bitsandbytes 0.50.2), *fitted* (to published figures), *assumed*. What was
compared with measurements is in docs/memory.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from arcslim.cards import ModelCard

GIB = 1024**3
MIB = 1024**2
NF4_BLOCK, NESTED_BLOCK = 64, 256  # bitsandbytes' block sizes: of weights, and of the scales of double quantisation
ADAM8_BLOCK = 256  # weights that share a scale in bitsandbytes' 8-bit Adam

CUDA_CONTEXT = int(0.75 * GIB)
"""The driver's share with PyTorch's and Triton's kernels loaded. Assumed: 0.5 to 1 GiB by card and driver."""

RESIDUAL = 426 * MIB
"""What else is there whatever the size of the batch (cuBLAS, compiled kernels, small buffers). Fitted: what Unsloth's
law for Llama-3.1-8B (7.37 GiB + 227,540 B a token) has at 0 tokens beyond weights, adapter, context and buffer."""

RESIDUAL_PER_HIDDEN = 15.55
"""Bytes a token, times the hidden size, that the itemised layer leaves unexplained in the same law: staging buffers of
the offloaded checkpoints (2 x 2 B, read), last hidden states with gradient, fp32 norms. Fitted, on this one model."""

LIBRARIES, LIBRARIES_ON_CPU = int(3.5 * GIB), int(2.4 * GIB)
"""Host RAM of Python with torch and Unsloth, and CUDA's share of it. Assumed from the 2.7 GiB of a whole run of the
preset `cpu`, measured on a machine without a GPU."""

HOST_SECONDS_A_LAYER = 0.5e-3
"""Seconds a layer that a decoding step takes at least because Python launches it, whatever the batch. Assumed: half of
the 0.76 ms of transformers (Qwen-7B, 32 layers, A100: 40.93 tokens a second, Qwen's README), as Unsloth claims."""

OPTIM_ON_CPU = "adamw_torch_fused"  # what 8-bit and paged optimizers become there (read; the load says so in its notes)
SHARD = 5 * 10**9  # transformers writes files of 5 GB; one is in memory while weights are read
# fp32 copies of the last logits while a token is drawn (read: transformers' generation/utils.py, logits_process.py and
# our policy/sampling.py; a test counts them). Always there are the model's own and a copy; temperature makes one, the
# entropy three. Top-p holds the sorted ones, their places (int64: two), softmax and sum; sorting needs room for itself.
SAMPLING_COPIES = 6
NUCLEUS_COPIES = 9
ROW_TEMPERATURE_COPIES = 1
DECODE_STEP = 512  # tokens by which Unsloth's decoding buffers grow (read: KV_CACHE_INCREMENT)


def nf4(weights: int) -> float:
    """NF4 with double quantisation: 4 bits a weight, one byte a block of 64, 4 B a 256 blocks: 0.5159 B a weight.

    Counted; held within 1% against what bitsandbytes holds (tests/memory/test_nf4.py).
    """
    return weights * (0.5 + 1 / NF4_BLOCK + 4 / (NF4_BLOCK * NESTED_BLOCK))


def held_weights(card: ModelCard, *, four_bit: bool, value_bytes: int = 2, kept: int = 0) -> tuple[float, float]:
    """The base's weights: packed to 4 bits, and in full. Only the layers' linear maps are packed (read), but for
    ``kept`` weights of theirs (see packing.py)."""
    packed = card.linear_parameters - kept if four_bit else 0
    return nf4(packed), float((card.parameters - packed) * value_bytes)


def lora_parameters(card: ModelCard, rank: int, targets: Iterable[str]) -> int:
    """rank x (inputs + outputs), over the adapted maps of all layers. Counted."""
    shapes = card.linear_shapes
    return card.num_hidden_layers * sum(rank * sum(shapes[name]) for name in set(targets) if name in shapes)


def optimizer_state(parameters: int, optim: str, *, full_bf16: bool = False) -> float:
    """Adam's two moments: 8 bits each and a scale a block, or of the parameters' own type. Counted."""
    if "8bit" in optim:
        return parameters * (2 + 2 * 4 / ADAM8_BLOCK)
    return parameters * (4.0 if full_bf16 else 8.0)


def kv_per_token(card: ModelCard, value_bytes: int = 2) -> int:
    """Keys and values of one token in all layers. Counted."""
    return 2 * card.num_hidden_layers * card.kv_size * value_bytes


def kv_cache(card: ModelCard, rows: int, prompt: int, completion: int, *, group: int = 1, value_bytes: int = 2) -> int:
    """The cache of ``rows`` completions at their end; each prompt is held once for ``group`` of them. Counted."""
    return kv_per_token(card, value_bytes) * (math.ceil(rows / group) * prompt + rows * completion)


def decode_buffers(card: ModelCard, rows: int, prompt: int, completion: int, value_bytes: int = 2) -> tuple[int, int]:
    """What Unsloth's own decoding holds: at the first token, and at the end beyond the cache proper.

    Read (models/llama.py, _decode_graphs.py): the first token copies each layer's prompt into growing buffers while the
    prompt's own cache still exists; at the end they reach up to 512 tokens ahead, and one layer at a time is copied to
    grow. Not measured.
    """
    token = kv_per_token(card, value_bytes) * rows
    start = token * (2 * prompt + DECODE_STEP)
    ahead = token * DECODE_STEP + token * (prompt + completion) // card.num_hidden_layers
    return start, ahead


def prefill(card: ModelCard, tokens: int, value_bytes: int = 2) -> int:
    """Reading prompts, beyond their cache: the gated MLP of one layer (gate, up, product) and four rows of hidden
    size. Counted from Unsloth's kernels (read)."""
    return tokens * value_bytes * (3 * card.intermediate_size + 4 * card.hidden_size)


def padding_mask(rows: int, prompt: int, *, on_gpu: bool = True) -> tuple[int, int]:
    """The dense attention mask of prompts of different lengths, rows x prompt x prompt: as it lies through the whole
    reading, and what building it takes before.

    Read: Unsloth has transformers build it (models/llama.py, modeling_attn_mask_utils.py) in bf16, 2 B; while its
    padding is filled in there are two of them, a third inverted and one of truth values, 7 B. Where all prompts are
    equally long there is none. On a CPU it is of truth values, and attention makes fp32 of it: 5 B.
    """
    places = rows * prompt * prompt
    return (2 * places, 7 * places) if on_gpu else (5 * places, 0)


def padded_attention(card: ModelCard, rows: int, prompt: int, value_bytes: int = 2) -> int:
    """One layer's attention over padded prompts: queries, keys, values, its output, four rows of hidden size, and a
    second mask, which PyTorch's kernels pad to their own steps (read: unsloth's utils/attention_dispatch.py; PyTorch's
    memory-efficient attention does so where the length is no multiple of 8)."""
    widths = 2 * card.query_size + 2 * card.kv_size + 4 * card.hidden_size
    return rows * prompt * value_bytes * widths + padding_mask(rows, prompt)[0]


def sampling(card: ModelCard, rows: int, *, nucleus: bool = False, row_temperatures: bool = False) -> int:
    """The last token's logits and what is computed from them, in fp32. Read. ``nucleus``: top-p below 1."""
    copies = (NUCLEUS_COPIES if nucleus else SAMPLING_COPIES) + ROW_TEMPERATURE_COPIES * row_temperatures
    return rows * card.vocab_size * 4 * copies


def layer_work(card: ModelCard, tokens: int, value_bytes: int = 2) -> int:
    """One layer run again and differentiated, at its fullest: in the backward of the MLP.

    Then there are gate, up and the product's gradient (3 x intermediate), queries, keys, values and attention's output,
    and seven rows of hidden size (input, two norms' outputs, residual, the gradient in, out and of the residual).
    Counted from Unsloth's kernels (read: kernels/fast_lora.py, which work in place).
    """
    attention = 2 * card.query_size + 2 * card.kv_size
    return tokens * value_bytes * (3 * card.intermediate_size + attention + 7 * card.hidden_size)


def kept_layer(card: ModelCard, tokens: int, value_bytes: int = 2) -> int:
    """What a layer keeps for its backward when nothing is run again (no checkpointing): gate, up, queries, keys,
    values, attention's output, and four rows of hidden size: both norms' inputs and outputs. Counted from the same
    kernels (what they save: e, g and X in fast_lora.py, X in rms_layernorm.py)."""
    attention = 2 * card.query_size + 2 * card.kv_size
    return tokens * value_bytes * (2 * card.intermediate_size + attention + 4 * card.hidden_size)


def checkpoints(card: ModelCard, tokens: int, value_bytes: int = 2) -> int:
    """The layers' inputs, all that checkpointing keeps of the forward: layers x hidden x 2 B a token. Counted."""
    return tokens * card.num_hidden_layers * card.hidden_size * value_bytes


def pinned_checkpoints(card: ModelCard, tokens: int) -> int:
    """The same in pinned host RAM, where a block takes the next power of two (read: gradient_checkpointing.py)."""
    block = tokens * card.hidden_size * 2
    return card.num_hidden_layers * (1 << (block - 1).bit_length() if block else 0)


def logits_chunk(card: ModelCard, tokens: int) -> int:
    """Logits and their gradient, fp32, of one chunk of the loss.

    The rows of a chunk are the power of two at or below tokens x hidden / vocabulary, at least 512, at most 4,096, and
    at most 2 GiB of logits (read: fused_losses/fused_linear.py, as GRPO and SFT use it on a GPU).
    """
    share = max(1, tokens * card.hidden_size // card.vocab_size)
    rows = min(max(1 << (share.bit_length() - 1), 512), 4096, 2 * GIB // (card.vocab_size * 4), max(tokens, 1))
    return rows * card.vocab_size * 4 * 2


def whole_logits(card: ModelCard, tokens: int) -> int:
    """Logits of a loss that takes them all at once, as HER's does (its rows are short): as the model gives them (2 B),
    in fp32 (4), their log-softmax (4), its gradient (4) and that of the logits (2). Counted: recipes/her_learner.py.

    On a CPU every loss does: logits, log-softmax and both gradients in fp32, as many bytes (measured there: 15 to 16 B
    a logit of SFT, from the growth of peaks in benchmarks/results/bench/sft-qwen.json)."""
    return tokens * card.vocab_size * 16


def residual_work(card: ModelCard, tokens: int) -> float:
    """What a token of an update takes beyond the layer. Fitted, see ``RESIDUAL_PER_HIDDEN``."""
    return tokens * RESIDUAL_PER_HIDDEN * card.hidden_size


def dequantised_map(card: ModelCard) -> int:
    """The buffer into which 4-bit weights are unpacked, of the size of the largest linear map, 16 bits (read)."""
    return 2 * max(inputs * outputs for inputs, outputs in card.linear_shapes.values())


def vllm_overhead(card: ModelCard) -> int:
    """vLLM's CUDA graphs: 172 of 4 B x hidden x layers, between 0.15 and 1 GiB (read: unsloth_zoo/vllm_utils.py)."""
    return int(min(max(172 * 4 * card.hidden_size * card.num_hidden_layers, 0.15 * GIB), 1.0 * GIB))


def reserve(usable: int) -> int:
    """Kept free for fragmentation and what differs from step to step: 4% of the card, at least 256 MiB. Assumed."""
    return max(256 * MIB, int(0.04 * usable))


def bytes_read_a_token_step(
    card: ModelCard, rows: int, context: float, *, four_bit: bool, unpacks: bool, kept: int = 0
) -> float:
    """What the GPU must read (and write) for one more token in each of ``rows`` rows of ``context`` tokens.

    All linear maps and the head once, and each row's cache. ``unpacks``: 4-bit weights are read, written in 16 bits and
    read again (0.516 + 2 + 2 B), as Unsloth does above a few rows (decode.py); a fused kernel reads 0.516 B.
    ``kept``: weights of the maps that are in 16 bits all the same.
    """
    packed = card.linear_parameters - kept if four_bit else 0
    layers = nf4(packed) + (4.0 * packed if unpacks else 0.0) + 2.0 * (card.linear_parameters - packed)
    return layers + 2.0 * card.embedding_parameters + rows * context * kv_per_token(card)


def decode_ceiling(
    card: ModelCard,
    rows: int,
    context: float,
    *,
    bandwidth: float,
    tflops: float | None = None,
    four_bit: bool,
    unpacks: bool = False,
    kept: int = 0,
) -> float:
    """Tokens a second that decoding ``rows`` rows cannot exceed: by bandwidth (GB/s), and by compute where
    ``tflops`` is known (2 operations a weight and token). A bound, not a forecast."""
    moved = bytes_read_a_token_step(card, rows, context, four_bit=four_bit, unpacks=unpacks, kept=kept)
    seconds = moved / (bandwidth * 1e9)
    if tflops:
        seconds = max(seconds, 2 * rows * (card.linear_parameters + card.embedding_parameters) / (tflops * 1e12))
    return rows / seconds
