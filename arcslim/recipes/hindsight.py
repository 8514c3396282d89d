"""Hindsight: what an epoch's programs drew becomes what they were asked to draw. No torch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from arcslim.her_config import HerSection
from arcslim.prompts.drawing import program_text
from arcslim.prompts.nouns import Completion
from arcslim.tasks.drawing import DrawingRefused, Image, Program
from arcslim.tasks.drawing_choice import (
    Drawing,
    draw,
    image_key,
    is_noop,
    novel,
    ordered,
    pixel_accuracy,
    prune,
    same_image,
    shortest_by_image,
)
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.targets import Target

CUT_OFF, CHANGES_NOTHING = "cut_off", "changes_nothing"


@dataclass(frozen=True)
class Pair:
    """What is trained on: ``program``, as the answer to the question for ``image``; ``drawn`` is what it draws."""

    image: Image
    program: Program
    drawn: Image

    @classmethod
    def of(cls, program: Program, blank: Image) -> Pair:
        """A program with its own image: hindsight."""
        image = program.run(blank)
        return cls(image, program, image)


@dataclass(frozen=True)
class LookedBack:
    """An epoch's programs, looked at.

    ``drawn``: how many were sampled; ``refused``: why some are none, or change nothing, by reason. ``valid``: the
    others, pruned, in the order of sampling. ``distinct``: one of each image. ``new``: those whose image was never
    trained on. ``pairs``: what to train on, in order. ``written``: what the model wrote for each drawing, and
    ``spoiled`` the first that came to nothing, by reason. ``tokens``: of all programs together.
    """

    drawn: int
    refused: Counter[str]
    valid: tuple[Drawing, ...]
    distinct: tuple[Drawing, ...]
    new: tuple[Drawing, ...]
    pairs: tuple[Pair, ...]
    written: Mapping[Drawing, Completion]
    spoiled: Mapping[str, Completion]
    tokens: int

    def best(self, target: Image) -> tuple[float, Drawing | None]:
        """The highest pixel accuracy, and the drawing that has it; 0 and None without any."""
        scored = [(pixel_accuracy(drawing.output, target), drawing) for drawing in self.distinct]
        return max(scored, key=lambda item: item[0], default=(0.0, None))


def look_back(
    completions: Sequence[Completion], target: Target, seen: AbstractSet[bytes], her: HerSection, rng: random.Random
) -> LookedBack:
    """Run every program, and make training pairs of those that are worth it.

    Order of things: refuse, run, leave out what changes nothing, prune, one program an image (the shortest), no image
    of ``seen``, order by accuracy. The pair's image is what the program drew (hindsight).
    """
    refused: Counter[str] = Counter()
    written: dict[Drawing, Completion] = {}
    spoiled: dict[str, Completion] = {}
    for completion in completions:
        try:
            written[_read(completion, target.blank)] = completion
        except (DrawingRefused, _NothingDrawn) as error:
            reason = error.reason if isinstance(error, DrawingRefused) else str(error)
            refused[reason] += 1
            spoiled.setdefault(reason, completion)
    valid = tuple(written)
    distinct = shortest_by_image(valid) if her.shortest_only else _first_by_image(valid)
    new = novel(distinct, seen)
    chosen = ordered(new if her.novel_only else distinct, target.image, her.order, rng)
    pairs = tuple(_pairs(chosen, target, her, rng))
    tokens = sum(len(completion.token_ids) for completion in completions)
    drawn = len(completions)
    return LookedBack(drawn, refused, valid, tuple(distinct), tuple(new), pairs, written, spoiled, tokens)


class _NothingDrawn(Exception):
    """A program that comes to nothing, though it may be well-formed."""


def _read(completion: Completion, blank: Image) -> Drawing:
    if completion.cut_off:
        raise _NothingDrawn(CUT_OFF)
    program = parse_program(program_text(completion.text))
    if is_noop(program, blank):
        raise _NothingDrawn(CHANGES_NOTHING)
    return draw(prune(program, blank), blank)


def _first_by_image(drawings: Sequence[Drawing]) -> list[Drawing]:
    first: dict[bytes, Drawing] = {}
    for drawing in drawings:
        first.setdefault(image_key(drawing.output), drawing)
    return list(first.values())


def _pairs(chosen: Sequence[Drawing], target: Target, her: HerSection, rng: random.Random) -> list[Pair]:
    if not her.relabel:
        return [Pair(target.image, drawing.program, drawing.output) for drawing in chosen]
    pairs = [Pair(drawing.output, drawing.program, drawing.output) for drawing in chosen]
    for pair in pairs:  # what hindsight stands on; a pruned program that draws something else would teach nonsense
        if not same_image(pair.program.run(target.blank), pair.image):
            raise AssertionError(f"a program does not draw its image:\n{pair.program.to_source()}")
    if her.shuffle_pairs and len(pairs) > 1:
        shift = rng.randrange(1, len(pairs))  # a rotation: none keeps its own image
        return [replace(pair, image=pairs[(at + shift) % len(pairs)].image) for at, pair in enumerate(pairs)]
    return pairs
