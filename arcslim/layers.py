"""What one source of a configuration says: a preset's text, ``--set``, or the named flags; and what it gets wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arcslim.errors import Problem
from arcslim.fields import FIELDS, NONE, SECTIONS, nullable, suggest, takes_text
from arcslim.tomllines import key_lines

FLAGS: Mapping[str, str] = {
    "model.name": "--model",
    "data.sources": "--data",
    "reward.extra": "--reward",
    "run.max_steps": "--max-steps",
    "sft.max_steps": "--max-steps",
    "sft.packing": "--packing/--no-packing",
    "her.target": "--target",
    "her.model": "--model",
    "her.max_epochs": "--max-epochs",
    "her.base.model": "--model",
    "her.base.max_steps": "--max-steps",
    "run.dir": "--run-dir",
    "run.seed": "--seed",
}
"""The named flags of the command line that stand for a knob."""


@dataclass
class Layer:
    """What one source says: values by dotted name, where each stands, and what could not be read."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def put(self, path: str, value: Any, place: str) -> None:
        self.values[path] = None if value == NONE and nullable(path) else value
        self.places[path] = place

    def unknown(self, path: str, place: str) -> None:
        near = suggest(path)
        self.problems.append(Problem(place, f"there is no `{path}`", f"did you mean `{near}`?" if near else None))


def preset_layer(text: str, shown: str) -> Layer:
    """What a preset's text says; ``shown`` is what its problems call it."""
    layer = Layer()
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        layer.problems.append(Problem(shown, f"not valid TOML: {error}"))
        return layer
    lines = key_lines(text)

    def place(parts: tuple[str, ...]) -> str:
        while parts not in lines:  # keys of an inline table stand on their parent's line
            parts = parts[:-1]
        return f"{shown}:{lines[parts]}"

    def walk(table: Mapping[str, Any], above: tuple[str, ...]) -> None:
        for name, value in table.items():
            parts = (*above, name)
            path = ".".join(parts)
            if path in FIELDS:
                layer.put(path, value, place(parts))
            elif isinstance(value, dict) and (value or path in SECTIONS):
                walk(value, parts)
            elif path in SECTIONS:
                layer.problems.append(_section_problem(path, place(parts)))
            else:
                layer.unknown(path, place(parts))

    walk(data, ())
    return layer


def _section_problem(path: str, place: str) -> Problem:
    first = next(known for known in FIELDS if known.startswith(f"{path}."))
    return Problem(place, f"`{path}` is a section, not a knob", f"say which knob, as `{first}`")


def set_layer(sets: Sequence[str]) -> Layer:
    """What ``--set section.key=value`` says, each of them."""
    layer = Layer()
    for text in sets:
        path, equals, raw = text.partition("=")
        path, place = path.strip(), f"--set {path.strip()}"
        if not equals or not path:
            layer.problems.append(
                Problem(f"--set {text}", "needs section.key=value", "as --set optim.learning_rate=1e-5")
            )
        elif path in SECTIONS:
            layer.problems.append(_section_problem(path, place))
        elif path not in FIELDS:
            layer.unknown(path, place)
        elif not raw.isprintable():
            layer.problems.append(Problem(place, "the value holds characters that cannot be shown"))
        else:
            layer.put(path, _set_value(path, raw.strip()), place)
    return layer


def _set_value(path: str, raw: str) -> Any:
    """The value that a ``--set`` means: TOML if it is a TOML value that the knob can take, else the text as it is."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except tomllib.TOMLDecodeError:
        return raw
    value = parsed["value"]
    return raw if takes_text(path) and not isinstance(value, str) else value


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """What named flags say, by dotted name; None: not given."""
    layer = Layer()
    for path, value in flags.items():
        if value is not None:
            layer.put(path, list(value) if isinstance(value, tuple) else value, FLAGS.get(path, path))
    return layer
