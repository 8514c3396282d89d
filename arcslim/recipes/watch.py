"""The watch: signs of collapse, told in words a while before a run is lost.

It is shown the metrics of each rollout and tells of a sign once, at its onset. Told, a sign is armed again when a
rollout does not show it. What "the start" was is the mean of the first ``START_ROLLOUTS`` values of a metric.

=================  ===============================  ===================================================  ==============
sign               metric                           shown when                                           told after
=================  ===============================  ===================================================  ==============
``all_cut_off``    ``completion/cut_off_rate``      it is 1                                              1 rollout
``cut_off``        ``completion/cut_off_rate``      at or over ``cut_off_rate``                          ``patience``
``thinking``       ``thinking/tokens_mean``         under ``thinking_share`` of the start's              ``patience``
``repetition``     ``completion/repetition``        at or over ``repetition_rate``                       ``patience``
``spread``         ``group/no_spread_rate``         at or over ``no_spread_rate``                        ``patience``
``correct_spread`` ``group/correct_spread_rate``    mean of the first rollouts under its threshold       the start
``entropy``        ``policy/entropy``               under ``entropy_share`` of the start's               ``patience``
=================  ===============================  ===================================================  ==============

A metric that is missing, or not finite, leaves its sign as it was: metrics of one rollout may come in several calls.
No torch here: the watch sees numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from arcslim.config import Watch as Reaction
from arcslim.config import WatchSection

START_ROLLOUTS = 5
ENTROPY_STEPS = 10  # the coefficient goes from its start to its maximum in so many rollouts
ENTROPY_RECOVERED = 1.2  # of the threshold: the coefficient is lowered only clearly above it

CUT_OFF, THINKING = "completion/cut_off_rate", "thinking/tokens_mean"
REPETITION, ENTROPY = "completion/repetition", "policy/entropy"
NO_SPREAD, CORRECT_SPREAD = "group/no_spread_rate", "group/correct_spread_rate"


@dataclass(frozen=True)
class Finding:
    """A sign at its onset: what to do (the recipe acts), and what to tell the user."""

    sign: str
    action: Literal["stop", "warn"]
    words: str


class Watch:
    """Looks for the signs of a ``WatchSection``. ``beta`` is ``grpo.beta``: over 0, groups without spread push too."""

    def __init__(self, section: WatchSection, *, beta: float = 0.0) -> None:
        self.section = section
        self.beta = beta
        self._starts: dict[str, list[float]] = {}  # the first values of each metric
        self._streaks: dict[str, int] = {}  # rollouts in a row that show a sign
        self._told: set[str] = set()
        self._last_entropy: float | None = None
        self._first_coef: float | None = None

    def observe(self, metrics: Mapping[str, float]) -> list[Finding]:
        """The signs that this rollout's metrics bring to their onset; mostly none."""
        values = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        at_start = self._correct_spread(values)
        for name in (THINKING, ENTROPY, CORRECT_SPREAD):
            self._remember(name, values)
        findings = [
            self._all_cut_off(values),
            self._over("cut_off", self.section.cut_off, CUT_OFF, self.section.cut_off_rate, values),
            self._under("thinking", self.section.thinking, THINKING, self.section.thinking_share, values),
            self._over("repetition", self.section.repetition, REPETITION, self.section.repetition_rate, values),
            self._over("spread", self.section.spread, NO_SPREAD, self.section.no_spread_rate, values),
            at_start,
            self._under("entropy", self.section.entropy, ENTROPY, self.section.entropy_share, values),
        ]
        self._last_entropy = values.get(ENTROPY, self._last_entropy)
        return [finding for finding in findings if finding is not None]

    def entropy_coef(self, current: float) -> float:
        """The entropy bonus to go on with: one step up while the entropy is under its share of the start's, one step
        down once it is back (1.2 times that), between the coefficient first seen and ``entropy_coef_max``."""
        if self._first_coef is None:
            self._first_coef = current
        start, first = self.start_of(ENTROPY), self._first_coef
        room = self.section.entropy_coef_max - first
        if self.section.entropy == "ignore" or start is None or self._last_entropy is None or room <= 0:
            return current
        least = self.section.entropy_share * start
        if self._last_entropy < least:
            return min(self.section.entropy_coef_max, current + room / ENTROPY_STEPS)
        if self._last_entropy >= ENTROPY_RECOVERED * least:
            return max(first, current - room / ENTROPY_STEPS)
        return current

    def start_of(self, name: str) -> float | None:
        """The mean of a metric over the first rollouts; None until there are enough."""
        seen = self._starts.get(name, [])
        return sum(seen) / len(seen) if len(seen) >= START_ROLLOUTS else None

    def state_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "starts": {name: list(values) for name, values in self._starts.items()},
            "streaks": dict(self._streaks),
            "told": sorted(self._told),
            "last_entropy": self._last_entropy,
            "first_coef": self._first_coef,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._starts = {name: [float(value) for value in values] for name, values in state["starts"].items()}
        self._streaks = {sign: int(streak) for sign, streak in state["streaks"].items()}
        self._told = set(state["told"])
        self._last_entropy = state["last_entropy"]
        self._first_coef = state["first_coef"]

    def _remember(self, name: str, values: Mapping[str, float]) -> None:
        seen = self._starts.setdefault(name, [])
        if name in values and len(seen) < START_ROLLOUTS:
            seen.append(values[name])

    def _over(
        self, sign: str, reaction: Reaction, name: str, limit: float, values: Mapping[str, float]
    ) -> Finding | None:
        if name not in values:
            return None
        return self._onset(sign, reaction, values[name] >= limit, _words(sign, values[name], limit, self.beta))

    def _under(
        self, sign: str, reaction: Reaction, name: str, share: float, values: Mapping[str, float]
    ) -> Finding | None:
        start = self.start_of(name)
        if name not in values or start is None or start <= 0:
            return None
        return self._onset(sign, reaction, values[name] < share * start, _words(sign, values[name], start, self.beta))

    def _all_cut_off(self, values: Mapping[str, float]) -> Finding | None:
        if CUT_OFF not in values:
            return None
        # one rollout is enough to say so, and too little to stop for: `cut_off` does that
        reaction: Reaction = "ignore" if self.section.cut_off == "ignore" else "warn"
        return self._onset("all_cut_off", reaction, values[CUT_OFF] >= 1.0, _words("all_cut_off", 1.0, 1.0), patience=1)

    def _correct_spread(self, values: Mapping[str, float]) -> Finding | None:
        """Told once, by the rollout that completes the start."""
        seen = self._starts.get(CORRECT_SPREAD, [])
        if CORRECT_SPREAD not in values or len(seen) != START_ROLLOUTS - 1:
            return None
        mean = (sum(seen) + values[CORRECT_SPREAD]) / START_ROLLOUTS
        if self.section.spread == "ignore" or mean >= self.section.correct_spread_rate:
            return None
        return Finding("correct_spread", "warn", _words("correct_spread", mean, self.section.correct_spread_rate))

    def _onset(
        self, sign: str, reaction: Reaction, shown: bool, words: str, *, patience: int | None = None
    ) -> Finding | None:
        if not shown:
            self._streaks[sign] = 0
            self._told.discard(sign)
            return None
        self._streaks[sign] = self._streaks.get(sign, 0) + 1
        if reaction == "ignore" or sign in self._told or self._streaks[sign] < (patience or self.section.patience):
            return None
        self._told.add(sign)
        return Finding(sign, reaction, words)


