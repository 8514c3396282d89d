"""Show a task from another side: turned or mirrored, recoloured, its examples in another order.

What is done is the same for every grid of a task, examples and test, so that the task stays what it is
(``content.py``). It is drawn from the seed and the task's own content: not from its place among the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from arcslim.data_config import DataSection
from arcslim.tasks.content import symmetries
from arcslim.tasks.grid import COLOURS, Grid
from arcslim.tasks.task import Pair, Task

TURNS = 8
_NOTHING = (0, tuple(range(COLOURS)))


@dataclass(frozen=True)
class Change:
    """``turn``: which symmetry of the square, 0 none; colour i becomes ``colours[i]``; ``order``: of the examples."""

    turn: int
    colours: tuple[int, ...]
    order: tuple[int, ...]

    def apply(self, task: Task) -> Task:
        """The task after the change. Its id says the turn and the colours, so that an answer can be turned back."""
        train = tuple(self._pair(task.train[number]) for number in self.order)
        test = tuple(self._pair(pair) for pair in task.test)
        return Task(task.task_id + self._words(), task.source, task.family, train, test)

    def grid(self, grid: Grid) -> Grid:
        table = np.array(self.colours, dtype=np.int8)
        return Grid(table[symmetries(grid.cells)[self.turn]])

    def _pair(self, pair: Pair) -> Pair:
        return Pair(self.grid(pair.input), None if pair.output is None else self.grid(pair.output))

    def _words(self) -> str:
        turned = f"~t{self.turn}" if self.turn else ""
        coloured = "" if self.colours == _NOTHING[1] else "~c" + "".join(map(str, self.colours))
        return turned + coloured + ("~o" if list(self.order) != sorted(self.order) else "")


def is_asked_for(data: DataSection) -> bool:
    return data.augment_symmetry or data.augment_order or data.augment_colors != "none"


def draw_change(task: Task, data: DataSection, seed: int, attempt: int = 0) -> Change:
    """The change for a task, by the knobs ``data.augment_*``; another one for each ``attempt``."""
    rng = random.Random(f"{seed}/augment/{task.content_hash()}/{attempt}")
    turn = rng.randrange(TURNS) if data.augment_symmetry else 0
    colours = list(range(COLOURS))
    if data.augment_colors != "none":
        first = 1 if data.augment_colors == "keep0" else 0
        moved = colours[first:]
        rng.shuffle(moved)
        colours[first:] = moved
    order = list(range(len(task.train)))
    if data.augment_order:
        rng.shuffle(order)
    return Change(turn, tuple(colours), tuple(order))
