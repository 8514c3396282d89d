"""Data sets of the hub, a row at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arcslim.errors import InputError


def hub_rows(
    name: str, *, wrong: str, hint: str, config: str | None = None, split: str = "train", streaming: bool = True
) -> Iterator[Any]:
    """The rows of a data set; streamed, no more is downloaded than is taken, and nothing if `arcslim prefetch` did it.

    Raises:
        InputError: the hub cannot be reached, or the data set is not there: ``wrong``, with the library's first line,
            and ``hint``.
    """
    from datasets import load_dataset

    try:
        yield from load_dataset(name, config, split=split, streaming=streaming and not is_prepared(name))
    except Exception as error:  # of some twenty kinds, from five libraries: all mean that it is not there
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{wrong}: {first}", hint) from error


def is_prepared(name: str) -> bool:
    """Whether the data set was downloaded and prepared on this machine, whichever part of it."""
    from datasets import config
    from datasets.naming import camelcase_to_snakecase

    owner, _, own = name.rpartition("/")
    folder = f"{owner}___{camelcase_to_snakecase(own)}" if owner else camelcase_to_snakecase(own)
    return any((Path(config.HF_DATASETS_CACHE) / folder).glob("*/*/*/dataset_info.json"))
