"""Cards: the facts of models (shapes) and of GPUs (memory, bandwidth), for planning without a download or a GPU.

The facts lie beside this file, in ``cards_models.toml`` and ``cards_gpus.toml``, each with its source; what there is to
GPUs stands in ``cards_gpus.py``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from arcslim.cards_gpus import (
    CPU,
    GIB,
    GpuCard,
    cpu_card,
    find_gpu,
    gpu_cards,
    gpu_named_in,
    gpus_named,
    read_facts,
)
from arcslim.errors import ModelError

__all__ = [
    "CPU",
    "GIB",
    "MODEL_TYPES",
    "RANDOM",
    "GpuCard",
    "ModelCard",
    "card_from_config",
    "config_of",
    "cpu_card",
    "find_gpu",
    "find_model",
    "find_model_card",
    "gpu_cards",
    "gpu_named_in",
    "gpus_named",
    "model_cards",
    "read_object",
    "skipped_in",
]

# Decoders of one kind: gated MLP, RMS norms, rotary positions. Others would be planned wrongly, so they are refused.
MODEL_TYPES = ("qwen2", "qwen3", "llama", "mistral")
_TIED_BY_DEFAULT = False  # of transformers' configurations of the four
RANDOM = "random:"  # before a card's name: its shapes, random values
_PACKED = re.compile(r"(-unsloth)?-bnb-4bit$")


@dataclass(frozen=True)
class ModelCard:
    """A model's shapes, under the names of its config.json, and where they were read.

    ``ids``: hub ids with these shapes. ``published``: the parameters that the hub shows, None where unknown.
    ``skipped``: of a model that lies packed in a folder, the modules that its config.json keeps in 16 bits; else None.
    """

    name: str
    model_type: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool
    max_position_embeddings: int
    source: str
    family: str | None = None
    ids: tuple[str, ...] = ()
    published: int | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    skipped: tuple[str, ...] | None = None

    @property
    def query_size(self) -> int:
        """Width of all queries of a token, and of what attention gives back."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of a token's keys in one layer, and of its values."""
        return self.num_key_value_heads * self.head_dim

    @property
    def linear_shapes(self) -> Mapping[str, tuple[int, int]]:
        """Inputs and outputs of a layer's linear maps, by the names that LoRA's ``target_modules`` uses."""
        hidden, wide = self.hidden_size, self.intermediate_size
        return {
            "q_proj": (hidden, self.query_size),
            "k_proj": (hidden, self.kv_size),
            "v_proj": (hidden, self.kv_size),
            "o_proj": (self.query_size, hidden),
            "gate_proj": (hidden, wide),
            "up_proj": (hidden, wide),
            "down_proj": (wide, hidden),
        }

    @property
    def linear_parameters(self) -> int:
        """Weights of the layers' linear maps, which 4-bit loading packs; without biases."""
        return self.num_hidden_layers * sum(inputs * outputs for inputs, outputs in self.linear_shapes.values())

    @property
    def embedding_parameters(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Weights of ``lm_head`` that it does not share with the embeddings."""
        return 0 if self.tie_word_embeddings else self.embedding_parameters

    @property
    def small_parameters(self) -> int:
        """Norms and biases."""
        a_layer = 2 * self.hidden_size
        if self.model_type == "qwen3":
            a_layer += 2 * self.head_dim  # norms of queries and keys
        if self.model_type == "qwen2" or self.attention_bias:
            a_layer += self.query_size + 2 * self.kv_size
        if self.attention_bias and self.model_type != "qwen2":
            a_layer += self.hidden_size
        if self.mlp_bias:
            a_layer += 2 * self.intermediate_size + self.hidden_size
        return self.num_hidden_layers * a_layer + self.hidden_size

    @property
    def parameters(self) -> int:
        """All parameters; equals transformers' count on the meta device."""
        return self.linear_parameters + self.embedding_parameters + self.head_parameters + self.small_parameters


@cache
def model_cards() -> tuple[ModelCard, ...]:
    return tuple(ModelCard(**row) for row in read_facts("cards_models.toml", "model"))


def _plain(name: str) -> str:
    """A model's name without ``random:``, its owner and what a packed copy adds, in small letters."""
    return _PACKED.sub("", name.lower().removeprefix(RANDOM).rpartition("/")[2])


def find_model_card(name: str) -> ModelCard | None:
    """The card of a model by its own name or by a hub id with its shapes; None if there is none."""
    wanted = _plain(name)
    for card in model_cards():
        if wanted == card.name.lower() or wanted in {_plain(one) for one in card.ids}:
            return card
    return None


def find_model(name: str) -> ModelCard:
    """The card of a model: a card's name, a hub id with known shapes, a folder with ``config.json`` (of a model, an
    adapter or a run) or such a file; of ``random:`` before a card's name or id the same. Nothing is fetched. Raises
    ModelError, with the nearest known name."""
    is_random, name = name.startswith(RANDOM), name.removeprefix(RANDOM)
    path = Path(name).expanduser()
    if path.is_dir() and not is_random:
        return _folder_card(path)
    if path.is_file() and not is_random:
        return card_from_config(read_object(path), path.parent.name or path.name, str(path))
    if (path.is_absolute() or name.startswith((".", "~"))) and not is_random:
        raise ModelError(f"there is no model at {name}", "give a folder, a config.json, a card's name or a hub id")
    card = find_model_card(name)
    if card is not None:
        return card
    known = {_plain(one): one for card in model_cards() for one in (card.name, *card.ids)}
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=0.5)
    guess = f"did you mean {known[near[0]]}? " if near else ""
    names = ", ".join(card.name for card in model_cards())
    raise ModelError(
        f"the shapes of {name!r} are not known", f"{guess}give its config.json or its folder, or one of: {names}"
    )


