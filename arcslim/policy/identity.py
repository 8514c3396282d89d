"""What a model is, as a hash: the same weights give the same one, whatever folder they lie in."""

from __future__ import annotations

import hashlib
from pathlib import Path

from arcslim.config import ModelSection
from arcslim.policy.random_weights import identity_of
from arcslim.policy.sources import Source, resolve

WEIGHTS = (".safetensors", ".bin", ".gguf")
CONFIGS = ("config.json", "adapter_config.json")
WHOLE = 256 * 2**20  # bytes: larger files are hashed in samples, for an 8B's 16 GB would take a minute
SAMPLES, SAMPLE = 256, 64 * 2**10  # training changes every tensor: no sample of it stays the same


def identity(model: ModelSection) -> str | None:
    """A hash of the weights that ``model`` names, and of how many bits they are held in.

    None for a hub model that is not in the local cache yet: ask again once it is loaded.

    Raises:
        ModelError: the name is no model's.
    """
    known = _of(resolve(model.name), model.revision)
    return None if known is None else _hash(known, f"load_in_4bit={model.load_in_4bit}")


def _of(source: Source, revision: str | None) -> str | None:
    if source.kind == "hub":
        return _snapshot(source.name, revision)
    if source.kind == "random":
        return _hash(identity_of(source.name))
    own = _of_folder(Path(source.name))
    if source.base is None:
        return own
    base = _of(resolve(source.base), None)
    return None if base is None else _hash(base, own)


def _snapshot(name: str, revision: str | None) -> str | None:
    """The hub's commit, which is in the path of each cached file."""
    from huggingface_hub import try_to_load_from_cache

    for file in CONFIGS:
        path = try_to_load_from_cache(name, file, revision=revision)
        if isinstance(path, str):
            return _hash(name, Path(path).parent.name)
    return None


def _of_folder(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHTS or path.name in CONFIGS)
    return _hash(*(f"{path.name} {_of_file(path)}" for path in files))


def _of_file(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(str(size).encode())
        for number in range(SAMPLES):
            file.seek((size - SAMPLE) * number // (SAMPLES - 1))
            digest.update(file.read(SAMPLE))
        return digest.hexdigest()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
