"""What a plan must know of a model: its shapes, its adapter's rank, and what of it stays in 16 bits; weights unread."""

from __future__ import annotations

import os
from pathlib import Path

from arcslim.cards import ModelCard, card_from_config, find_model, find_model_card, read_object, skipped_in
from arcslim.errors import ModelError
from arcslim.memory.packing import Packing, copy_of, packing_by_list, packing_of


def shapes_of(name: str, revision: str | None = None) -> ModelCard:
    """The card of what ``model.name`` may be. A hub id without a card is looked up in the local cache and, where there
    is a network, on the hub: its config.json alone. Raises ModelError, with suggestions."""
    if Path(name).expanduser().exists() or find_model_card(name) is not None or name.count("/") != 1:
        return find_model(name)
    if name.startswith((".", "/", "~")):
        return find_model(name)
    config = _hub_config(name, revision)
    if config is None:
        return find_model(name)  # which says what is known, and what is near
    return card_from_config(read_object(Path(config)), name, f"{name}, config.json")


def _hub_config(name: str, revision: str | None) -> str | None:
    """The path of a hub model's config.json; None where the hub is out of reach. Raises ModelError where the hub says
    that there is no such model, or that it is gated."""
    from arcslim.policy.sources import hub_state

    if hub_state(name, revision) == "absent":
        return None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return str(hf_hub_download(name, "config.json", revision=revision))
    except EntryNotFoundError as error:
        raise ModelError(f"{name} has no config.json", "of an adapter, name the model that it belongs to") from error
    except OSError:
        return None  # the network went away between the two


def packing_for(card: ModelCard, name: str, *, on_gpu: bool) -> Packing:
    """What of the model stays in 16 bits where 4 are asked for.

    By the copy's own config.json where it lies in the hub's cache, as after `arcslim prefetch` or a first run.
    """
    name = _base_of(name)
    copy = copy_of(name) if on_gpu and card.skipped is None else None
    listed = None if copy is None else _list_in_cache(copy)
    if copy is not None and listed is not None:
        return packing_by_list(card, copy, listed)
    return packing_of(card, name, on_gpu=on_gpu)


def rank_of_adapter(name: str) -> int | None:
    """The rank of an adapter that a run goes on from, which stays in force."""
    folder = _adapter(name)
    if folder is None:
        return None
    rank = read_object(folder / "adapter_config.json").get("r")
    return rank if isinstance(rank, int) else None


def _base_of(name: str) -> str:
    """The name of the model under an adapter; any other name as it is."""
    folder = _adapter(name)
    base = None if folder is None else read_object(folder / "adapter_config.json").get("base_model_name_or_path")
    return base if isinstance(base, str) and base else name


def _adapter(name: str) -> Path | None:
    """The folder of the adapter that a name leads to, as ``find_model`` finds it."""
    place = Path(name).expanduser()
    folders = (place, place / "final", place / "best")
    return next((folder for folder in folders if (folder / "adapter_config.json").is_file()), None)


def _list_in_cache(copy: str) -> tuple[str, ...] | None:
    """``llm_int8_skip_modules`` of a copy's config.json, where it lies in the hub's cache."""
    # The folder first: the hub's library takes a quarter of a second to import.
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    if not (cache / f"models--{copy.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(copy, "config.json", cache_dir=cache)
    return skipped_in(read_object(Path(found)), copy) if isinstance(found, str) else None