def read_object(path: Path) -> dict[str, Any]:
    """A file's JSON object. Raises ModelError where it cannot be read, or holds something else."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise ModelError(f"{path} is not a JSON object")
    return loaded


def _folder_card(folder: Path) -> ModelCard:
    for place in (folder, folder / "final", folder / "best"):
        if (place / "adapter_config.json").is_file():
            base = read_object(place / "adapter_config.json").get("base_model_name_or_path")
            if not isinstance(base, str) or not base or Path(base) == place:
                raise ModelError(f"{place / 'adapter_config.json'} does not say which model it belongs to")
            if (Path(base).expanduser() / "adapter_config.json").is_file():
                raise ModelError(f"{place} is an adapter on an adapter ({base}): merge the lower one first")
            return find_model(base)
        if (place / "config.json").is_file():
            return card_from_config(read_object(place / "config.json"), folder.name, str(place / "config.json"))
    raise ModelError(f"{folder} holds no model: neither config.json nor adapter_config.json")


def card_from_config(config: Mapping[str, Any], name: str, source: str) -> ModelCard:
    """The card of a model by its ``config.json``. Raises ModelError for other kinds of model, or a missing size."""
    kind = config.get("model_type")
    if kind not in MODEL_TYPES or config.get("num_experts") or config.get("num_local_experts"):
        raise ModelError(
            f"{source} is of a model of type {kind!r}, whose memory is not known here",
            f"known: dense models of type {', '.join(MODEL_TYPES)}",
        )
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    wrong = [size for size in sizes if not isinstance(config.get(size), int) or config[size] < 1]
    if wrong:
        raise ModelError(f"{source} does not say {', '.join(wrong)}, as a number above 0")
    heads = int(config["num_attention_heads"])
    return ModelCard(
        name=name,
        model_type=str(kind),
        hidden_size=int(config["hidden_size"]),
        intermediate_size=int(config["intermediate_size"]),
        num_hidden_layers=int(config["num_hidden_layers"]),
        num_attention_heads=heads,
        vocab_size=int(config["vocab_size"]),
        num_key_value_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
        tie_word_embeddings=bool(config.get("tie_word_embeddings", _TIED_BY_DEFAULT)),
        max_position_embeddings=int(config.get("max_position_embeddings") or 32768),
        attention_bias=bool(config.get("attention_bias", False)),
        mlp_bias=bool(config.get("mlp_bias", False)),
        source=source,
        skipped=skipped_in(config, source),
    )


def skipped_in(config: Mapping[str, Any], source: str) -> tuple[str, ...] | None:
    """The modules that a packed model's config.json keeps in 16 bits; None of a model that is not packed.

    Raises ModelError for weights that are packed otherwise than to NF4 by bitsandbytes.
    """
    packed = config.get("quantization_config")
    if not isinstance(packed, Mapping):
        return None
    kind = packed.get("quant_method")
    if kind != "bitsandbytes" or not packed.get("load_in_4bit"):
        what = "8 bits" if kind == "bitsandbytes" else kind
        raise ModelError(
            f"{source} is of weights that are packed by {what}: their size is not known here",
            "give the model in 16 bits, or packed to 4 bits by bitsandbytes",
        )
    return tuple(map(str, packed.get("llm_int8_skip_modules") or ()))


def config_of(card: ModelCard) -> dict[str, Any]:
    """The card as fields of a ``config.json``."""
    own = {"name", "source", "family", "ids", "published", "skipped"}
    return {field.name: getattr(card, field.name) for field in fields(card) if field.name not in own}
