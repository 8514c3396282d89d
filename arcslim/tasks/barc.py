"""BARC's synthetic puzzles, as published: one JSON object a line, with ``examples`` as pairs of grids.

``{"source": code, "examples": [[input, output], ...], "seeds": [...]}``; what stands beside ``examples`` is not read.

Published puzzles often have four pairs only, and some grids are over 30 cells a side. So:

- a pair with such a grid is left out (``pair_too_large``), and so is one that is there already (``repeated_pair``);
- of the others the first ``data.pairs`` + 1 are taken, and the last of them is the test: fewer examples than
  ``data.pairs`` are used as they are, and how often is told;
- a puzzle that is left with fewer than 3 pairs is dropped: ``too_large`` where the size is to blame, else
  ``too_few_pairs``;
- a puzzle that gives one input two outputs is dropped (``contradiction``), and so is one with any other fault in any
  of its grids.

Source: W. Li et al., "Combining Induction and Transduction for Abstract Reasoning" (2024).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arcslim.errors import TaskError
from arcslim.tasks.arc import MAX_PAIRS, Refused, kind_of, read_grid
from arcslim.tasks.grid import Grid
from arcslim.tasks.hub import hub_rows
from arcslim.tasks.jsonfile import parse_json
from arcslim.tasks.lines import Unreadable, read_lines
from arcslim.tasks.task import Pair, Task

SOURCE = "barc"
HUB_NAME = "barc0/200k_HEAVY_gpt4o-description-gpt4omini-code_generated_problems"
LEAST_PAIRS = 3  # two examples and a test: one example is no rule
LONGEST_LINE = 8 * 2**20  # bytes; a puzzle of 64 pairs of 30 x 30 is 230 KB, its code beside it
_FORM = 'a BARC row is {"examples": [[input, output], ...], "source": ..., "seeds": ...}'


def read_barc(path: Path, pairs: int, passed_over: Counter[str]) -> Iterator[tuple[str, Task] | Refused]:
    """The puzzles of a JSONL file (``.gz`` or plain), each with its place as ``file.jsonl:12``, in their order.

    ``passed_over`` counts the pairs that were left out.

    Raises:
        TaskError: the file cannot be opened.
    """
    for line in read_lines(path, LONGEST_LINE):
        if isinstance(line, Unreadable):
            yield Refused(line.place, line.reason, line.words)
            continue
        try:
            yield line.place, parse_puzzle(parse_json(line.text), pairs, passed_over)
        except TaskError as error:
            yield Refused(line.place, error.reason, error.message)


def stream_barc(pairs: int, passed_over: Counter[str]) -> Iterator[tuple[str, Task] | Refused]:
    """The same from the hub, without downloading more than is taken: its one file is 6.2 GB.

    Raises:
        InputError: the hub cannot be reached, or the data set is not there.
    """
    rows = hub_rows(
        HUB_NAME,
        wrong=f"BARC cannot be read from the hub ({HUB_NAME})",
        hint="with no network, give a file: barc:FILE.jsonl or barc:FILE.jsonl.gz",
    )
    for number, row in enumerate(rows, 1):
        try:
            yield f"{SOURCE}:{number}", parse_puzzle(row, pairs, passed_over)
        except TaskError as error:
            yield Refused(f"{SOURCE}:{number}", error.reason, error.message)


def parse_puzzle(row: Any, pairs: int, passed_over: Counter[str]) -> Task:
    """One puzzle out of a parsed row; at most ``pairs`` examples. Its id comes from its grids.

    Raises:
        TaskError: with the reason and the place inside the row.
    """
    if not isinstance(row, dict):
        raise TaskError("not_a_task", f"a row is an object, not {kind_of(row)}", _FORM)
    if "examples" not in row:
        keys = ", ".join(repr(str(key)[:30]) for key in list(row)[:6])
        raise TaskError("missing_key", f"no 'examples' (keys: {keys or 'none'})", _FORM)
    examples = row["examples"]
    if not isinstance(examples, list):
        raise TaskError("not_a_task", f"'examples' is a list of pairs, not {kind_of(examples)}", _FORM)
    if len(examples) > MAX_PAIRS:
        raise TaskError("too_many_pairs", f"{len(examples)} pairs; at most {MAX_PAIRS} are read")
    left_out = Counter[str]()
    usable = _usable(examples, left_out)
    if len(usable) < LEAST_PAIRS:
        reason = "too_large" if left_out["pair_too_large"] else "too_few_pairs"
        over = f", {left_out['pair_too_large']} over 30 cells a side" if reason == "too_large" else ""
        raise TaskError(reason, f"{len(usable)} usable pairs of {len(examples)}{over}; {LEAST_PAIRS} are needed")
    passed_over.update(left_out)
    return _named(usable[: pairs + 1])


def _usable(examples: list[Any], left_out: Counter[str]) -> list[Pair]:
    usable: dict[Grid, Pair] = {}
    for number, item in enumerate(examples, 1):
        if not isinstance(item, list) or len(item) != 2:
            what = f"a list of {len(item)}" if isinstance(item, list) else kind_of(item)
            raise TaskError("not_a_task", f"example {number} is a pair of grids, not {what}", _FORM)
        try:
            pair = Pair(read_grid(item[0], f"example {number}, input"), read_grid(item[1], f"example {number}, output"))
        except TaskError as error:
            if error.reason != "too_large":
                raise
            left_out["pair_too_large"] += 1
            continue
        before = usable.setdefault(pair.input, pair)
        if before is pair:
            continue
        if before.output != pair.output:
            raise TaskError("contradiction", f"example {number} has the input of an earlier one and another output")
        left_out["repeated_pair"] += 1
    return list(usable.values())


def _named(pairs: list[Pair]) -> Task:
    digest = hashlib.sha256(b"|".join(pair.key() for pair in pairs)).hexdigest()[:12]
    name = f"{SOURCE}-{digest}"
    return Task(name, SOURCE, name, tuple(pairs[:-1]), (pairs[-1],))
