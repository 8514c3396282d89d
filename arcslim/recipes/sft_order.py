"""In which order rows are trained on: shuffled anew each epoch, one epoch after the other, by seed alone.

The trainer goes through them as they stand. So a run that is resumed goes on with the next row, whatever else has
drawn random numbers meanwhile.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from arcslim.sft_config import SftSection


def in_order(lengths: Sequence[int], sft: SftSection, *, seed: int, packed: int | None = None) -> list[int]:
    """The whole run as indices into its rows, whose ``lengths`` are given in tokens.

    With ``group_by_length`` the rows of one update are sorted by length before they are cut into micro-batches: less
    padding, and the update is of the same rows as without. ``packed``: tokens of a sequence that several rows share;
    then ``max_steps`` counts updates of sequences, and whole epochs are laid out that are enough for them.
    """
    assert sft.batch_size is not None and sft.num_train_epochs is not None
    wanted = max(round(len(lengths) * sft.num_train_epochs), 1)
    if sft.max_steps is not None:
        wanted = sft.max_steps * sft.batch_size
        if packed is not None:
            an_epoch = max(sum(min(length, packed) for length in lengths) // packed, 1)  # sequences, at the least
            wanted = len(lengths) * math.ceil(wanted / an_epoch)
    ordered: list[int] = []
    for epoch in range(math.ceil(wanted / len(lengths))):
        shuffled = list(range(len(lengths)))
        random.Random(f"{seed}/{epoch}").shuffle(shuffled)
        ordered += shuffled
    ordered = ordered[:wanted]
    if sft.group_by_length:
        for start in range(0, len(ordered), sft.batch_size):
            update = ordered[start : start + sft.batch_size]
            ordered[start : start + sft.batch_size] = sorted(update, key=lengths.__getitem__)
    return ordered