_WORDS = {
    "all_cut_off": """
        every completion of this rollout was cut off at the length limit, so nothing was learned from it about solving
        tasks: raise generation.max_completion_length, or start from a model that ends its answers (SFT first)""",
    "cut_off": """
        {value:.0%} of completions are cut off at the length limit ({against:.0%} is where it counts): the policy
        rambles, or the limit is too short. Look at the newest samples: raise generation.max_completion_length if they
        still reason, go back to the best checkpoint if they repeat themselves""",
    "thinking": """
        thinking has shrunk to {value:.0f} tokens, from {against:.0f} at the start: it is collapsing. Set
        reward.min_thinking.mode to floor (or raise its price_max), and leave out tasks solved without thought""",
    "repetition": """
        {value:.0%} of the 4-grams in completions are repeats ({against:.0%} is where it counts): the policy loops. Go
        back to the best checkpoint and lower optim.learning_rate, or set grpo.beta above 0""",
    "spread": """
        in {value:.0%} of groups every completion gets the same reward: those groups teach nothing{pull}. The tasks are
        too easy or too hard for this model: choose others, or raise grpo.num_generations or generation.temperature""",
    "correct_spread": """
        at the start only {value:.0%} of groups have both right and wrong answers (under {against:.0%}): most of the
        gradient then teaches format and length, not solving. Choose tasks that the model solves 10-80% of the time,
        raise grpo.num_generations, or do SFT first""",
    "entropy": """
        the entropy has fallen to {value:.3g}, from {against:.3g} at the start: the policy stops exploring. The entropy
        bonus is raised up to watch.entropy_coef_max; if that does not hold it, lower optim.learning_rate or go back to
        the best checkpoint""",
}


def _words(sign: str, value: float, against: float, beta: float = 0.0) -> str:
    """What a sign means and what to do; ``against`` is the threshold, or the start's value."""
    pull = f"; with grpo.beta {beta:g} they still pull the policy back to where it started" if beta > 0 else ""
    return " ".join(_WORDS[sign].format(value=value, against=against, pull=pull).split())
