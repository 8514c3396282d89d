"""The memory planner's formulas against figures that others published: each row's error, and whether it is a test.

    python -m benchmarks.memory_backtest                      # the table, as in docs/memory.md
    python -m benchmarks.memory_backtest --write docs/memory.md

Rows are of four kinds. *fitted*: two constants of the planner were taken from these rows, so they show nothing but
that the fit is right. *arithmetic*: the publisher computed the figure, and we compute the same. *predicted*: Unsloth,
or a trainer with the same checkpoints and a chunked loss; nothing of ours was fitted to the row. *other trainer*:
predicted as well, of one that holds other things than arcslim's. What a trainer does differently is said by its
``Trainer``, from its published configuration or source, and by no number of the row's own.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from arcslim.cards import ModelCard, find_model, gpu_named_in
from arcslim.config import LORA_TARGETS
from arcslim.memory import formulas as f
from arcslim.memory.plan import preflight
from arcslim.presets import list_presets, load_config

GIB, GB = f.GIB, 10**9
FITTED, ARITHMETIC, PREDICTED, OTHER = "fitted", "arithmetic", "predicted", "other trainer"
BAND = 0.15
MADE, END = "<!-- {}: made by benchmarks/memory_backtest.py -->", "<!-- end -->"

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


def all_rows() -> list[Row]:
    return [*unsloth_rows(), *unsloth_grpo_rows(), *measured_rows(), *decoding_rows()]


def errors(*kinds: str) -> list[float]:
    """The sizes of the errors of rows of these kinds, smallest first."""
    return sorted(abs(row.error) for row in all_rows() if row.kind in kinds)


def table() -> str:
    rows = all_rows()
    sources = list(dict.fromkeys(row.source for row in rows))
    remarks = list(dict.fromkeys((row.group, row.remark) for row in rows if row.remark))
    lines = [
        "| published by | what | kind | published | ours | error | verdict | source |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        whole = row.unit == "tokens"
        published, ours = (f"{value:,.0f}" if whole else f"{value:.4g}" for value in (row.published, row.ours))
        lines.append(
            f"| {row.group} | {row.what} | {row.kind} | {published} {row.unit} | {ours} | {row.error:+.1%} | "
            f"{row.verdict} | {sources.index(row.source) + 1} |"
        )
    lines.append("")
    for name, kinds in (("predicted", (PREDICTED,)), ("other trainer", (OTHER,)), ("both", (PREDICTED, OTHER))):
        found = errors(*kinds)
        within = sum(error <= BAND for error in found)
        median, largest = statistics.median(found), found[-1]
        lines.append(
            f"- {name}: {len(found)} rows, median error **{median:.1%}**, {within} within {BAND:.0%}, "
            f"the largest {largest:.0%}."
        )
    lines += ["", *(f"- {group}: {remark}." for group, remark in remarks)]
    lines += ["", "Sources: " + "; ".join(f"{number} {name}" for number, name in enumerate(sources, 1)) + "."]
    return "\n".join(lines)


def presets_table() -> str:
    """Each preset that names a card, on it: peaks without the reserve, in GiB, and the verdict."""
    lines = [
        "| preset | recipe | card | rollout or evaluation | update | peak with reserve | of | verdict | host RAM |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for preset in list_presets():
        gpu = gpu_named_in(preset.entry("Made for"))
        recipes = ("sft",) if "arcslim sft" in preset.entry("Run") else ("grpo", "sft")
        for recipe in recipes if gpu is not None else ():
            plan = preflight(load_config(preset.name, recipe=recipe).config, gpu, recipe)
            drawing = [phase.gpu_peak / GIB for phase in plan.phases if phase.name in ("rollout", "evaluation")]
            lines.append(
                f"| `{preset.name}` | {recipe} | {gpu.name} | {f'{drawing[0]:.1f}' if drawing else '–'} | "
                f"{plan.phase('update').gpu_peak / GIB:.1f} | {plan.peak / GIB:.1f} | {gpu.usable_gib:g} | "
                f"{plan.verdict} | {plan.host_peak / GIB:.0f} |"
            )
    return "\n".join(lines)


TABLES = {"back-tests": table, "presets": presets_table}


def written(text: str) -> str:
    """A document with its tables as they are now."""
    for name, make in TABLES.items():
        before, begin, rest = text.partition(MADE.format(name))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"the document has no place for the table of {name}: {MADE.format(name)} … {END}")
        text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="a document whose tables are replaced")
    arguments = parser.parse_args()
    if arguments.write is None:
        print(f"{table()}\n\n{presets_table()}")
    else:
        arguments.write.write_text(written(arguments.write.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
