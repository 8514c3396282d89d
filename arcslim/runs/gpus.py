"""The GPUs of this machine by ``nvidia-smi``, and the one that a run will use; torch is not needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from arcslim.cards import GpuCard, gpu_cards
from arcslim.runs.asking import output_of

GPU_FIELDS = (
    "name", "memory.total", "driver_version", "compute_cap", "power.limit", "memory.used", "uuid", "mig.mode.current",
)  # fmt: skip
# Of what nvidia-smi calls a card's memory PyTorch can have a little less: 1.5% on a 4090, 0.6% on an H100.
USABLE_SHARE = 0.985
_OTHER_KINDS = ("ti", "super", "laptop", "mobile", "max", "nvl")


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
    words = set(re.findall(r"[a-z0-9]+", gpu["name"].lower()))
    best, most = None, 0
    for known in gpu_cards():
        names = [own for own in map(_words, (*known.aliases, known.name)) if own <= words]
        other = any(kind in words and kind not in known.name.lower() for kind in _OTHER_KINDS)
        fitting = not other and 0.95 * gib <= known.usable_gib <= gib
        if fitting and names and max(map(len, names)) > most:  # the one that is named most closely
            best, most = known, max(map(len, names))
    if best is not None:
        return best
    return GpuCard(gpu["name"], gib * USABLE_SHARE, source="nvidia-smi")


def _words(name: str) -> set[str]:
    """Of a card's name or alias the words that nvidia-smi would show: of ``A100 80GB`` it is ``a100``."""
    return {word for word in re.findall(r"[a-z0-9]+", name.lower()) if not re.fullmatch(r"\d+gb|40|80", word)}
