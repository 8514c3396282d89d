"""Smaller models of the same family, and of the same kind: Instruct, Coder, base, or distilled from R1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from arcslim.cards import RANDOM, ModelCard, model_cards
from arcslim.memory.packing import DYNAMIC, copies, packing_of, plain_copy
from arcslim.memory.setup import Request

PACKED = "-bnb-4bit"
_SIZE = re.compile(r"\d+(\.\d+)?[bm]")


def smaller_siblings(request: Request) -> Iterator[tuple[Request, str]]:
    """The request with each smaller model of its family, the largest first, and what to type for ``--model``."""
    card = request.card
    family = [one for one in model_cards() if one.family == card.family and one.parameters < card.parameters]
    for sibling in sorted(family if card.family else [], key=lambda one: -one.parameters):
        name = sibling_id(request.setup.model_name, sibling)
        packing = packing_of(sibling, name, on_gpu=not request.gpu.is_cpu)
        yield replace(request, card=sibling, packing=packing), name


def sibling_id(name: str, sibling: ModelCard) -> str:
    """The id of ``sibling`` whose name differs least from ``name`` but for its size; in the same form: random values,
    or the copy that is packed throughout.

    Where a name says nothing (a folder's), it is taken for one that follows instructions.
    """
    if name.startswith(RANDOM):
        return f"{RANDOM}{sibling.name}"
    wanted = _words(name)
    if not any(wanted & _words(one) for one in sibling.ids):
        wanted = {"instruct"}
    nearest = min(sibling.ids, key=lambda one: len(_words(one) ^ wanted))
    if not name.lower().endswith(PACKED) or name.lower().endswith(DYNAMIC):
        return nearest
    return next((plain_copy(copy.name) for copy in copies() if nearest in copy.of), nearest)


def _words(name: str) -> set[str]:
    """Of ``unsloth/Qwen2.5-7B-Instruct-bnb-4bit`` they are ``qwen2.5`` and ``instruct``."""
    leaf = name.lower().rpartition("/")[2].removesuffix(DYNAMIC).removesuffix(PACKED)
    return {word for word in leaf.split("-") if not _SIZE.fullmatch(word)}
