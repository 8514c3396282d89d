"""Data sets of the hub, a row at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from arcslim.errors import InputError


def hub_rows(
    name: str, *, wrong: str, hint: str, config: str | None = None, split: str = "train", streaming: bool = True
) -> Iterator[Any]:
    """The rows of a data set; streamed, no more is downloaded than is taken.

    Raises:
        InputError: the hub cannot be reached, or the data set is not there: ``wrong``, with the library's first line,
            and ``hint``.
    """
    from datasets import load_dataset

    try:
        yield from load_dataset(name, config, split=split, streaming=streaming)
    except Exception as error:  # of some twenty kinds, from five libraries: all mean that it is not there
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{wrong}: {first}", hint) from error
