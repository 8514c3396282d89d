"""Makes the embedded model `tiny`: a Qwen3 of about a million parameters, with partial skill at small RE-ARC tasks.

    OMP_NUM_THREADS=1 python scripts/build_tiny.py --out build/tiny

Seeded. It is trained from nothing on RE-ARC instances of the families below with short honest thinking
(``arcslim/tasks/thinking.py``), with the loss on all tokens, and stopped early on purpose: reinforcement learning
needs something to find. Every ``--eval-every`` steps it prints how many unseen tasks it solves, sampled at
temperature 1, and saves a candidate. The one that ships is ``step-500`` of the defaults (``docs/log.md``).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from arcslim.config import PromptSection
from arcslim.prompts.parse import parse
from arcslim.prompts.render import Renderer, answer_text, base_text, chat_text
from arcslim.tasks.rearc import RearcLimits, generate
from arcslim.tasks.task import Task
from arcslim.tasks.thinking import explain

FAMILIES = (
    "67a3c6ac",  # mirror left to right
    "68b16354",  # mirror top to bottom
    "74dd1130",  # swap rows and columns
    "3c9b0459",  # turn by half
    "ed36ccf7",  # turn left
    "b1948b0a",  # change 6 to 2
    "c8f0f002",  # change 7 to 5
    "d511f180",  # change 5 to 8, 8 to 5
    "a416b8f3",  # twice side by side
    "6d0aefbc",  # the grid and its mirror side by side
    "4c4377d9",  # the mirror over the grid
    "6fa7a44f",  # the grid over its mirror
)
LIMITS = RearcLimits(pairs=2, difficulty_min=0.05, difficulty_max=0.12, min_side=3, max_side=6)
TRAIN_SEED, UNSEEN_SEED = 71_000_000, 72_000_000
VOCABULARY = 640
# Qwen's: words, single digits, punctuation with the newlines after it, white space
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_pad|>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Row:
    """Token ids of a prompt and its honest completion; ``prompt_length`` of them are the prompt's."""

    ids: tuple[int, ...]
    prompt_length: int
    task: Task


def solved_tasks(seed: int, start: int, count: int) -> Iterator[Task]:
    """``count`` tasks of the families in turn, each with honest thinking."""
    index = start
    while count:
        for family in FAMILIES:
            task = generate(family, index, seed, LIMITS)
            if task is not None and explain(task) is not None and count:
                count -= 1
                yield task
        index += 1


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE with Qwen's word pattern: any text encodes, the words of our prompts are one token each."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    corpus = []
    for task in solved_tasks(TRAIN_SEED - 1, 0, 480):
        thinking, answer = explain(task), task.test[0].output
        assert thinking is not None and answer is not None
        corpus += [chat_text(task, "compact"), base_text(task, "spaced"), answer_text(thinking, answer, "compact")]
        corpus += ["system\n", "user\n", "assistant\n"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return wrapped(tokenizer)


def wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """As transformers wants it, with the special tokens and the chat template of both embedded models."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|fim_pad|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=2048,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    ends = [tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>")]
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=ends[0],
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = ends
    return model


def build_optimizers(model: Qwen3ForCausalLM, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between the layers, AdamW for embeddings and norms: fewer steps than AdamW alone."""
    named = list(model.named_parameters())
    matrices = [value for name, value in named if value.ndim == 2 and "embed" not in name]
    others = [value for name, value in named if value.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, weight_decay=0.0, betas=(0.9, 0.98)),
    ]


def make_rows(tokenizer: PreTrainedTokenizerFast, renderer: Renderer, tasks: Iterator[Task]) -> list[Row]:
    rows = []
    for task in tasks:
        prompt = renderer.render(task, task.task_id)
        thinking, answer = explain(task), task.test[0].output
        assert thinking is not None and answer is not None
        completion = answer_text(thinking, answer, "compact") + "<|im_end|>"
        ids = prompt.token_ids + tuple(tokenizer(completion, add_special_tokens=False)["input_ids"])
        rows.append(Row(ids, len(prompt.token_ids), task))
    return rows


