"""What torch and what builds on it can do on this machine, tried for real. `arcslim doctor` runs it as a process of its
own: what is broken may not only raise, it may end the process.

``python -m arcslim.policy.probe`` prints a line of JSON as it begins a part, and one with what it found.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def torch_facts() -> Facts:
    import torch

    facts: Facts = {
        "version": torch.__version__, "cuda": torch.version.cuda, "available": torch.cuda.is_available(),
    }  # fmt: skip
    if facts["available"]:
        free, total = torch.cuda.mem_get_info(0)
        capability = torch.cuda.get_device_capability(0)
        facts |= {
            "name": torch.cuda.get_device_name(0), "free_bytes": free, "total_bytes": total,
            "capability": list(capability), "bf16": torch.cuda.is_bf16_supported(),
        }  # fmt: skip
    elif facts["cuda"] is not None:
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (RuntimeError, AssertionError) as error:
            facts["error"] = str(error).strip().partition("\n")[0]
    return facts


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def bitsandbytes_facts() -> Facts:
    """A 4-bit layer forward and backward, held against the same layer with its weights unpacked."""
    import bitsandbytes as bnb
    import torch
    from bitsandbytes import cextension

    library, device = cextension.lib, _device()
    facts: Facts = {"version": bnb.__version__, "device": device}
    facts["native"] = not type(library).__name__.startswith("ErrorHandler")
    facts["built_with_cuda"] = bool(getattr(library, "compiled_with_cuda", False))
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    layer = bnb.nn.Linear4bit(128, 64, bias=False, compute_dtype=dtype, quant_type="nf4")
    weight = torch.randn(64, 128)
    layer.weight = bnb.nn.Params4bit(weight, requires_grad=False, quant_type="nf4")
    layer = layer.to(device)
    asked = torch.randn(8, 128, device=device, dtype=dtype, requires_grad=True)
    answer = layer(asked)
    answer.sum().backward()
    plain = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state).float()
    wanted, slope = asked.detach().float() @ plain.t(), plain.sum(0).expand(8, -1)
    assert asked.grad is not None
    facts["forward_error"] = _relative(answer.detach().float(), wanted)
    facts["backward_error"] = _relative(asked.grad.float(), slope)
    facts["packing_error"] = _relative(plain.cpu(), weight)
    return facts


def _relative(found: Any, wanted: Any) -> float:
    return float((found - wanted).norm() / wanted.norm())


def xformers_facts() -> Facts:
    if importlib.util.find_spec("xformers") is None:
        return {"installed": False}
    import torch
    import xformers
    from xformers import _cpp_lib
    from xformers.ops import fmha

    error = getattr(_cpp_lib, "_cpp_library_load_exception", None)
    facts: Facts = {"installed": True, "version": xformers.__version__, "own_extension": error is None}
    metadata = Path(xformers.__file__).parent / "cpp_lib.json"
    facts["built_for"] = json.loads(metadata.read_text())["version"]["torch"] if metadata.is_file() else None
    facts["operators"] = [
        operator.NAME for operator in fmha.ALL_FW_OPS if operator.is_available() and "triton" not in operator.NAME
    ]
    if torch.cuda.is_available():
        query = torch.randn(1, 32, 4, 64, device="cuda", dtype=torch.float16)
        ours = fmha.memory_efficient_attention(query, query, query)
        turned = query.transpose(1, 2)
        theirs = torch.nn.functional.scaled_dot_product_attention(turned, turned, turned).transpose(1, 2)
        facts["attention_error"] = _relative(ours.float(), theirs.float())
    return facts


def triton_facts() -> Facts:
    if importlib.util.find_spec("triton") is None:
        return {"installed": False}
    import triton

    facts: Facts = {"installed": True, "version": triton.__version__}
    if _device() == "cuda":
        from arcslim.policy.probe_kernel import adds

        facts["kernel"] = adds("cuda")
    return facts


def flash_facts() -> Facts:
    if importlib.util.find_spec("flash_attn") is None:
        return {"installed": False}
    import flash_attn

    return {"installed": True, "version": flash_attn.__version__}


PARTS: dict[str, Callable[[], Facts]] = {
    "torch": torch_facts,
    "bitsandbytes": bitsandbytes_facts,
    "xformers": xformers_facts,
    "triton": triton_facts,
    "flash_attn": flash_facts,
}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print, in Python or in C, is no JSON
    for name, part in PARTS.items():
        print(json.dumps({"part": name}), file=out, flush=True)
        try:
            found = part()
        except Exception as error:  # noqa: BLE001 - a broken installation raises anything; it is what is asked about
            said = str(error).strip().partition("\n")[0]
            found = {"error": f"{type(error).__name__}: {said}"}
        print(json.dumps({"part": name, "found": found}), file=out, flush=True)


if __name__ == "__main__":
    main()
