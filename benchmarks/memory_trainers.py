"""How trainers that published figures of their memory differ from ours in what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arcslim.cards import ModelCard, find_model
from arcslim.config import LORA_TARGETS
from arcslim.memory import formulas as f

# No card of ours: planned from its shapes here alone.
GEMMA_2_9B = replace(
    find_model("Llama-3.1-8B"), name="Gemma-2-9B", hidden_size=3584, num_hidden_layers=42, num_attention_heads=16,
    num_key_value_heads=8, head_dim=256, vocab_size=256000, tie_word_embeddings=True,
)  # fmt: skip


QWEN_7B = replace(
    find_model("Llama-2-7B"), name="Qwen-7B", model_type="qwen2", vocab_size=151936, published=7_721_324_544,
)  # fmt: skip
QWEN_14B = replace(
    QWEN_7B, name="Qwen-14B", hidden_size=5120, intermediate_size=13696, num_hidden_layers=40, num_attention_heads=40,
    num_key_value_heads=40, vocab_size=152064,
)  # fmt: skip


@dataclass(frozen=True)
class Trainer:
    """How a trainer differs in what it holds.

    ``packed``: bytes of a 4-bit weight (None: 16 bits); ``packs_head``: the head too. ``adapter``: bytes a trained
    parameter, weight, gradient and optimizer. ``fp32_embeddings``: as PEFT's ``prepare_model_for_kbit_training`` makes
    them. ``layers``: ``offloaded`` or ``gpu`` checkpoints, or ``kept`` (none, plain PyTorch). ``logit``: bytes held a
    logit of the whole batch; they and a layer's work take turns. ``context``: the figure counts the CUDA context
    (an allocator's peak does not). ``residual``: the two constants fitted on Unsloth are added.
    """

    packed: float | None
    adapter: float
    layers: str
    logit: float
    rank: int
    targets: tuple[str, ...] = LORA_TARGETS
    packs_head: bool = False
    fp32_embeddings: bool = False
    context: bool = True
    residual: bool = True

    def at_rest(self, card: ModelCard) -> float:
        """Bytes before the first token."""
        packed_weights = 0 if self.packed is None else card.linear_parameters
        if self.packs_head and not card.tie_word_embeddings:
            packed_weights += card.head_parameters
        plain = card.parameters - packed_weights
        held = packed_weights * (self.packed or 0) + plain * (4 if self.fp32_embeddings else 2)
        held += f.lora_parameters(card, self.rank, self.targets) * self.adapter
        if self.packed is not None:
            held += f.dequantised_map(card)
        return held + (f.CUDA_CONTEXT if self.context else 0) + (f.RESIDUAL if self.residual else 0)

    def peak(self, card: ModelCard, tokens: int) -> float:
        """Bytes at the fullest moment of a step of ``tokens`` tokens."""
        logits = tokens * card.vocab_size * self.logit
        work = f.layer_work(card, tokens) + (f.residual_work(card, tokens) if self.residual else 0)
        if self.layers == "kept":
            return self.at_rest(card) + plain_kept_layer(card, tokens) * card.num_hidden_layers + logits
        kept = f.checkpoints(card, tokens) if self.layers == "gpu" else 0
        return self.at_rest(card) + kept + max(work, logits)

    def longest(self, card: ModelCard, bytes_: float) -> int:
        """The most tokens within so many bytes (the peak grows linearly)."""
        start, slope = self.peak(card, 0), self.peak(card, 1_000_000) - self.peak(card, 0)
        return int((bytes_ - start) / slope * 1_000_000)


def plain_kept_layer(card: ModelCard, tokens: int) -> int:
    """What plain PyTorch keeps of a layer whose linear maps are frozen, for its backward, in bytes.

    Two norms' inputs in fp32, the adapted map's dropped-out input with its mask, queries, keys and values widened to
    all heads, attention's output, and three rows of the MLP (gate, its activation, up). Counted from litgpt's source.
    """
    return tokens * (11 * card.hidden_size + 8 * card.query_size + 6 * card.intermediate_size)


NF4, NF4_SINGLE = 0.5 + 1 / 64 + 4 / (64 * 256), 0.5 + 4 / 64
ADAM8, ADAM_BF16, ADAM32 = 8 + 2.03, 8.0, 16.0
UNSLOTH = Trainer(NF4, ADAM8, "offloaded", 0, rank=32)
# HF: logits in bf16, in fp32, shifted in fp32, their gradient in fp32 and in bf16.
HF_FA2 = Trainer(NF4, ADAM8, "gpu", 16, rank=32, fp32_embeddings=True)
LLAMA_FACTORY = Trainer(NF4, ADAM32, "offloaded", 0, rank=8, targets=("q_proj", "v_proj"))
# torchtune: bf16 adapter and Adam; the loss is taken in 8 chunks of fp32 (with gradient), all logits stay in bf16.
TORCHTUNE = Trainer(NF4, ADAM_BF16, "gpu", 2 + 8 / 8, rank=8, context=False, residual=False)
LITGPT = Trainer(
    NF4_SINGLE, ADAM_BF16, "kept", 8, rank=32, targets=("q_proj", "v_proj"), packs_head=True, context=False,
    residual=False,
)  # fmt: skip
