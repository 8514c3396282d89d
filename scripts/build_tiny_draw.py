"""Makes the embedded model `tiny-draw`: a Qwen3 of about a million parameters that reads drawings back into programs.

    python scripts/build_tiny_draw.py --out build/tiny-draw

Seeded. It is trained from nothing on random drawings (``arcslim/tasks/random_drawings.py``: sides 3 to 10, one to five
calls, an input of one colour), with the loss on the program alone; a drawing is never seen twice. It is what
`arcslim her` starts from where there is no larger model. Every ``--eval-every`` steps it prints pass@1 and pass@8 on
unseen drawings, sampled at temperature 0.5, and saves a candidate (``docs/log.md``).

Its tokenizer has a token for each piece of a call between two numbers, and for each number with what follows it: a line
of a program is three to six tokens, and a coordinate is another token than a cell of the same digit.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from build_tiny import SPECIAL, build_optimizers, save, wrapped
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from arcslim.prompts.drawing import compact_text
from arcslim.tasks.drawing import DrawingRefused
from arcslim.tasks.drawing_choice import Drawing, same_image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.random_drawings import drawing_at

TRAIN_SEED, UNSEEN_SEED = 1, 2
LARGEST = 29  # the last row and column of the largest grid
HEADS = (
    "def task(img):\n",
    "    return img\n",
    "    img = create_img(shape=(",
    "    img = draw_line(img, point1=(",
    "    img = draw_rectangle(img, point1=(",
    "    img = draw_horizontal_line(img, y=",
    "    img = draw_vertical_line(img, x=",
    "    img = draw_pixel(img, point=(",
    "input ", "\noutput ", " all ",
)  # fmt: skip


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, so that any text encodes, and the pieces of programs and images as tokens of their own."""
    letters = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    numbers = range(LARGEST + 1)
    pieces = [*HEADS, *(f"{n}, " for n in numbers), *(f"{n}), point2=(" for n in numbers)]
    pieces += [*(f"{n}), color=" for n in numbers), *(f"{n}, color=" for n in numbers)]
    pieces += [*(f"{n})\n" for n in range(10)), *(f"\n{n} " for n in numbers)]
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in pieces])
    return wrapped(tokenizer)


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int, hidden: int, layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = [end, tokenizer.convert_tokens_to_ids("<|endoftext|>")]
    return model


def batches(
    tokenizer: PreTrainedTokenizerFast, size: int, max_draws: int, at_once: int = 16
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(ids, labels), each (size, longest), rows of similar length together, new drawings for ever."""
    start = 0
    rng = random.Random(TRAIN_SEED)
    while True:
        drawings = [drawing_at(TRAIN_SEED, start + i, max_draws=max_draws) for i in range(size * at_once)]
        start += size * at_once
        assert all(drawing.input is not None for drawing in drawings)
        prompts = tokenizer([compact_text(d.input, d.output) for d in drawings])["input_ids"]  # type: ignore[arg-type]
        programs = tokenizer([d.program.to_source() for d in drawings])["input_ids"]
        rows = [(p, [*c, tokenizer.eos_token_id]) for p, c in zip(prompts, programs, strict=True)]
        rows.sort(key=lambda row: len(row[0]) + len(row[1]))
        groups = [rows[i : i + size] for i in range(0, len(rows), size)]
        rng.shuffle(groups)
        for group in groups:
            longest = max(len(prompt) + len(program) for prompt, program in group)
            ids = torch.full((size, longest), tokenizer.pad_token_id)
            labels = torch.full((size, longest), -100)
            for at, (prompt, program) in enumerate(group):
                ids[at, : len(prompt) + len(program)] = torch.tensor(prompt + program)
                labels[at, len(prompt) : len(prompt) + len(program)] = torch.tensor(program)
            yield ids, labels


@torch.no_grad()
def pass_rate(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, drawings: list[Drawing], samples: int
) -> tuple[float, float]:
    """Share of samples that draw the image, and share of images drawn at least once, at temperature 0.5."""
    model.eval()
    right = np.zeros((len(drawings), samples), dtype=bool)
    for start in range(0, len(drawings), 25):
        some = drawings[start : start + 25]
        prompts = tokenizer([compact_text(d.input, d.output) for d in some], padding=True, return_tensors="pt")  # type: ignore[arg-type]
        with torch.autocast("cpu", torch.bfloat16):
            out = model.generate(
                prompts["input_ids"], attention_mask=prompts["attention_mask"], do_sample=True, temperature=0.5,
                top_k=0, top_p=0.95, max_new_tokens=64, num_return_sequences=samples,
            )  # fmt: skip
        width = prompts["input_ids"].shape[1]
        for at, tokens in enumerate(out[:, width:].tolist()):
            text = tokenizer.decode(tokens).partition("<|im_end|>")[0]
            drawing = some[at // samples]
            try:
                image = parse_program(text).run(drawing.input)
            except DrawingRefused:
                continue
            right[start + at // samples, at % samples] = same_image(image, drawing.output)
    model.train()
    return float(right.mean()), float(right.any(axis=1).mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--steps", type=int, default=4500)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--rate", type=float, default=4e-3)
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--layers", type=int, default=5)
    options.add_argument("--max-draws", type=int, default=5)
    options.add_argument("--eval-every", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()

    tokenizer = build_tokenizer()
    model = build_model(tokenizer, asked.seed, asked.hidden, asked.layers)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens", flush=True)
    unseen = [drawing_at(UNSEEN_SEED, i) for i in range(100)]
    optimizers = build_optimizers(model, asked.rate)
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(
            one, asked.rate, total_steps=asked.steps, pct_start=0.05, cycle_momentum=False
        )
        for one in optimizers
    ]
    feed = batches(tokenizer, asked.batch, asked.max_draws)
    began, losses = time.monotonic(), []
    for step in range(1, asked.steps + 1):
        ids, labels = next(feed)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss  # padded on the right: causal attention needs no mask
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in (*optimizers, *schedules):
            one.step()
        model.zero_grad()
        losses.append(loss.item())
        if step % 50 == 0:
            took = (time.monotonic() - began) / step
            print(f"step {step} loss {np.mean(losses[-50:]):.4f} {took:.2f} s/step", flush=True)
        if step % asked.eval_every == 0 or step == asked.steps:
            one_right, any_right = pass_rate(model, tokenizer, unseen, samples=8)
            print(f"step {step} pass@1 {one_right:.3f} pass@8 {any_right:.3f}", flush=True)
            save(model, tokenizer, asked.out / f"step-{step}")


if __name__ == "__main__":
    main()
