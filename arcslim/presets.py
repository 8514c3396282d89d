"""Presets are TOML files; a value is resolved field default < preset < ``--set section.key=value`` < named flag.

A resolved configuration is written back as a preset (``to_toml``) that resolves to the same configuration.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError

from arcslim.checks import check
from arcslim.config import Config
from arcslim.errors import ConfigError, InputError, Problem
from arcslim.fields import FIELDS, NONE, SECTIONS, in_words, takes_list, value_of
from arcslim.layers import Layer, flag_layer, preset_layer, set_layer


@dataclass(frozen=True)
class Preset:
    """A preset file. ``header`` is its leading comment, of which the first line says what it is."""

    name: str
    path: Path
    text: str

    @property
    def header(self) -> tuple[str, ...]:
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line[1:].removeprefix(" "))
        return tuple(lines)

    @property
    def summary(self) -> str:
        return self.header[0].removeprefix(f"{self.name}: ") if self.header else ""

    def entry(self, label: str) -> str:
        """What the header says after ``label:``, up to the next label or blank line, as one line; "" if nothing."""
        words: list[str] = []
        inside = False
        for line in self.header:
            if line.startswith(f"{label}:"):
                inside, line = True, line.partition(":")[2]
            elif inside and not line.startswith(" "):
                break
            if inside:
                words += line.split()
        return " ".join(words)


@dataclass(frozen=True)
class Resolved:
    """A configuration that is valid, where each value came from, and what is doubtful in it.

    ``origins`` maps every dotted name to ``default``, ``FILE:LINE``, ``--set NAME`` or the flag. ``preset`` is the
    preset's name, ``asked`` what was typed for it: a name or a path.
    """

    config: Config
    origins: Mapping[str, str]
    warnings: tuple[Problem, ...] = ()
    preset: str | None = None
    asked: str | None = None

    def changed(self) -> list[tuple[str, Any, str]]:
        """The knobs that are not left at their default: name, value, origin."""
        return [(path, value_of(self.config, path), at) for path, at in self.origins.items() if at != "default"]


def presets_folder() -> Path:
    """Where the shipped presets lie: inside the installed package, or at the root of a checkout."""
    package = Path(__file__).parent
    installed = package / "_presets"
    return installed if installed.is_dir() else package.parent / "presets"


def list_presets() -> list[Preset]:
    """The shipped presets, found by listing their folder, by name."""
    return [_read(path, path.stem) for path in sorted(presets_folder().glob("*.toml"))]


def find_preset(name: str) -> Preset:
    """The preset of that name, or the TOML file at that path. Raises InputError if there is none."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not path.is_file():
            what = "is a folder, not a preset" if path.is_dir() else "does not exist"
            raise InputError(f"the preset file {name} {what}", "`arcslim presets list` names the shipped ones")
        return _read(path, path.stem)
    known = [path.stem for path in sorted(presets_folder().glob("*.toml"))]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(
            f"there is no preset {name}", f"{hint}known: {', '.join(known)}; or give a path to a .toml file"
        )
    return _read(presets_folder() / f"{name}.toml", name)


def _read(path: Path, name: str) -> Preset:
    try:
        return Preset(name, path, path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{_shown(path)} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{_shown(path)} cannot be read: {error.strerror}") from error


def _shown(path: Path) -> str:
    """A path as short as it can be said: from the working directory, or from the presets' folder."""
    if path.parent == presets_folder():
        return f"presets/{path.name}"
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def load_config(
    preset: str | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    *,
    recipe: str | None = None,
) -> Resolved:
    """Resolve default < preset < ``sets`` < ``flags`` (dotted name to value; None: not given).

    ``preset`` is a name or a path to a TOML file. ``recipe``: what is wrong for another one alone is passed over.
    Raises ConfigError with every problem at once, each with its file and line or its flag; InputError if there is no
    such preset.
    """
    found = find_preset(preset) if preset is not None else None
    layers = [preset_layer(found.text, _shown(found.path))] if found is not None else []
    layers += [set_layer(sets), flag_layer(flags or {})]
    return replace(_resolve(layers, found.name if found is not None else None, recipe), asked=preset)


def load_preset_text(text: str, place: str) -> Resolved:
    """Resolve a preset's text alone; ``place`` is what its problems call it."""
    return _resolve([preset_layer(text, _shown(Path(place)))], Path(place).stem)


def _resolve(layers: Sequence[Layer], preset: str | None, recipe: str | None = None) -> Resolved:
    origins = dict.fromkeys(FIELDS, "default")
    tree: dict[str, Any] = {}
    for layer in layers:
        for path, value in layer.values.items():
            _plant(tree, path, value)
            origins[path] = layer.places[path]
    problems = [problem for layer in layers for problem in layer.problems]
    warnings: list[Problem] = []
    config = Config()
    try:
        # JSON in strict mode: a list may become a tuple, but the text "16" may not become a number.
        config = Config.model_validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        found = [_type_problem(dict(detail), origins) for detail in error.errors()]
        # One a knob: pydantic also calls a list too short whose only entry is wrong.
        problems += reversed(dict(reversed(found)).values())
    else:
        filled = config.sft.filled(full_finetuning=config.model.full_finetuning)
        config = config.model_copy(update={"sft": filled})
        refused, warnings = check(config, origins, recipe)
        problems += refused
    if problems:
        raise ConfigError(problems)
    return Resolved(config, origins, tuple(warnings), preset)


def _plant(tree: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
    tree[name] = value


def _type_problem(error: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[str, Problem]:
    """The knob or section that is at fault, and what is wrong with it."""
    location = [str(part) for part in error["loc"]]
    paths = [".".join(location[:length]) for length in range(len(location), 0, -1)]
    for path in paths:
        if path in FIELDS:
            return path, Problem(origins[path], in_words(path, error))
    # A whole section is at fault: it stands wherever its values were set.
    section = paths[0]
    at = {place: None for path, place in origins.items() if path.startswith(f"{section}.") and place != "default"}
    what = str(error["msg"]).removeprefix("Value error, ")
    return section, Problem(", ".join(at) or "defaults", f"`{section}`: {what}")


def to_toml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """The configuration as a preset that resolves to it; with ``origins``, each value set by someone says by whom."""
    blocks = []
    for section in SECTIONS:
        names = [path for path in FIELDS if path.rpartition(".")[0] == section]
        lines = [_toml_line(config, path, (origins or {}).get(path, "default")) for path in names]
        if lines:
            blocks.append("\n".join([f"[{section}]", *lines]) + "\n")
    return "\n".join(blocks)


def _toml_line(config: Config, path: str, origin: str) -> str:
    value = value_of(config, path)
    text = tomlkit.item(NONE if value is None else list(value) if takes_list(path) else value).as_string()
    return f"{path.rpartition('.')[2]} = {text}" + ("" if origin == "default" else f"  # {origin}")
