"""GPUs: what of their memory a program can have, how fast it is read; by name, by size, or by what nvidia-smi says."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from arcslim.cards_ram import host_ram
from arcslim.errors import InputError

GIB = 1024**3
CPU = "cpu"
MOST_GIB = 512  # of one GPU: a larger number is a name, as 1080 or 4070
_OTHER_KINDS = ("ti", "super", "laptop", "mobile", "max", "nvl")


@dataclass(frozen=True)
class GpuCard:
    """A GPU. ``usable_gib``: what a program can have; ``bandwidth``: GB/s; ``bf16_tflops``: dense; ``capability``:
    CUDA's compute capability, as ``8.9``. None: not known."""

    name: str
    usable_gib: float
    aliases: tuple[str, ...] = ()
    memory_gb: float | None = None
    bandwidth: float | None = None
    bf16_tflops: float | None = None
    capability: str | None = None
    source: str = ""

    @property
    def usable_bytes(self) -> int:
        return int(self.usable_gib * GIB)

    @property
    def is_cpu(self) -> bool:
        return self.name == CPU


def read_facts(file: str, name: str) -> list[dict[str, Any]]:
    """The tables of this name in a file of facts beside this one; lists as tuples."""
    data = tomllib.loads(files("arcslim").joinpath(file).read_text(encoding="utf-8"))
    return [{key: tuple(v) if isinstance(v, list) else v for key, v in row.items()} for row in data[name]]


@cache
def gpu_cards() -> tuple[GpuCard, ...]:
    return tuple(GpuCard(**row) for row in read_facts("cards_gpus.toml", "gpu"))


def find_gpu(text: str) -> GpuCard:
    """A GPU by name, as ``4090``, ``A100-80`` or what nvidia-smi calls it, or by its memory in GiB, as ``24`` or
    ``24GiB``; ``cpu`` is none at all. Raises InputError, with the nearest known name."""
    wanted = re.sub(r"^(nvidia|geforce|rtx|tesla)+", "", re.sub(r"[\s_]+", "", text.strip().lower()))
    if wanted == CPU:
        return cpu_card()
    for card in gpu_cards():
        if wanted in card.aliases or wanted == re.sub(r"^rtx|\s+", "", card.name.lower()):
            return card
    size = re.fullmatch(r"(\d+(?:\.\d+)?)(gib|gb|g)?", wanted)
    if size and 0 < float(size[1]) <= MOST_GIB:
        return GpuCard(f"a card of {size[1]} GiB", float(size[1]))
    closest = gpus_named(text)
    if len(closest) == 1:
        return closest[0]
    known = _known_gpus(wanted)
    if closest:
        known = f"which of {', '.join(card.aliases[-1] for card in closest)}? {known}"
    raise InputError(f"unknown GPU {text!r}", known)


def gpus_named(text: str) -> list[GpuCard]:
    """The cards that a text such as nvidia-smi's ``NVIDIA A100-SXM4-80GB`` may mean: those that it names most closely,
    and of one name in two sizes that of the size it says. A variant that is no card here (``RTX 4080 SUPER``) is none.
    """
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    found: list[tuple[int, GpuCard]] = []
    for card in gpu_cards():
        own = [name for name in map(_words_of, (*card.aliases, card.name)) if name and name <= words]
        if own and not any(kind in words and kind not in card.name.lower() for kind in _OTHER_KINDS):
            found.append((max(map(len, own)), card))
    most = max((number for number, _ in found), default=0)
    closest = [card for number, card in found if number == most]
    sizes = {match[1] for word in words if (match := re.fullmatch(r"(\d+)gb?", word))}
    return [card for card in closest if f"{card.memory_gb:g}" in sizes] if sizes else closest


def _words_of(name: str) -> set[str]:
    """Of a card's name or alias the words that nvidia-smi would show: of ``A100 80GB`` it is ``a100``."""
    return {word for word in re.findall(r"[a-z0-9]+", name.lower()) if not re.fullmatch(r"\d+gb|40|80", word)}


def _known_gpus(wanted: str) -> str:
    aliases = [alias for card in gpu_cards() for alias in card.aliases]
    near = difflib.get_close_matches(wanted, aliases, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    firsts = ", ".join(card.aliases[0] for card in gpu_cards())
    return f"{guess}give its memory in GiB, as 24, or one of: {firsts}, {CPU}"


def gpu_named_in(text: str) -> GpuCard | None:
    """The GPU that a text names first, as a preset's "Made for" does; None where it names none."""
    found = [
        (match.start(), card)
        for card in gpu_cards()
        for alias in card.aliases
        if (match := re.search(rf"\b{re.escape(alias)}\b", text, re.IGNORECASE))
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def cpu_card() -> GpuCard:
    """No GPU: the RAM that this process may have is what there is."""
    ram = host_ram()
    return GpuCard(
        CPU, ram.total / GIB, source="the limit of its control group" if ram.limited else "this machine's RAM"
    )
