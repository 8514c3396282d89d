"""Weights and data sets of the hub into its cache, after a look at the free disk.

huggingface_hub shows the progress, goes on inside a file when the line drops, and keeps files that are whole: a command
that failed or was stopped, given again, fetches the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arcslim.config import Config, ModelSection
from arcslim.errors import ArcslimError, DoesNotFitError, InputError, ModelError, Stopped
from arcslim.policy.sources import resolve
from arcslim.policy.weights import weights_repository
from arcslim.runs.check import GIB, gib
from arcslim.runs.doctor_machine import free_bytes
from arcslim.tasks.spec import HUB, or_hub, parse_spec

TEXTS = ("*.json", "*.txt", "*.model", "*.jinja")
WEIGHTS = ("*.safetensors",)
ELSEWHERE = ("original/*", "onnx/*", "openvino/*", "consolidated*", "*.gguf", "runs/*", "checkpoint-*/*")
MARGIN = GIB  # stays free
ARROW = 2.0  # a data set lies on the disk as it came and as it is read


@dataclass(frozen=True)
class Wanted:
    """Files of one repository. ``why`` in words; ``slices``: of a data set, its configuration and split."""

    kind: Literal["model", "dataset"]
    name: str
    why: str
    revision: str | None = None
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ELSEWHERE
    slices: tuple[str | None, str] = (None, "train")


@dataclass(frozen=True)
class Listed:
    """What the hub says of a ``Wanted``: files, bytes in all, and bytes that are not here yet."""

    wanted: Wanted
    files: tuple[str, ...]
    total: int
    missing: int


def wanted_of(config: Config, recipe: str, *, on_gpu: bool) -> tuple[list[Wanted], list[str]]:
    """What a run would download, and notes on what it would not find in the cache all the same."""
    notes: list[str] = []
    model = config.model_for(recipe)
    found = _model(model, on_gpu)
    if not found:
        notes.append(f"{model.name} needs no download")
    if recipe not in ("grpo", "sft"):
        return found, notes  # drawings are made here
    for source in config.data.sources if recipe == "sft" else ():
        spec = or_hub(parse_spec(source))
        if spec.kind == HUB:
            name, _, split = str(spec.argument).partition("@")
            name, _, part = name.partition(":")
            found.append(Wanted("dataset", name, "data", ignore=(), slices=(part or None, split or "train")))
    if any(parse_spec(source).kind == "barc" and not parse_spec(source).argument for source in config.data.sources):
        notes.append("barc is streamed: of its one file of 6.2 GB a run reads no more than it takes")
    return found, notes


def _model(model: ModelSection, on_gpu: bool) -> list[Wanted]:
    source = resolve(model.name)
    name = source.base if source.kind == "adapter" else source.name
    if name is None or (source.kind != "hub" and resolve(name).kind != "hub"):
        return []
    revision = model.revision if source.kind == "hub" else None
    return model_files(name, revision, four_bit=model.load_in_4bit, on_gpu=on_gpu, code=model.trust_remote_code)


def model_files(name: str, revision: str | None, *, four_bit: bool, on_gpu: bool, code: bool = False) -> list[Wanted]:
    """The weights, from where they will be loaded, and the texts of the model as it is named."""
    texts = (*TEXTS, "*.py") if code else TEXTS
    weights = weights_repository(name, four_bit=four_bit, on_gpu=on_gpu)
    if weights.lower() == name.lower():
        return [Wanted("model", name, "weights and tokenizer", revision, (*WEIGHTS, *texts))]
    packed = "4-bit weights" if four_bit else "16-bit weights"
    return [
        Wanted("model", weights, f"{packed} of {name}, as Unsloth loads them", None, (*WEIGHTS, *texts)),
        Wanted("model", name, "configuration and tokenizer", revision, texts, (*ELSEWHERE, "*.index.json")),
    ]


def listed(wanted: Wanted) -> Listed:
    """Ask the hub for names and sizes. Raises ModelError or InputError, saying why it cannot be had."""
    files = _snapshot(wanted, dry_run=True)
    names = tuple(file.filename for file in files)
    if wanted.kind == "model" and "*.safetensors" in wanted.allow and not _has(names, ".safetensors"):
        older = Wanted(**{**vars(wanted), "allow": (*wanted.allow, "*.bin")})
        files = _snapshot(older, dry_run=True)
        names, wanted = tuple(file.filename for file in files), older
    missing = sum(file.file_size or 0 for file in files if file.will_download)
    return Listed(wanted, names, sum(file.file_size or 0 for file in files), missing)


def _has(names: Sequence[str], ending: str) -> bool:
    return any(name.endswith(ending) for name in names)


def refuse_full(found: Sequence[Listed]) -> str:
    """What is missing against what is free, in words. Raises DoesNotFitError where it is more."""
    needs: dict[int, tuple[Path, int, float]] = {}
    for one in found:
        place, free = free_bytes(_cache(one.wanted.kind))
        device = os.stat(place).st_dev
        missing = one.missing * (ARROW if one.wanted.kind == "dataset" else 1)
        needs[device] = (place, free, needs[device][2] + missing if device in needs else missing)
    for place, free, missing in needs.values():
        if missing + MARGIN > free:
            raise DoesNotFitError(
                f"{gib(missing)} are missing, and {gib(free)} are free at {place} ({gib(MARGIN)} stay free)",
                "make room, or put the cache elsewhere with HF_HOME",
            )
    return "; ".join(f"{gib(missing)} to fetch, {gib(free)} free at {place}" for place, free, missing in needs.values())


def _cache(kind: str) -> Path:
    from huggingface_hub import constants

    if kind == "model":
        return Path(constants.HF_HUB_CACHE)
    from datasets import config

    return Path(config.HF_DATASETS_CACHE)


def fetch(one: Listed) -> None:
    """Download what is missing. Raises ArcslimError where it was cut off, Stopped on Ctrl-C."""
    wanted = one.wanted
    try:
        if wanted.kind == "dataset":
            with _explained(wanted):
                _prepare(wanted)
        else:
            _snapshot(wanted, dry_run=False)
    except KeyboardInterrupt:
        raise Stopped(
            "stopped; files that are whole are kept", "the same command fetches the others", signum=2
        ) from None


def _prepare(wanted: Wanted) -> None:
    from datasets import load_dataset

    load_dataset(wanted.name, wanted.slices[0], split=wanted.slices[1])


def _snapshot(wanted: Wanted, *, dry_run: bool) -> Any:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    if dry_run:
        disable_progress_bars()
    try:
        with _explained(wanted):
            return snapshot_download(
                wanted.name,
                repo_type=wanted.kind,
                revision=wanted.revision,
                allow_patterns=list(wanted.allow) or None,
                ignore_patterns=list(wanted.ignore) or None,
                dry_run=dry_run,
            )
    finally:
        if dry_run:
            enable_progress_bars()


@contextmanager
def _explained(wanted: Wanted) -> Iterator[None]:
    """Turn what the hub's library raises into what to do."""
    import httpx
    from huggingface_hub import constants
    from huggingface_hub.errors import DryRunError, GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except ArcslimError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, DryRunError) and error.__cause__ is not None else error
        name, first = wanted.name, (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        if isinstance(cause, GatedRepoError):
            link = f"{constants.ENDPOINT}/{'datasets/' if wanted.kind == 'dataset' else ''}{name}"
            raise ModelError(f"{name} is gated", f"accept its licence at {link}, then set HF_TOKEN") from error
        if isinstance(cause, RevisionNotFoundError):
            raise ModelError(f"{name} has no revision {wanted.revision!r}") from error
        if isinstance(cause, RepositoryNotFoundError):
            raise ModelError(
                f"the hub has no {wanted.kind} {name} (or it is private)", "check the spelling, or set HF_TOKEN"
            ) from error
        if constants.HF_HUB_OFFLINE:
            raise InputError("HF_HUB_OFFLINE is set: nothing can be fetched", "unset it") from error
        if isinstance(cause, (httpx.HTTPError, OSError)):
            raise ArcslimError(
                f"{name} could not be fetched from {constants.ENDPOINT}: {first}",
                "files that are whole are kept: with a network, the same command fetches the others",
            ) from error
        raise


def adapter_base(one: Listed) -> str | None:
    """The model under an adapter of the hub, whose own repository holds no model."""
    if "adapter_config.json" not in one.files or "config.json" in one.files:
        return None
    from huggingface_hub import hf_hub_download

    with _explained(one.wanted):
        path = hf_hub_download(one.wanted.name, "adapter_config.json", revision=one.wanted.revision)
    base = json.loads(Path(path).read_text(encoding="utf-8")).get("base_model_name_or_path")
    return base if isinstance(base, str) and base else None
