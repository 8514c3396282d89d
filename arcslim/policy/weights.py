"""Which repository of the hub a run's weights come from: on a GPU Unsloth loads copies of its own.

For 4 bits it takes weights that are packed already, a third of the download; for 16 bits its mirror. The tables are
read from the installed Unsloth's files: importing it takes half a minute, and needs torch.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from arcslim.errors import InputError


def weights_repository(name: str, *, four_bit: bool, on_gpu: bool) -> str:
    """The hub id that is loaded where ``name`` is asked for. Raises InputError where Unsloth's tables are not found."""
    if not on_gpu:
        return name  # its CPU backend loads what it is told
    packed, plain, mirrors, passed_over = _tables()
    wanted = name.lower()
    found: str | None
    if four_bit:
        found = name if wanted.endswith("-bnb-4bit") else packed.get(wanted)
    else:
        found = plain.get(wanted) or mirrors.get(wanted)
    return passed_over.get((found or name).lower(), found or name)


@cache
def _tables() -> tuple[Mapping[str, str], ...]:
    """To packed weights, from packed to 16-bit ones, to mirrors, and what is passed over for what."""
    spec = importlib.util.find_spec("unsloth")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("unsloth is not installed", "pip install -c constraints.txt -e .")
    models = Path(spec.submodule_search_locations[0]) / "models"
    try:
        mapper = _module(models / "mapper.py")
        tables = mapper.FLOAT_TO_INT_MAPPER, mapper.INT_TO_FLOAT_MAPPER, mapper.MAP_TO_UNSLOTH_16bit
        return (*tables, _passed_over(models / "loader_utils.py"))
    except (OSError, AttributeError, SyntaxError, KeyError) as error:
        raise InputError(
            f"which weights this release of Unsloth loads cannot be read from {models}: {error}",
            "pip install -c constraints.txt unsloth",
        ) from error


def _module(path: Path) -> Any:
    """A file of tables, run without its package."""
    spec = importlib.util.spec_from_file_location("_unsloth_mapper", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _passed_over(path: Path) -> dict[str, str]:
    """``BAD_MAPPINGS``, whose keys are written ``"Name".lower()``: read, not run, for the file imports torch."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        if [ast.unparse(target) for target in node.targets] == ["BAD_MAPPINGS"]:
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {_plain(key).lower(): str(ast.literal_eval(value)) for key, value in pairs if key is not None}
    raise KeyError("BAD_MAPPINGS")


def _plain(key: ast.expr) -> str:
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Attribute) and key.func.attr == "lower":
        key = key.func.value
    return str(ast.literal_eval(key))
