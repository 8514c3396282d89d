"""Which of the layers' linear maps stay in 16 bits although 4 bits are asked for.

On a GPU Unsloth does not pack a known model itself: it loads a copy of its own from the hub, and most of these copies
keep some maps in 16 bits. A 7B is 7.5 or 8.5 GB then, and not 5.55. What is known of each copy stands in
``cards_packed.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from arcslim.cards import RANDOM, ModelCard, find_model_card
from arcslim.cards_gpus import read_facts
from arcslim.memory.formulas import nf4

GB = 10**9
DYNAMIC = "-unsloth-bnb-4bit"
_GROUPS = {"q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn"}


@dataclass(frozen=True)
class Packing:
    """Weights of linear maps that are kept in 16 bits: ``kept``, and at most ``most`` where that is an estimate.

    ``copy``: what is loaded in the model's place, None where it is the model itself. ``why``: how it is known.
    """

    kept: int = 0
    most: int = 0
    copy: str | None = None
    why: str = ""


ALL_PACKED = Packing()


@dataclass(frozen=True)
class Copy:
    """A packed copy on the hub, as ``cards_packed.toml`` has it."""

    name: str
    of: tuple[str, ...]
    card: str | None = None
    gb: float | None = None
    kept: tuple[str, ...] | None = None
    source: str = ""

    @property
    def model(self) -> ModelCard:
        card = find_model_card(self.card or self.of[0])
        assert card is not None, self.name
        return card

    @property
    def weights(self) -> int | None:
        """Weights that it keeps in 16 bits; None where nothing was found about it."""
        if self.kept is not None:
            return kept_weights(self.model, self.kept)
        return None if self.gb is None else weights_of_size(self.model, self.gb * GB)


@cache
def copies() -> tuple[Copy, ...]:
    return tuple(Copy(**row) for row in read_facts("cards_packed.toml", "copy"))


def weights_of_size(card: ModelCard, size: float) -> int:
    """Weights in 16 bits of a copy whose files have ``size`` bytes: what is beyond NF4, at 2 - 0.516 B each."""
    all_packed = nf4(card.linear_parameters) + 2 * (card.parameters - card.linear_parameters)
    return max(0, round((size - all_packed) / (2 - nf4(1))))


def kept_weights(card: ModelCard, skipped: Iterable[str]) -> int:
    """Weights of the linear maps that ``llm_int8_skip_modules`` names, by transformers' rule: a pattern that the map's
    name begins with, or its end."""
    patterns = tuple(skipped)
    total = 0
    for layer in range(card.num_hidden_layers):
        for name, (inputs, outputs) in card.linear_shapes.items():
            full = f"model.layers.{layer}.{_GROUPS.get(name, 'mlp')}.{name}"
            if any(re.match(pattern, full) or full.endswith(pattern) for pattern in patterns):
                total += inputs * outputs
    return total


def copy_of(name: str) -> str | None:
    """The dynamic copy that Unsloth loads on a GPU for ``name`` in 4 bits; None where it loads or makes plain NF4."""
    if name.startswith(RANDOM):
        return None
    wanted = name.lower()
    for copy in copies():
        ids = {one.lower() for one in (copy.name, *copy.of)}
        leaves = set(map(_leaf, ids))
        if wanted in ids or wanted in leaves or (wanted.startswith("unsloth/") and _leaf(wanted) in leaves):
            return copy.name
    return name if wanted.endswith(DYNAMIC) else None


def plain_copy(name: str) -> str:
    """The copy beside a dynamic one that is packed throughout."""
    return name.removesuffix(DYNAMIC) + "-bnb-4bit"


def packing_of(card: ModelCard, name: str, *, on_gpu: bool) -> Packing:
    """What of ``card`` stays in 16 bits where ``name`` is loaded in 4 bits, by what is known without a network.

    A folder's config.json says it (``card.skipped``). Of a copy of which nothing was found, the largest share that a
    copy of the same shapes keeps is taken, else of the same family, and ``most`` is the largest share of any copy.
    """
    if card.skipped is not None:
        kept = kept_weights(card, card.skipped)
        return Packing(kept, kept, None, "by its config.json")
    copy = copy_of(name)
    if copy is None or not (on_gpu or name.lower().endswith(DYNAMIC)):
        return ALL_PACKED
    known = next((one for one in copies() if one.name == copy), None)
    if known is not None and known.weights is not None:
        how = (
            "by the list of its modules"
            if known.kept is not None
            else f"by its files' size on the hub, {known.gb:g} GB"
        )
        return Packing(known.weights, known.weights, copy, how)
    share, whose = _nearest_share(card)
    most = max(one for one, _ in _known_shares())
    linear = card.linear_parameters
    return Packing(round(share * linear), round(most * linear), copy, f"estimated: as {whose}")


def packing_by_list(card: ModelCard, copy: str, skipped: Iterable[str]) -> Packing:
    """By the list in the config.json of the copy that will be loaded."""
    kept = kept_weights(card, skipped)
    return Packing(kept, kept, copy, "by its config.json in the hub's cache")


def _known_shares() -> list[tuple[float, Copy]]:
    return [(one.weights / one.model.linear_parameters, one) for one in copies() if one.weights is not None]


def _nearest_share(card: ModelCard) -> tuple[float, str]:
    known = _known_shares()
    same = [(share, one) for share, one in known if one.model.name == card.name]
    family = [(share, one) for share, one in known if one.model.family == card.family]
    share, copy = max(same or family or known, key=lambda pair: pair[0])
    return share, copy.name


def _leaf(name: str) -> str:
    return name.lower().rpartition("/")[2]
