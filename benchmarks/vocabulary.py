"""What a larger vocabulary costs an SFT step, in peak host memory: the loss must not hold all logits at once.

    python -m benchmarks.vocabulary            # V and 8 V, each in a process of its own; prints JSON

A random Qwen3 of two narrow layers, so that logits would be nearly all of its memory: tokens x vocabulary x 4 bytes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VOCABULARY, TIMES, ROWS, LENGTH, HIDDEN = 4096, 8, 16, 256, 64


def one_step(vocabulary: int) -> dict[str, float]:
    """Peak bytes that one SFT step adds to the process, the model and its optimizer states being there before."""
    from arcslim.policy.load import start_unsloth

    with tempfile.TemporaryDirectory() as folder:
        start_unsloth(Path(folder))
        import torch
        from datasets import Dataset
        from transformers import Qwen3Config, Qwen3ForCausalLM
        from trl import SFTConfig, SFTTrainer

        from arcslim.policy.load import load_tokenizer
        from arcslim.recipes.sft import collator

        torch.manual_seed(0)
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=128, num_hidden_layers=2,
                num_attention_heads=2, num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
            )
        )  # fmt: skip
        loaded = load_tokenizer("tiny")
        assert loaded is not None
        ids = torch.randint(0, vocabulary, (ROWS, LENGTH)).tolist()
        trainer = SFTTrainer(
            model=model,
            processing_class=loaded.tokenizer,
            args=SFTConfig(
                output_dir=folder, max_steps=1, per_device_train_batch_size=ROWS, report_to="none", use_cpu=True,
                dataset_kwargs={"skip_prepare_dataset": True}, max_length=LENGTH, save_strategy="no", bf16=False,
                disable_tqdm=True, gradient_checkpointing=False, padding_free=False, packing=False,
            ),
            train_dataset=Dataset.from_dict({"input_ids": ids, "labels": ids}),
            data_collator=collator(loaded.tokenizer),
        )  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        trainer.train()
        return {"before": float(before), "peak": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)}


def measure() -> dict[str, Any]:
    """Both vocabularies; ``grown`` bytes against what the logits alone would have grown by."""
    steps = {}
    for vocabulary in (VOCABULARY, VOCABULARY * TIMES):
        command = [sys.executable, "-m", "benchmarks.vocabulary", str(vocabulary)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        steps[vocabulary] = json.loads(done.stdout.splitlines()[-1])
    small, large = (step["peak"] - step["before"] for step in steps.values())
    return {
        "tokens": ROWS * LENGTH,
        "vocabularies": [VOCABULARY, VOCABULARY * TIMES],
        "step_bytes": [small, large],
        "grown": large - small,
        "embedding_grown": VOCABULARY * (TIMES - 1) * HIDDEN * 4,
        "logits_would_grow": ROWS * LENGTH * VOCABULARY * (TIMES - 1) * 4,
    }


if __name__ == "__main__":
    print(json.dumps(one_step(int(sys.argv[1])) if len(sys.argv) > 1 else measure()))
