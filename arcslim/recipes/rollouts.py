"""From completions to rollouts, scores and sample rows; and the reward function that TRL calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from arcslim.policy.generate import to_completion
from arcslim.policy.load import Policy
from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.recipes.prepare import Asked
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


class RolloutScorer:
    """The one reward function that TRL is given: it reads, scores and records a whole rollout at once.

    TRL sees the total; the parts, the shares of the advantage and the samples go to the sink. ``pending`` holds the
    figures of the newest rollout until the step that trains on it is written (see ``callbacks.Recorder``).
    """

    __name__ = "arcslim"  # TRL names the function's metrics by it

    def __init__(
        self,
        policy: Policy,
        suite: RewardSuite,
        asked: dict[str, Asked],
        sink: Sink,
        stop: StopSignal,
        *,
        group_size: int,
        sample_every: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._suite, self._asked, self._sink, self._stop = policy, suite, asked, sink, stop
        self._reader = Reader(policy.tokenizer)
        self._group_size, self._sample_every, self._clock = group_size, sample_every, clock
        self._rollouts = 0
        self.pending: dict[str, float] = {}
        self.rollout_ended = self.reward_ended = 0.0

    def __call__(
        self, completion_ids: Sequence[Sequence[int]], prompt_id: Sequence[str], trainer_state: Any, **_: Any
    ) -> list[float]:
        """Scores of ``completion_ids``, groups of ``group_size`` consecutive ones sharing a prompt.

        Raises:
            NonFiniteError: no row has a finite reward.
            Stopped: a stop was asked for while rolling out: the weights are still those of the last step.
        """
        self.rollout_ended = self._clock()
        asked = [self._asked[name] for name in prompt_id]
        completions = [to_completion(self._policy, ids) for ids in completion_ids]
        rollouts = self._reader.read(asked, completions)
        scored = self._suite.score(rollouts, group_size=self._group_size, training=True)
        step = int(trainer_state.global_step) + 1
        self.pending = dict(scored.metrics) | {
            "tokens/prompt": float(sum(len(one.prompt.token_ids) for one in asked)),
            "tokens/completion": float(sum(len(one.token_ids) for one in completions)),
        }
        if self._rollouts % self._sample_every == 0:
            self._sink.task_rows(one.row for one in {one.prompt.prompt_id: one for one in asked}.values())
            self._sink.samples(self._rows(step, rollouts, scored))
        self._rollouts += 1
        self.reward_ended = self._clock()
        return scored.rewards

    def _rows(self, step: int, rollouts: Sequence[Rollout], scored: Scored) -> list[SampleRow]:
        return [
            sample_row(step, number // self._group_size, rollout, score, advantage)
            for number, (rollout, score, advantage) in enumerate(
                zip(rollouts, scored.scores, scored.advantages, strict=True)
            )
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