def batches(rows: list[Row], size: int, pad: int, rng: random.Random) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(ids, labels), each (size, longest), rows of similar length together, for ever."""
    while True:
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids) + rng.random() * 12)
        groups = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        rng.shuffle(groups)
        for group in groups:
            longest = max(len(rows[i].ids) for i in group)
            ids = torch.full((size, longest), pad)
            labels = torch.full((size, longest), -100)
            for at, i in enumerate(group):
                row = torch.tensor(rows[i].ids)
                ids[at, : len(row)] = row
                labels[at, : len(row)] = row
            yield ids, labels


@torch.no_grad()
def pass_rate(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: list[Row], samples: int
) -> tuple[float, float, dict[str, float]]:
    """Share right (pass@1) and share of tasks right at least once, at temperature 1; pass@1 by family."""
    model.eval()
    right = np.zeros((len(rows), samples), dtype=bool)
    for start in range(0, len(rows), 60):
        part = rows[start : start + 60]
        prompts = [row.ids[: row.prompt_length] for row in part for _ in range(samples)]
        longest = max(map(len, prompts))
        ids = torch.tensor([(tokenizer.pad_token_id,) * (longest - len(prompt)) + prompt for prompt in prompts])
        with torch.autocast("cpu", torch.bfloat16):
            out = model.generate(
                ids, attention_mask=(ids != tokenizer.pad_token_id).long(), do_sample=True, top_k=0, max_new_tokens=128
            )
        for at, completion in enumerate(out[:, longest:]):
            text = tokenizer.decode(completion).split("<|im_end|>")[0]
            task = part[at // samples].task
            right[start + at // samples, at % samples] = parse(text).answer == task.test[0].output
    model.train()
    families = {
        family: float(right[[i for i, row in enumerate(rows) if row.task.family == family]].mean())
        for family in FAMILIES
    }
    return float(right.mean()), float(right.any(axis=1).mean()), families


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=weights, safe_serialization=True)
    config = json.loads((folder / "config.json").read_text())
    config["dtype"] = "bfloat16"
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer.save_pretrained(folder)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--steps", type=int, default=1800, help="of the learning rate's schedule")
    options.add_argument("--stop", type=int, default=500, help="the step to end at")
    options.add_argument("--rows", type=int, default=40_000)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--rate", type=float, default=3e-3)
    options.add_argument("--eval-every", type=int, default=250)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()

    tokenizer = build_tokenizer()
    renderer = Renderer(tokenizer, PromptSection())
    model = build_model(tokenizer, asked.seed)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    save(model, tokenizer, asked.out / "step-0")
    began = time.monotonic()
    rows = make_rows(tokenizer, renderer, solved_tasks(TRAIN_SEED, 0, asked.rows))
    unseen = make_rows(tokenizer, renderer, solved_tasks(UNSEEN_SEED, 0, 120))
    lengths = [len(row.ids) for row in rows]
    print(
        f"{len(rows)} rows in {time.monotonic() - began:.0f} s, {np.mean(lengths):.0f} tokens, {max(lengths)} at most"
    )
    optimizers = build_optimizers(model, asked.rate)
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(
            one, asked.rate, total_steps=asked.steps, pct_start=0.1, cycle_momentum=False
        )
        for one in optimizers
    ]
    feed = batches(rows, asked.batch, tokenizer.pad_token_id, random.Random(asked.seed))
    began = time.monotonic()
    for step in range(1, asked.stop + 1):
        ids, labels = next(feed)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss  # padded on the right: causal attention needs no mask
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in (*optimizers, *schedules):
            one.step()
        model.zero_grad()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.monotonic() - began) / step:.2f} s/step", flush=True)
        if step % asked.eval_every == 0:
            one, four, families = pass_rate(model, tokenizer, unseen, samples=4)
            print(f"step {step} pass@1 {one:.3f} pass@4 {four:.3f} {families}", flush=True)
            save(model, tokenizer, asked.out / f"step-{step}")


if __name__ == "__main__":
    main()
