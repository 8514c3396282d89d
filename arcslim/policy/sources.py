"""What a model name means: embedded, a folder (model, adapter or run), or a hub id. No weights are touched here."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from arcslim.cards import RANDOM, find_model, read_object
from arcslim.config import LoraSection, ModelSection
from arcslim.errors import ModelError

TINY, TINY_DRAW = "tiny", "tiny-draw"
EMBEDDED = {TINY: "tiny", TINY_DRAW: "tiny_draw"}  # name -> folder in this package
MADE_AS = "arcslim-random.txt"  # in the folder of a random model: its name
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_NETWORK_SECONDS = 10.0


@dataclass(frozen=True)
class Source:
    """``name`` is a folder, a hub id or ``random:CARD``; ``base`` is the model under an adapter folder, as ``name`` is
    (None otherwise)."""

    kind: Literal["hub", "model", "adapter", "random"]
    name: str
    base: str | None = None


def tiny_folder(name: str = TINY) -> Path:
    """An embedded model's folder."""
    return Path(str(files("arcslim").joinpath("policy", EMBEDDED[name])))


def resolve(name: str) -> Source:
    """Find out what ``name`` is. Raises ModelError for a folder that holds no model, or a name that cannot be one."""
    if name in EMBEDDED:
        folder = tiny_folder(name)
        if not (folder / "config.json").is_file():
            raise ModelError("the embedded model is missing from this installation", "reinstall arcslim")
        return Source("model", str(folder))
    if not name.strip():
        raise ModelError("model.name is empty", "give a folder, a hub id (owner/name) or `tiny`")
    if name.startswith(RANDOM):
        return Source("random", f"{RANDOM}{find_model(name).name}")
    path = Path(name).expanduser()
    if path.is_file():
        raise ModelError(f"{name} is a file, not a model", "give the folder it lies in, a hub id or `tiny`")
    if path.is_dir():
        return _resolve_folder(path)
    if not _HUB_ID.fullmatch(name) or path.is_absolute():
        raise ModelError(f"no model folder at {name!r}", "give a folder, a hub id (owner/name) or `tiny`")
    return Source("hub", name)


def _resolve_folder(path: Path) -> Source:
    if (path / "adapter_config.json").is_file():
        return Source("adapter", str(path), _adapter_base(path))
    if (path / "config.json").is_file():
        return Source("model", str(path))
    if not (path / "resolved.toml").is_file():
        raise ModelError(
            f"{path} holds no model: neither config.json, adapter_config.json nor resolved.toml (a run folder)"
        )
    best = path / "best"
    candidates = [path / "final"]
    if best.is_file():  # where links are not to be had, the file names the checkpoint
        candidates.append(path / best.read_text(encoding="utf-8").strip())
    else:
        candidates.append(best)
    for candidate in candidates:
        if (candidate / "adapter_config.json").is_file() or (candidate / "config.json").is_file():
            return _resolve_folder(candidate)
    raise ModelError(f"the run folder {path} has neither final/ nor best yet", "let the run save a checkpoint first")


def read_adapter_config(folder: Path) -> dict[str, object]:
    """The adapter's ``adapter_config.json``; ModelError when it cannot be read."""
    return read_object(folder / "adapter_config.json")


def _adapter_base(folder: Path) -> str:
    base = read_adapter_config(folder).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ModelError(f"{folder / 'adapter_config.json'} does not say which model it belongs to")
    source = resolve(base)
    if source.kind == "adapter":
        raise ModelError(f"{folder} is an adapter on an adapter ({base}): merge the lower one first")
    return source.name


def portable_base(name: str) -> str:
    """How a saved adapter names its base: ``tiny`` for an embedded model and ``random:CARD`` for a random one, whose
    folders differ on each machine."""
    try:
        place = Path(name).resolve()
        if (place / MADE_AS).is_file():
            return (place / MADE_AS).read_text(encoding="utf-8").strip()
    except OSError:
        return name
    return next((short for short in EMBEDDED if tiny_folder(short).resolve() == place), name)


@contextmanager
def loadable_adapter(folder: str, base: str) -> Iterator[str]:
    """A view of the adapter folder that other libraries can load: links to its files, the base by its real place."""
    source = Path(folder).resolve()
    config = read_adapter_config(source)
    if config.get("base_model_name_or_path") == base:
        yield str(source)
        return
    with tempfile.TemporaryDirectory(prefix="arcslim-adapter-") as view:
        for item in source.iterdir():
            if item.is_file() and item.name != "adapter_config.json":
                os.symlink(item, Path(view) / item.name)
        config["base_model_name_or_path"] = base
        (Path(view) / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
        yield view


def refuse_untrainable(model: ModelSection) -> Source:
    """Where the name leads. Raises ModelError where there is no such model, or for an adapter to be trained in full."""
    source = resolve(model.name)
    if source.kind == "adapter" and model.full_finetuning:
        raise ModelError(f"{model.name} is an adapter: it cannot be trained in full", "merge it first, or use LoRA")
    return source


def adapter_differences(folder: str, lora: LoraSection, knobs: Mapping[str, str] | None = None) -> list[str]:
    """Where the adapter differs from the ``lora`` section: the adapter's own values stay in force.

    ``knobs``: the dotted names of those fields that another section set.
    """
    config = read_adapter_config(Path(folder))
    notes = []
    for field in ("r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora"):
        have, asked = config.get(field, False), getattr(lora, field)
        if have != asked:
            knob = (knobs or {}).get(field, f"lora.{field}")
            notes.append(f"{knob} is {asked}, but the adapter has {have}: the adapter's value is in force")
    have_targets = config.get("target_modules")
    if isinstance(have_targets, list) and set(have_targets) != set(lora.target_modules):
        notes.append(
            f"{(knobs or {}).get('target_modules', 'lora.target_modules')} is "
            f"{', '.join(sorted(lora.target_modules))}, but the adapter has "
            f"{', '.join(sorted(map(str, have_targets)))}: the adapter's are in force"
        )
    return notes


def hub_state(name: str, revision: str | None) -> Literal["cached", "online", "absent"]:
    """Whether a hub id is in the local cache, can be fetched, or is out of reach (no network).

    Raises ModelError where the hub answers that there is no such model or revision, or that it is gated.
    """
    import httpx
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    for file in ("config.json", "adapter_config.json"):
        if isinstance(try_to_load_from_cache(name, file, revision=revision), str):
            return "cached"
    if constants.HF_HUB_OFFLINE:
        return "absent"
    try:
        HfApi().model_info(name, revision=revision, timeout=_NETWORK_SECONDS)
    except GatedRepoError as error:
        raise ModelError(f"{name} is gated on the hub", "accept its licence there, then set HF_TOKEN") from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{name} has no revision {revision!r} on the hub") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub has no model {name!r} (or it is private)", "check the spelling, or set HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "?")
        raise ModelError(f"the hub answered {status} for {name!r}", "try again, or give a local folder") from error
    except (httpx.TransportError, OSError):
        return "absent"  # no network, no answer in time, or a proxy in the way
    return "online"
