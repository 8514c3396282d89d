"""Memory of ``random:CARD`` in NF4: bytes held against planned, and the peak of the process while writing and loading.

    python -m benchmarks.random_weights                     # the table of docs/bench.md, of Qwen2.5-0.5B
    python -m benchmarks.random_weights Qwen2.5-1.5B --json

Linux alone says how much memory a process has held. Everything is measured in a fresh cache folder, after the libraries
are loaded and before the first forward pass without gradients, for which bitsandbytes may pack weights anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from arcslim.cards import find_model
from arcslim.memory.formulas import held_weights

SPARE = 300_000_000  # what the peak may have beside the finished model and one layer in 16 bits


def measured(name: str) -> dict[str, float]:
    """What one process sees; it must be a fresh one."""
    from arcslim.config import LoraSection, ModelSection
    from arcslim.policy.load import load_policy, start_unsloth

    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        start_unsloth(Path(folder))
        _libraries()
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM counts from here on
        section = ModelSection(name=f"random:{name}", max_seq_length=512)
        policy = load_policy(section, LoraSection(), seed=0, cache_dir=Path(folder), trainable=False)
        return {"peak": _status("VmHWM") - before} | _held(policy.model)


def _libraries() -> None:
    """All that loading a model imports, so that its memory is not counted as the model's."""
    import bitsandbytes  # noqa: F401
    import peft  # noqa: F401
    import safetensors.torch  # noqa: F401
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM  # noqa: F401


def _status(field: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(text.split(f"{field}:")[1].split()[0]) * 1024


def _held(model: Any) -> dict[str, float]:
    """Bytes of all tensors, each counted once; and what a forward pass gives, so that it is a model."""
    import torch

    held = {}
    for weight in model.parameters():
        state = getattr(weight, "quant_state", None)
        scales = (
            () if state is None else (state.absmax, state.code, state.state2.absmax, state.state2.code, state.offset)
        )
        for tensor in (weight.data, *scales):
            held[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
    with torch.no_grad():
        logits = model(input_ids=torch.arange(12)[None]).logits
    packed = sum(hasattr(weight, "quant_state") for weight in model.parameters())
    return {"held": sum(held.values()), "packed": packed, "spread": float(logits.std()), "width": logits.shape[-1]}


def in_a_fresh_process(name: str) -> dict[str, float]:
    """``measured``, with what was planned and the bound of the peak beside it."""
    line = [sys.executable, "-m", "benchmarks.random_weights", name, "--here"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    card = find_model(name)
    layer = 2 * sum(inputs * outputs for inputs, outputs in card.linear_shapes.values())
    planned = sum(held_weights(card, four_bit=True, value_bytes=4))
    return found | {"planned": planned, "bound": found["held"] + layer + SPARE}


def table(found: dict[str, float]) -> str:
    off = found["held"] / found["planned"] - 1
    rows = {
        "held, by all tensors": f"{found['held']:,.0f}",
        "planned": f"{found['planned']:,.0f} (held is {off:+.2%})",
        "peak of the process while writing and loading, above what it had before": f"{found['peak']:,.0f}",
        "the bound: held + one layer in 16 bits + 0.3 GB": f"{found['bound']:,.0f}",
    }
    return "\n".join(["| | bytes |", "| --- | ---: |", *(f"| {what} | {value} |" for what, value in rows.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("card", nargs="?", default="Qwen2.5-0.5B")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(measured(arguments.card)))
        return
    found = in_a_fresh_process(arguments.card)
    print(json.dumps(found) if arguments.json else table(found))


if __name__ == "__main__":
    main()
