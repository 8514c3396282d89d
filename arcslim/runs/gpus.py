"""The GPUs of this machine by ``nvidia-smi``, and the one that a run will use; torch is not needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from arcslim.cards import GpuCard, gpus_named
from arcslim.runs.asking import output_of

GPU_FIELDS = (
    "name", "memory.total", "driver_version", "compute_cap", "power.limit", "memory.used", "uuid", "mig.mode.current",
)  # fmt: skip
# Of what nvidia-smi calls a card's memory PyTorch can have a little less: 1.5% on a 4090, 0.6% on an H100.
USABLE_SHARE = 0.985


def gpu_list() -> tuple[list[dict[str, str]] | None, str | None]:
    """The NVIDIA cards by ``nvidia-smi``, one dict of ``GPU_FIELDS`` each; None and the reason where it gives none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader"]
    text, reason = output_of(command)
    if text is None:
        return None, reason
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    cards = [dict(zip(GPU_FIELDS, row, strict=True)) for row in rows if len(row) == len(GPU_FIELDS)]
    return (cards, None) if cards else (None, f"nvidia-smi lists no card: {text.strip()[:200]}")


def used_gpu(
    cards: Sequence[Mapping[str, str]], variables: Mapping[str, str] | None = None
) -> tuple[Mapping[str, str] | None, str | None]:
    """The card that CUDA will number 0; None where it is hidden or not known, and then why.

    Cards are counted as nvidia-smi counts them. CUDA counts the fastest first unless CUDA_DEVICE_ORDER says otherwise,
    which is told apart only where cards differ.
    """
    variables = os.environ if variables is None else variables
    wanted = variables.get("CUDA_VISIBLE_DEVICES")
    found: Mapping[str, str] | None = None
    if wanted is None:
        mixed = len({card["name"] for card in cards}) > 1 and variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
        if mixed:
            return None, (
                "there are several kinds of card: choose one with CUDA_DEVICE_ORDER=PCI_BUS_ID and CUDA_VISIBLE_DEVICES"
            )
        found = cards[0]
    else:
        first = wanted.split(",")[0].strip()
        if first.isdigit():
            found = cards[int(first)] if int(first) < len(cards) else None
        else:
            named = [card for card in cards if first.startswith("GPU-") and card["uuid"].startswith(first)]
            found = named[0] if len(named) == 1 else None
    if found is None:
        return None, f"CUDA_VISIBLE_DEVICES={wanted} leaves no card that nvidia-smi lists"
    if found["mig.mode.current"] == "Enabled":
        return None, f"the {found['name']} is split (MIG), and how large its part is is not known here"
    return found, None


def mebibytes(text: str) -> float | None:
    """``24564 MiB``; None for what is no number (``[N/A]``)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*MiB", text.strip())
    return float(match[1]) if match else None


def card_of(gpu: Mapping[str, str]) -> GpuCard | None:
    """A card with what can be used of its memory; a known one with its bandwidth.

    None where nvidia-smi does not say how much memory it has.
    """
    total = mebibytes(gpu["memory.total"])
    if total is None:
        return None
    gib = total / 1024
    fitting = [known for known in gpus_named(gpu["name"]) if 0.95 * gib <= known.usable_gib <= gib]
    if fitting:
        return fitting[0]
    return GpuCard(gpu["name"], gib * USABLE_SHARE, source="nvidia-smi")
