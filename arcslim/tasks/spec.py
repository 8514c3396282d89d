"""Source specs: the short texts that say where tasks come from.

``rearc``, ``rearc:ID,ID``, ``arc1``, ``arc1:train``, ``arc1:eval``, ``arc2:PATH``, ``barc``, ``barc:FILE``, or the path
of an ARC JSON file, of a folder of them, or of a Kaggle challenges file; and for SFT some that hold rows. Each may end
in ``=WEIGHT``. A spec is only read here; ``sources.py`` opens it.

A new kind of source is one entry in ``KINDS`` here and one in ``sources.OPENERS``.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arcslim.errors import InputError

ARC1_SPLITS = ("train", "eval")
PATH = "path"
BUILT = "built"  # a folder that `arcslim data build` made
MANIFEST = "manifest.json"
DRAW = "draw"  # one image, to be drawn by a program
ROWS, HUB, SAMPLES = "rows", "hub", "samples"  # rows to learn by heart of, not tasks: for SFT alone
ROW_FILES = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?(@[\w.\[\]:%-]+)?")


@dataclass(frozen=True)
class Spec:
    """A source as asked for. ``argument`` is what follows the kind's colon, or the path; empty where nothing does."""

    kind: str
    argument: str
    weight: float

    @property
    def name(self) -> str:
        """The spec without its weight: the name that counts and messages use."""
        if self.kind in (PATH, ROWS, BUILT):
            return self.argument
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


@dataclass(frozen=True)
class Kind:
    """A kind of source that has a name of its own.

    ``check`` takes what follows the colon (empty where nothing does), and returns it in its plain form or raises
    ``InputError``.
    """

    form: str
    about: str
    check: Callable[[str], str]


def parse_spec(text: str) -> Spec:
    """Read one spec.

    Raises:
        InputError: for an unknown kind (with the nearest known one and the list of forms), a bad argument, or a
            weight that is not a number above 0.
    """
    body, weight = _split_weight(text.strip())
    if not body:
        raise InputError(f"an empty data source: {text!r}", _known_forms())
    word, colon, argument = body.partition(":")
    kind = KINDS.get(word)
    if kind is not None:
        if colon and not argument.strip():
            raise InputError(f"data source {text!r}: nothing follows the colon", f"known form: {kind.form}")
        return Spec(word, kind.check(argument), weight)
    if _looks_like_a_path(body):
        return Spec(_kind_of_path(body), body, weight)
    nearest = difflib.get_close_matches(word, KINDS, n=1, cutoff=0.5)
    guess = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise InputError(f"unknown data source {text!r}", guess + _known_forms())


def _split_weight(text: str) -> tuple[str, float]:
    """Cut ``=WEIGHT`` off. A path that exists with the ``=`` in its name is taken as it stands."""
    body, equals, tail = text.rpartition("=")
    if not equals or os.path.lexists(os.path.expanduser(text)):
        return text, 1.0
    try:
        weight = float(tail)
    except ValueError:
        if "/" in tail or tail.endswith((".json", *ROW_FILES)):
            return text, 1.0
        raise InputError(f"data source {text!r}: the weight {tail!r} is not a number", "write it as SPEC=0.5") from None
    if not math.isfinite(weight) or weight <= 0:
        raise InputError(
            f"data source {text!r}: a weight is a number above 0, not {tail}", "leave the source out instead"
        )
    return body, weight


def _looks_like_a_path(body: str) -> bool:
    if "\0" in body:
        return False
    return (
        body.endswith((".json", *ROW_FILES))
        or "/" in body
        or os.sep in body
        or body in (".", "..", "~")
        or Path(body).exists()
    )


def _kind_of_path(body: str) -> str:
    """Which kind of source lies at a path."""
    path = Path(body).expanduser()
    if body.endswith(ROW_FILES):
        return ROWS
    if (path / MANIFEST).is_file() and any(path.glob("*.parquet")):
        return BUILT
    if path.is_dir() and (path / "samples.jsonl").is_file():
        return SAMPLES
    return PATH


def or_hub(spec: Spec) -> Spec:
    """A path that does not exist and looks like OWNER/NAME, as the hub's data set of that name."""
    path = Path(spec.argument).expanduser()
    if spec.kind != PATH or path.exists() or spec.argument.endswith(".json") or not _HUB_ID.fullmatch(spec.argument):
        return spec
    return Spec(HUB, spec.argument, spec.weight)


def _check_hub(argument: str) -> str:
    if not _HUB_ID.fullmatch(argument):
        raise InputError(
            f"hub:{argument} names no data set", "write hub:OWNER/NAME, with :CONFIG and @SPLIT if need be"
        )
    return argument


def _check_run(argument: str) -> str:
    if not argument:
        raise InputError("samples: needs a run", "write samples:RUN, a GRPO run's folder")
    return argument


def _check_families(argument: str) -> str:
    ids = [part.strip() for part in argument.split(",")] if argument else []
    if not all(ids):
        raise InputError(f"rearc:{argument}: an empty generator id", "write rearc:ID,ID")
    repeated = sorted({name for name in ids if ids.count(name) > 1})
    if repeated:
        raise InputError(f"rearc:{argument}: {', '.join(repeated)} stands there more than once")
    return ",".join(ids)


def _check_arc1(argument: str) -> str:
    if argument and argument not in ARC1_SPLITS:
        nearest = difflib.get_close_matches(argument, ARC1_SPLITS, n=1, cutoff=0.4)
        guess = f"did you mean arc1:{nearest[0]}? " if nearest else ""
        raise InputError(f"ARC-1 has no part {argument!r}", f"{guess}known: arc1, arc1:train, arc1:eval")
    return argument


def _check_arc2(argument: str) -> str:
    if not argument:
        raise InputError("arc2 needs a path", "write arc2:FOLDER, such as arc2:ARC-AGI-2/data/training")
    return argument


def _check_draw(argument: str) -> str:
    if not argument:
        raise InputError("draw: needs a target", "write draw:TARGET, such as draw:9-vertical-lines or draw:picture.png")
    return argument


KINDS: dict[str, Kind] = {
    "rearc": Kind("rearc[:ID,ID...]", "RE-ARC's generators, all or those named", _check_families),
    "arc1": Kind("arc1[:train|:eval]", "ARC-AGI-1's public tasks", _check_arc1),
    "arc2": Kind("arc2:PATH", "ARC-AGI-2's tasks: its folder, or a Kaggle file", _check_arc2),
    "barc": Kind("barc[:FILE.jsonl]", "BARC's puzzles: a file (.gz or plain), or streamed from the hub", str),
    DRAW: Kind("draw:TARGET", "one image to draw by a program, as `arcslim her` does", _check_draw),
    HUB: Kind("hub:OWNER/NAME[:CONFIG][@SPLIT]", "a data set of the hub, for sft", _check_hub),
    SAMPLES: Kind("samples:RUN", "the right rollouts of a GRPO run, for sft", _check_run),
}


def _known_forms() -> str:
    lines = [f"{kind.form}: {kind.about}" for kind in KINDS.values()]
    lines.append("PATH: an ARC JSON file, a folder of them, or a Kaggle challenges file")
    lines.append("PATH: a folder that `arcslim data build` made")
    lines.append("PATH: rows as .jsonl, .jsonl.gz or .parquet, for sft")
    return "known forms, each with an optional =WEIGHT:\n    " + "\n    ".join(lines)
