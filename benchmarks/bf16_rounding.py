"""How far AdamW moves weights that are held in bf16, as a share of how far it moves the same weights in fp32.

Weights of standard deviation 0.02, gradients of noise with a steady part. It is what full fine-tuning of a bf16 model
meets; an adapter is held in fp32. Simulated: no model, no data. Half a minute on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

RATES = (1e-5, 4e-5, 1e-4)


def moved(rate: float, *, weights: int = 200_000, steps: int = 100, seed: int = 0) -> float:
    """The sum of all ways in bf16, over that in fp32."""
    import torch

    source = torch.Generator().manual_seed(seed)
    start = (torch.randn(weights, generator=source) * 0.02).to(torch.bfloat16)
    steady = 0.3 * torch.randn(weights, generator=source)
    ways = []
    for kind in (torch.bfloat16, torch.float32):
        parameter = torch.nn.Parameter(start.to(kind, copy=True))
        adamw = torch.optim.AdamW([parameter], lr=rate, weight_decay=0.0)
        noise = torch.Generator().manual_seed(seed + 1)
        for _ in range(steps):
            parameter.grad = (steady + torch.randn(weights, generator=noise)).to(kind)
            adamw.step()
        ways.append(float((parameter.detach().float() - start.float()).abs().sum()))
    return ways[0] / ways[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "bf16_rounding.json")
    place = parser.parse_args().out
    figures = {f"{rate:g}": round(moved(rate), 3) for rate in RATES}
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for rate, share in figures.items():
        print(f"rate {rate}: bf16 weights move {share:.1%} of what fp32 weights do")


if __name__ == "__main__":
    main()
