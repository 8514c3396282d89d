"""The schema as a flat table: every knob by its dotted name, what it takes in words, and what a slip of it meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from arcslim.config import Config
from arcslim.section import Section

NONE = "none"  # TOML has no null: where a knob may be off, this word says so
# What other tools call a knob, in full or in short.
ALIASES = {"lr": "learning_rate", "bs": "batch_size", "epochs": "num_train_epochs", "rank": "r", "alpha": "lora_alpha",
           "steps": "max_steps", "seq_len": "max_seq_length", "max_len": "max_length", "warmup": "warmup_steps",
           "scheduler": "lr_scheduler_type", "optimizer": "optim"}  # fmt: skip
RECIPES = ("sft.", "her.")  # sections that one recipe alone reads
SIMILAR = 0.75  # difflib's ratio from which a name counts as a slip of another


def _walk(section: type[Section], prefix: str) -> Iterator[tuple[str, FieldInfo | None]]:
    for name, info in section.model_fields.items():
        path = f"{prefix}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield path, None
            yield from _walk(info.annotation, f"{path}.")
        else:
            yield path, info


_TABLE = dict(_walk(Config, ""))
FIELDS: Mapping[str, FieldInfo] = {path: info for path, info in _TABLE.items() if info is not None}
SECTIONS: tuple[str, ...] = tuple(path for path, info in _TABLE.items() if info is None)


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def suggest(path: str) -> str | None:
    """The known name that ``path`` most likely meant, wherever in the schema it stands, or None.

    A slip within the section wins over the same name elsewhere; then the right name in the wrong section; then a slip
    of a name in another section (``grpo.learnign_rate`` → ``optim.learning_rate``). A bare name gives all its homes.
    """
    section, _, name = path.rpartition(".")
    name = ALIASES.get(name, name)
    within = {_leaf(known): known for known in FIELDS if known.rpartition(".")[0] == section}
    if close := difflib.get_close_matches(name, within, n=1, cutoff=SIMILAR):
        return within[close[0]]
    leaves = {_leaf(known) for known in FIELDS}
    if close := difflib.get_close_matches(name, leaves, n=1, cutoff=SIMILAR):
        homes = [known for known in FIELDS if _leaf(known) == close[0]]
        if not section:  # nothing says which of them
            return "` or `".join(homes)
        # A recipe's own knob is not what somebody meant who wrote another section, where a shared one has the name too.
        homes = [home for home in homes if not home.startswith(RECIPES)] or homes
        return max(homes, key=lambda home: difflib.SequenceMatcher(None, home, path).ratio())
    whole = difflib.get_close_matches(path, FIELDS, n=1, cutoff=SIMILAR)
    return whole[0] if whole else None


def nullable(path: str) -> bool:
    return NoneType in get_args(FIELDS[path].annotation)


def takes_text(path: str) -> bool:
    """Whether the knob's values are texts, so that ``--set run.dir=2026`` means the text."""
    kinds = [FIELDS[path].annotation, *get_args(FIELDS[path].annotation)]
    return any(
        kind is str or (get_origin(kind) is Literal and all(isinstance(choice, str) for choice in get_args(kind)))
        for kind in kinds
    ) and not takes_list(path)


def takes_list(path: str) -> bool:
    return get_origin(FIELDS[path].annotation) is tuple


def value_of(config: Config, path: str) -> Any:
    """The value at a dotted name."""
    here: Any = config
    for name in path.split("."):
        here = getattr(here, name)
    return here


_WORDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "tuple_type": "a list in brackets",
    "list_type": "a list in brackets",
}


def in_words(path: str, error: Mapping[str, Any]) -> str:
    """What pydantic found wrong with the value of ``path``, as a sentence: what it needs, and what it got."""
    limits: Mapping[str, Any] = error.get("ctx", {})
    kind = error["type"]
    needs = {
        "greater_than_equal": "{ge} or more",
        "greater_than": "more than {gt}",
        "less_than_equal": "{le} or less",
        "less_than": "less than {lt}",
        "literal_error": "one of {expected}",
        "too_short": "at least {min_length} entry",
    }.get(kind, _WORDS.get(kind, str(error["msg"])))
    needs = needs.format(**limits) if kind not in _WORDS else needs
    if kind == "tuple_type" and str(error["input"]).startswith("["):
        needs = "each text of its list in quotes (and single quotes round it all, for the shell)"
    if kind == "value_error":
        return f"`{path}`: {str(error['msg']).removeprefix('Value error, ')}"
    got = repr(error["input"])
    got = got if len(got) <= 60 else f"{got[:57]}…"
    off = f', or "{NONE}"' if nullable(path) else ""
    entry = " in its list" if takes_list(path) and kind not in ("tuple_type", "too_short") else ""
    return f"`{path}` needs {needs}{entry}{off}; it is {got}"
