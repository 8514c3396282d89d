"""What others published of memory, each figure beside what the planner's formulas make of it.

Rows are of four kinds. *fitted*: two constants of the planner were taken from these rows, so they show nothing but
that the fit is right. *arithmetic*: the publisher computed the figure, and we compute the same. *predicted*: Unsloth,
or a trainer with the same checkpoints and a chunked loss; nothing of ours was fitted to the row. *other trainer*:
predicted as well, of one that holds other things than arcslim's. What a trainer does differently is said by its
``Trainer`` (memory_trainers.py), from its published configuration or source, and by no number of the row's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from arcslim.cards import find_model
from arcslim.memory import formulas as f
from benchmarks.memory_trainers import (
    GEMMA_2_9B,
    HF_FA2,
    LITGPT,
    LLAMA_FACTORY,
    QWEN_7B,
    QWEN_14B,
    TORCHTUNE,
    UNSLOTH,
)

GIB, GB = f.GIB, 10**9
FITTED, ARITHMETIC, PREDICTED, OTHER = "fitted", "arithmetic", "predicted", "other trainer"
BAND = 0.15


@dataclass(frozen=True)
class Row:
    """A published figure and ours, in the same unit."""

    group: str
    what: str
    kind: str
    unit: str
    published: float
    ours: float
    source: str
    remark: str = ""

    @property
    def error(self) -> float:
        return self.ours / self.published - 1

    @property
    def verdict(self) -> str:
        if self.kind in (FITTED, ARITHMETIC):
            return "reproduced" if abs(self.error) <= 0.02 else "not reproduced"
        return "right" if abs(self.error) <= BAND else "off"


def unsloth_rows() -> list[Row]:
    source = "unsloth.ai/docs/basics/unsloth-benchmarks"
    llama, large = find_model("Llama-3.1-8B"), find_model("Llama-3.3-70B")
    longest = {8: 2972, 12: 21848, 16: 40724, 24: 78475, 40: 153977, 48: 191728, 80: 342733}
    rows = [
        Row("Unsloth 8B", f"longest context on {size} GB, r 32", FITTED, "tokens", published,
            UNSLOTH.longest(llama, size * GIB), source)
        for size, published in longest.items()
    ]  # fmt: skip
    rows += [
        Row("Unsloth 70B", f"longest context on {size} GB, r 32", PREDICTED, "tokens", published,
            UNSLOTH.longest(large, size * GIB), source)
        for size, published in {48: 12106, 80: 89389}.items()
    ]  # fmt: skip
    rows.append(Row("Unsloth 70B", "“fits in 41 GB”, taken as 1,024 tokens", PREDICTED, "GiB", 41,
                    UNSLOTH.peak(large, 1024) / GIB, "unsloth.ai/blog/llama3-3"))  # fmt: skip
    hf = {12: 932, 16: 2551, 24: 5789, 40: 12264, 48: 15502, 80: 28454}
    rows += [
        Row("HF + FA2 8B", f"longest context on {size} GB, r 32", OTHER, "tokens", published,
            HF_FA2.longest(llama, size * GIB), source)
        for size, published in hf.items()
    ]  # fmt: skip
    rows.append(Row("HF + FA2 70B", "longest context on 80 GB, r 32", OTHER, "tokens", 6916,
                    HF_FA2.longest(large, 80 * GIB), source))  # fmt: skip
    return rows


def unsloth_grpo_rows() -> list[Row]:
    """Unsloth's account of GRPO at 20K (20,480) tokens and 8 generations, in GiB though it says GB."""
    card, tokens, generations = find_model("Llama-3.1-8B"), 20_480, 8
    source = "unsloth.ai/blog/grpo"
    training = UNSLOTH.peak(card, generations * tokens) / GIB
    logits = generations * tokens * card.vocab_size * 4 / GIB
    cache = f.kv_cache(card, 1, tokens, 0) / GIB
    hf_law = (9.70 * GIB + 2_652_852 * generations * tokens) / GIB
    weights = 2 * card.parameters / GIB
    figures = [
        ("training", 42, training, ""),
        ("logits, in 8 chunks", 9.8, logits / 8, ""),
        ("KV cache of one sequence", 2.5, cache, "the KV cache is one sequence's; eight at once are 20"),
        ("total", 54.3, training + logits / 8 + cache, ""),
        ("HF: training", 414, hf_law, "HF's training by that row's own law, 9.70 GiB + 2,652,852 B a token"),
        ("HF: logits", 78.3, logits, ""),
        (
            "HF: second copy of the weights, bf16",
            16,
            weights * GIB / GB,
            "all in GiB but the second copy of the weights",
        ),
        ("HF: total", 510.8, hf_law + logits + weights * GIB / GB + cache, ""),
    ]
    return [Row("Unsloth GRPO", what, ARITHMETIC, "GiB", published, ours, source, remark)
            for what, published, ours, remark in figures]  # fmt: skip


