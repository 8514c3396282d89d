"""The SFT study behind ``docs/log.md``: packing against none, and learning rates, on the embedded model.

    python benchmarks/sft_study.py --all --jobs 2
    python benchmarks/sft_study.py --cell lora-none-4e-4-0
    python benchmarks/sft_study.py --report

Unsloth's CPU backend turns packing off, so this runs on the plain backend: stock transformers and PEFT, TRL's packing
and collator, in fp32, a process of one thread a cell. (TRL's own SFTTrainer has a Triton kernel for its loss, which a
CPU cannot run.) Every cell trains on the same verified traces (RE-ARC tasks of the preset `cpu`,
honest thinking, the answer held against the truth), 32 rows an update, 40 updates. With packing the 32 rows of an
update are packed among themselves: so each update has the same rows as without, and what differs is what a row can
see. Equal tokens an update, as a packed trainer has it, would change how many rows an update averages over as well.

A cell is done when ``benchmarks/results/sft/CELL.json`` is there; calling the script again does what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from arcslim.runs.writing import write_json_atomic

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "sft"
SEEDS = (0, 1, 2)
PACK = (
    512  # tokens of a packed sequence: what the tiny model was made on; at 2,048 its positions alone cost it 2.8 nats
)
UPDATES, ROWS = 40, 32
LORA_RATES, FULL_RATES = ("2e-5", "4e-5", "1e-4", "2e-4", "4e-4"), ("1e-5", "2e-5", "4e-5", "8e-5")
PACKING_RATE = "4e-4"
SETS = ("data.tasks=640", "data.holdout_select=200", "data.holdout_test=0", "data.holdout_families=[]",
        "data.holdout_arc1=0", "run.eval_samples=2")  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """``what``: ``lora`` or ``full``; ``packing``: ``none``, ``bfd`` or ``wrapped``."""

    what: str
    packing: str
    rate: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.what}-{self.packing}-{self.rate}-{self.seed}"


def whole_grid() -> list[Cell]:
    """Packing first: the claim rests on it. Its cells without packing are those of the learning rate as well."""
    cells = [Cell("lora", packing, PACKING_RATE, seed) for seed in SEEDS for packing in ("none", "wrapped", "bfd")]
    for seed in SEEDS:
        cells += [Cell("lora", "none", rate, seed) for rate in LORA_RATES if rate != PACKING_RATE]
        cells += [Cell("full", "none", rate, seed) for rate in FULL_RATES]
    return cells


# One cell -----------------------------------------------------------------------------------------------------------


def run_cell(cell: Cell) -> dict[str, Any]:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, GenerationConfig, Trainer, TrainingArguments

    from arcslim.config import LORA_TARGETS
    from arcslim.policy.load import Policy, load_tokenizer
    from arcslim.policy.sources import resolve
    from arcslim.presets import load_config
    from arcslim.recipes.evaluate import evaluate
    from arcslim.recipes.sft_loss import HeldLoss
    from arcslim.recipes.sft_order import in_order
    from arcslim.recipes.sft_prepare import prepare_sft

    torch.set_num_threads(1)
    torch.manual_seed(cell.seed)
    config = load_config("cpu", [*SETS, f"run.seed={cell.seed}", f"sft.max_steps={UPDATES}", f"sft.batch_size={ROWS}"])
    config = config.config
    loaded = load_tokenizer("tiny")
    assert loaded is not None
    tokenizer = loaded.tokenizer
    data = prepare_sft(config, tokenizer)
    order = in_order([len(row) for row in data.train], config.sft, seed=cell.seed)
    model: Any = AutoModelForCausalLM.from_pretrained(resolve("tiny").name, dtype=torch.float32)
    model.generation_config = GenerationConfig(
        eos_token_id=list(loaded.end_token_ids), pad_token_id=int(tokenizer.pad_token_id)
    )
    if cell.what == "lora":
        model = get_peft_model(model, LoraConfig(r=32, lora_alpha=32, target_modules=list(LORA_TARGETS)))
    examples, an_update = examples_of(cell.packing, [data.train[index] for index in order])
    trainer = Trainer(
        model=model,
        processing_class=tokenizer,
        args=TrainingArguments(
            output_dir="unused", remove_unused_columns=False, report_to="none",
            per_device_train_batch_size=an_update if cell.packing == "none" else 1, max_steps=UPDATES, use_cpu=True,
            gradient_accumulation_steps=1 if cell.packing == "none" else an_update, learning_rate=float(cell.rate),
            lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs={"min_lr_rate": 0.1}, warmup_steps=0.03,
            max_grad_norm=0.2, train_sampling_strategy="sequential", save_strategy="no", logging_steps=1, bf16=False,
            disable_tqdm=True, gradient_checkpointing=False, seed=cell.seed, optim="adamw_torch",
        ),
        train_dataset=examples,
        data_collator=collator(tokenizer, packed=cell.packing == "bfd"),
    )  # fmt: skip
    policy = Policy(model, tokenizer, loaded.end_token_ids, (), "cpu")
    held = HeldLoss(trainer, data.held, collator(tokenizer, packed=False), ROWS, _Never())

    def look() -> dict[str, float]:
        found = evaluate(policy, data.asked["select"], config.generation, samples=2, batch=128, seed=cell.seed + 1)
        return found.values | held()

    before = look()
    began, cpu = time.monotonic(), time.process_time()
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {
        "cell": cell.__dict__,
        "start": before,
        "training_loss": losses,
        "wall_seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu,
        "end": look(),
        "trained_tokens": sum(data.train[index].trained for index in order),
        "sequences_an_update": an_update,
        "machine": f"{platform.machine()}, one thread, no GPU",
    }


class _Never:
    requested = False

    def check(self) -> None:
        pass


def collator(tokenizer: Any, *, packed: bool) -> Any:
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return DataCollatorForLanguageModeling(pad_token_id=int(tokenizer.pad_token_id), padding_free=packed)


def examples_of(packing: str, rows: Sequence[Any]) -> tuple[Any, int]:
    """The dataset, and how many of its sequences make an update of ``ROWS`` rows.

    Updates differ in how many packed sequences they need: those with fewer are filled up by a sequence of two tokens
    without loss, which adds nothing to the gradient.
    """
    from datasets import Dataset
    from trl import pack_dataset

    from arcslim.recipes.sft_rows import to_dataset

    if packing == "none":
        return to_dataset(rows), ROWS
    updates = []
    for start in range(0, len(rows), ROWS):
        packed = pack_dataset(to_dataset(rows[start : start + ROWS]), PACK, packing)
        updates.append(packed.to_list())
    most = max(len(update) for update in updates)
    filler = {"input_ids": [0, 0], "labels": [-100, -100]} | ({"seq_lengths": [2]} if packing == "bfd" else {})
    return Dataset.from_list([one for update in updates for one in [*update, *[filler] * (most - len(update))]]), most


# The grid -----------------------------------------------------------------------------------------------------------


def record(cell: Cell) -> Path:
    return RESULTS / f"{cell.name}.json"


def run_apart(cell: Cell) -> None:
    """A cell in a process of its own, unless it is done."""
    if record(cell).exists():
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "benchmarks.sft_study", "--cell", cell.name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(cell.name, "done" if done.returncode == 0 else f"failed:\n{done.stderr[-1500:]}", flush=True)


def report() -> None:
    """Tables of mean and standard deviation over the seeds."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for cell in whole_grid():
        if record(cell).exists():
            found = json.loads(record(cell).read_text(encoding="utf-8"))
            groups.setdefault((cell.what, cell.packing, cell.rate), []).append(found)
    print(
        "| what | packing | rate | seeds | pass@1 | held-out loss | thinking | CPU s |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for (what, packing, rate), cells in groups.items():

        def both(name: str, form: str, cells: list[dict[str, Any]] = cells) -> str:
            start = mean(one["start"][name] for one in cells)
            ends = [one["end"][name] for one in cells]
            spread = f" ± {format(stdev(ends), form)}" if len(ends) > 1 else ""
            return f"{format(start, form)} → {format(mean(ends), form)}{spread}"

        seconds = mean(one["cpu_seconds"] for one in cells)
        print(
            f"| {what} | {packing} | {rate} | {len(cells)} | {both('eval/pass@1', '.1%')} | "
            f"{both('eval/loss', '.4f')} | {both('eval/thinking_tokens_mean', '.1f')} | {seconds:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="do every cell that is not done")
    parser.add_argument("--jobs", type=int, default=1, help="cells at once")
    parser.add_argument("--cell", help="do this one, in this process")
    parser.add_argument("--report", action="store_true", help="print the tables")
    options = parser.parse_args()
    cells = {cell.name: cell for cell in whole_grid()}
    if options.cell:
        if options.cell not in cells:
            parser.error(f"no cell {options.cell}; known: {', '.join(cells)}")
        write_json_atomic(record(cells[options.cell]), run_cell(cells[options.cell]))
    if options.all:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run_apart, cells.values()))
    if options.report:
        report()


if __name__ == "__main__":
    main()
