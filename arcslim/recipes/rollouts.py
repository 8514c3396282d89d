"""From prompts to completions, rollouts, scores and sample rows: what TRL calls in a step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from arcslim.config import Config
from arcslim.policy.generate import generate, to_completion
from arcslim.policy.load import Policy
from arcslim.policy.sampling import EntropyMeter
from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.recipes.prepare import Asked, string_prompt
from arcslim.recipes.sink import SampleRow, Sink, StopSignal
from arcslim.rewards.base import Rollout, Score
from arcslim.rewards.suite import RewardSuite, Scored


class Reader:
    """Understands completions: parses them, and counts the tokens of closed thinking with the policy's tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def read(self, asked: Sequence[Asked], completions: Sequence[Completion]) -> list[Rollout]:
        """One rollout for each pair of a question and a completion."""
        parsed = [parse(completion.text) for completion in completions]
        texts = [one.thinking for one in parsed]
        counts = [len(ids) for ids in self._tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []
        return [
            Rollout(one.prompt.prompt_id, one.task, completion, understood, tokens, one.prompt.text)
            for one, completion, understood, tokens in zip(asked, completions, parsed, counts, strict=True)
        ]


class Rollouts:
    """What TRL is given to roll out with (``roll_out``) and to score by (the object itself, its one reward function).

    TRL sees each total; the parts, the shares of the advantage and the samples go to the sink.
    """

    __name__ = "arcslim"  # TRL names the function's metrics by it

    def __init__(
        self,
        policy: Policy,
        suite: RewardSuite,
        asked: Sequence[Asked],
        config: Config,
        sink: Sink,
        stop: StopSignal | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._suite, self._config, self._sink, self._clock = policy, suite, config, sink, clock
        self._stop = stop
        self._reader = Reader(policy.tokenizer)
        self._by_id = {one.prompt.prompt_id: one for one in asked}
        self._by_text = {string_prompt(one.prompt, policy.tokenizer): one for one in asked}
        self._pending: dict[str, float] = {}
        self._count = 0
        self.rolled_out_at = self.scored_at = 0.0  # on the clock; 0 before the first
        self.is_drawing = False
        self._entropy: float | None = None  # of the newest rollout

    def roll_out(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """TRL's ``rollout_func``: ``prompts`` repeats each prompt ``num_generations`` times in a row.

        Generates ``generation.rollout_batch`` rows at a time: the KV cache of a whole rollout would not fit a 24 GB
        card. The draws depend on the run's seed, the step and the process alone, so that a resumed run repeats them.

        Raises:
            Stopped: a stop was asked for.
        """
        samples = self._config.grpo.num_generations
        asked = [self._by_text[text] for text in prompts[::samples]]
        step, total = trainer.state.global_step, trainer.state.max_steps

        def on_batch(done: int, of: int) -> None:
            self._sink.progress(step, total, phase="rollout", done=done, of=of)
            if self._stop is not None:
                self._stop.check()  # nothing is lost: a resumed run draws this rollout again, the same

        meter = EntropyMeter(self._policy)
        self.is_drawing = True
        drawn = generate(
            self._policy,
            [one.prompt.token_ids for one in asked],
            self._config.generation,
            samples=samples,
            batch=self._config.generation.rollout_batch,
            seed=rollout_seed(self._config.run.seed, step, trainer.accelerator.process_index),
            on_batch=on_batch,
            entropy=meter,
        )
        self._entropy = meter.mean
        self.is_drawing = False
        self.rolled_out_at = self._clock()
        return {
            "prompt_ids": [list(one.prompt.token_ids) for one in asked for _ in range(samples)],
            "completion_ids": [list(completion.token_ids) for group in drawn for completion in group],
            "logprobs": None,
        }

    def __call__(
        self,
        completion_ids: Sequence[Sequence[int]],
        prompt_id: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        """Scores of ``completion_ids``: groups of ``num_generations`` consecutive ones share a prompt.

        Raises:
            NonFiniteError: no row has a finite reward.
        """
        began = self._clock()
        asked = [self._by_id[name] for name in prompt_id]
        completions = [to_completion(self._policy, ids) for ids in completion_ids]
        rollouts = self._reader.read(asked, completions)
        group_size = self._config.grpo.num_generations
        scored = self._suite.score(rollouts, group_size=group_size, training=True)
        step = int(trainer_state.global_step) + 1
        if self._count % self._config.run.sample_every == 0:
            self._sink.task_rows(one.row for one in {one.prompt.prompt_id: one for one in asked}.values())
            self._sink.samples(sample_rows(step, rollouts, scored, group_size))
        self._count += 1
        self.scored_at = self._clock()
        self._pending = dict(scored.metrics) | {
            "tokens/prompt": float(sum(len(one.prompt.token_ids) for one in asked)),
            "tokens/completion": float(sum(len(one.token_ids) for one in completions)),
            "seconds/reward": self.scored_at - began,
        }
        if self._entropy is not None:
            self._pending["policy/entropy"] = self._entropy
        if log_metric is not None:
            for name, value in self._pending.items():
                log_metric(name, value)  # TRL hands them to W&B, trackio or TensorBoard
        return scored.rewards

    def take_pending(self) -> dict[str, float]:
        """The figures of the newest rollout, once: they belong to the first step that trains on it."""
        pending, self._pending = self._pending, {}
        return pending


def rollout_seed(seed: int, step: int, process: int) -> int:
    """A seed of its own for each rollout of each process; far apart, as ``generate`` counts up from it."""
    return random.Random(f"{seed}/{step}/{process}").getrandbits(48)


def sample_rows(step: int, rollouts: Sequence[Rollout], scored: Scored, group_size: int) -> list[SampleRow]:
    """The rows of a rollout for ``samples.jsonl``."""
    scores = zip(rollouts, scored.scores, scored.advantages, strict=True)
    return [
        sample_row(step, number // group_size, rollout, score, advantage)
        for number, (rollout, score, advantage) in enumerate(scores)
    ]


def sample_row(step: int, group: int, rollout: Rollout, score: Score, advantage: float) -> SampleRow:
    """A row of ``samples.jsonl``."""
    answer = rollout.parsed.answer
    return {
        "step": step,
        "group": group,
        "prompt_id": rollout.prompt_id,
        "task_id": rollout.task.task_id,
        "completion": rollout.completion.text,
        "thinking": rollout.parsed.thinking,
        "answer": None if answer is None else answer.rows(),
        "reason": rollout.parsed.reason,
        "cut_off": rollout.completion.cut_off,
        "thinking_tokens": rollout.thinking_tokens,
        "completion_tokens": len(rollout.completion.token_ids),
        "score": {"total": score.total, "parts": score.parts, "weights": score.weights},
        "advantage": advantage,
    }
