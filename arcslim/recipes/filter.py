"""The difficulty filter: roll each task out K times, and keep those that the model solves sometimes.

A task that is never solved, and one that always is, gives a group without spread: GRPO learns nothing from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from arcslim.config import Config
from arcslim.policy.generate import generate
from arcslim.policy.load import Policy
from arcslim.recipes.filter_report import Tried
from arcslim.recipes.prepare import Asked
from arcslim.recipes.rollout_cache import RolloutCache, Tally, task_key
from arcslim.recipes.rollouts import Reader
from arcslim.recipes.sink import StopSignal

OnTried = Callable[[int, int], None]


def try_tasks(
    asked: Sequence[Asked],
    config: Config,
    samples: int,
    cache: RolloutCache,
    load: Callable[[], Policy],
    stop: StopSignal,
    on_tried: OnTried | None = None,
) -> list[Tried]:
    """At least ``samples`` completions of each task, those that ``cache`` knows included, and how many are right.

    ``load`` is called only where something is left to be drawn. What was drawn is in the cache after each batch of
    ``run.eval_batch`` completions, so that a run that is stopped goes on where it was.

    Raises:
        Stopped: a stop was asked for.
    """
    keys = [task_key(one) for one in asked]
    left = {key: one for key, one in zip(keys, asked, strict=True) if cache.known(key).samples < samples}
    if left:
        policy = load()
        reader, done = Reader(policy.tokenizer), len(asked) - len(left)
        for some, missing in _batches(left, cache, samples, config.run.eval_batch):
            _draw(some, missing, config, cache, policy, reader, stop)
            done += len(some)
            if on_tried is not None:
                on_tried(done, len(asked))
            stop.check()
    return [Tried(one.task, cache.known(key)) for key, one in zip(keys, asked, strict=True)]


def _batches(
    left: dict[str, Asked], cache: RolloutCache, samples: int, batch: int
) -> Iterator[tuple[dict[str, Asked], int]]:
    """Tasks that miss equally many samples, the longest prompts first: so memory runs out at once, or not at all."""
    missing = {key: samples - cache.known(key).samples for key in left}
    for number in sorted(set(missing.values()), reverse=True):
        keys = [key for key in left if missing[key] == number]
        keys.sort(key=lambda key: -len(left[key].prompt.token_ids))
        size = max(batch // number, 1)
        for start in range(0, len(keys), size):
            yield {key: left[key] for key in keys[start : start + size]}, number


def _draw(
    some: dict[str, Asked],
    number: int,
    config: Config,
    cache: RolloutCache,
    policy: Policy,
    reader: Reader,
    stop: StopSignal,
) -> None:
    known = cache.known(next(iter(some))).samples
    seed = random.Random(f"{config.run.seed}/{known}/{'/'.join(some)}").getrandbits(48)
    drawn = generate(
        policy,
        [one.prompt.token_ids for one in some.values()],
        config.generation,
        samples=number,
        batch=config.run.eval_batch,
        seed=seed,
        on_batch=lambda done, of: stop.check() if done < of else None,  # what is whole is kept first
    )
    tallies = []
    for (key, one), completions in zip(some.items(), drawn, strict=True):
        rollouts = reader.read([one] * number, completions)
        right = sum(rollout.solved for rollout in rollouts)
        cut_off = sum(completion.cut_off for completion in completions)
        tallies.append((key, one.task.task_id, Tally(number, right, cut_off)))
    cache.add(tallies)