def measured_rows() -> list[Row]:
    llama3, llama2, mistral = find_model("Llama-3.1-8B"), find_model("Llama-2-7B"), find_model("Mistral-7B")
    source = "github.com/pytorch/torchtune, README"
    lora = replace(TORCHTUNE, packed=None)
    rows = [
        Row("torchtune", "Llama-3.1-8B QLoRA, 2 x 2,048, compiled", PREDICTED, "GiB", 7.4,
            TORCHTUNE.peak(llama3, 4096) / GIB, source),
        Row("torchtune", "Llama-3.1-8B LoRA, 2 x 2,048, compiled", PREDICTED, "GiB", 16.2,
            lora.peak(llama3, 4096) / GIB, source),
    ]  # fmt: skip
    factory = replace(LLAMA_FACTORY, logit=2.0)
    for thousands, tokens, published in (
        (8, 8192, 8),
        (16, 16384, 10),
        (32, 32768, 16),
        (65, 65536, 25),
        (100, 100_000, 37),
    ):
        # In 2024 Unsloth held all logits, bf16, and wrote their gradient over them: they stay during the backward.
        ours = factory.at_rest(llama2) + f.layer_work(llama2, tokens) + f.residual_work(llama2, tokens)
        ours += tokens * llama2.vocab_size * factory.logit
        what = f"Llama-2-7B 4-bit with Unsloth, {thousands}k"
        wiki = "LLaMA-Factory wiki, performance comparison"
        rows.append(Row("LLaMA-Factory", what, PREDICTED, "GB", published, ours / GB, wiki))
    source = "github.com/Lightning-AI/litgpt, config_hub/finetune"
    plain = replace(LITGPT, packed=None, packs_head=False)
    odd = "in 4 bits litgpt holds more besides weights than in 16: we do not know what"
    for name, card, trainer, rows_at_once, published in (
        ("Llama-3-8B LoRA", llama3, plain, 1, 19.73),
        ("Llama-2-7B LoRA", llama2, plain, 2, 19.77),
        ("Mistral-7B LoRA", mistral, plain, 2, 20.66),
        ("Llama-3-8B QLoRA", llama3, LITGPT, 2, 17.41),
        ("Llama-2-7B QLoRA", llama2, LITGPT, 2, 13.68),
        ("Mistral-7B QLoRA", mistral, LITGPT, 2, 14.29),
        ("Gemma-2-9B QLoRA", GEMMA_2_9B, LITGPT, 1, 20.92),
    ):
        ours = trainer.peak(card, rows_at_once * 512) / GB
        remark = "" if trainer is plain else odd
        rows.append(Row("litgpt", f"{name}, {rows_at_once} x 512", OTHER, "GB", published, ours, source, remark))
    source = "github.com/ironbar/arc25, docs"
    return [
        *rows,
        Row("arc25", "Llama-8B 4-bit, SFT of up to 8k, Unsloth, 3090", PREDICTED, "GiB", 0.36 * 24,
            UNSLOTH.peak(llama3, 8192) / GIB, source),
        Row("arc25", "Llama-8B 4-bit, SFT of up to 8k, HF, 3090", OTHER, "GiB", 0.64 * 24,
            HF_FA2.peak(llama3, 8192) / GIB, source, "8k is a limit: how long its longest batch was is not said"),
    ]  # fmt: skip


def decoding_rows() -> list[Row]:
    """Drawing tokens with transformers: weights, and twice the cache, as each step makes a longer one beside it."""
    source = "github.com/QwenLM/Qwen, README"
    twice = "that the cache is there twice was seen in these figures themselves; nothing else of them was used"
    measured = {
        (QWEN_7B, 1, 512): 15.2, (QWEN_7B, 1, 1024): 16.3, (QWEN_7B, 1, 2048): 17.6, (QWEN_7B, 1, 4096): 19.5,
        (QWEN_7B, 1, 8192): 23.2, (QWEN_7B, 4, 1024): 24.1, (QWEN_7B, 16, 1024): 31.7, (QWEN_7B, 32, 1024): 48.7,
        (QWEN_14B, 1, 2048): 30.15,
    }  # fmt: skip
    return [
        Row("Qwen, decoding", f"{card.name} bf16, {rows} x {tokens:,} tokens drawn", OTHER, "GB", published,
            (2 * card.parameters + 2 * f.kv_cache(card, rows, 0, tokens)) / GB, source, twice)
        for (card, rows, tokens), published in measured.items()
    ]  # fmt: skip


def packed_rows() -> list[Row]:
    """Files of models that are packed to NF4 throughout, as the hub shows their size."""
    where, made = "huggingface.co/unsloth, files of each repository", "the same bytes, counted: no training in it"
    sizes = {
        "Qwen2.5-7B": ("DeepSeek-R1-Distill-Qwen-7B-bnb-4bit", 5.55),
        "Qwen2.5-14B": ("Qwen2.5-14B-Instruct-bnb-4bit", 5.00 + 4.93),
        "Llama-3.1-8B": ("Meta-Llama-3.1-8B-bnb-4bit", 5.70),
    }
    return [
        Row("hub files", name, ARITHMETIC, "GB", size, sum(f.held_weights(find_model(card), four_bit=True)) / GB,
            where, made)
        for card, (name, size) in sizes.items()
    ]  # fmt: skip


def all_rows() -> list[Row]:
    return [*unsloth_rows(), *unsloth_grpo_rows(), *packed_rows(), *measured_rows(), *decoding_rows()]
