"""The start of a run: what the data are, how the untrained policy does, and how much thinking is the least."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import tomlkit

from arcslim.config import Config
from arcslim.errors import RewardError, Stopped
from arcslim.policy.load import Policy
from arcslim.recipes.evaluate import Evaluation, evaluate
from arcslim.recipes.prepare import Asked, Prepared
from arcslim.recipes.sink import RunStore, Sink, StopSignal
from arcslim.recipes.state import RunState
from arcslim.rewards.suite import RewardSuite
from arcslim.rewards.thinking import measure_min_tokens

COPY_RATE_OF = {"families": "test_families", "arc1": "test_arc1"}
MEASURED_ON = 64  # training prompts to measure the thinking on where no task is held out


class Evaluator:
    """Evaluations of one run: the same prompts, the same seed, whatever the policy has become.

    ``held`` are the held-out prompts by name. ``losses`` gives ``eval/`` figures of held-out rows, where a recipe has
    such.
    """

    def __init__(
        self,
        config: Config,
        policy: Policy,
        held: Mapping[str, tuple[Asked, ...]],
        sink: Sink,
        stop: StopSignal,
        losses: Callable[[], dict[str, float]] | None = None,
    ) -> None:
        self._config, self._policy, self._held, self._sink, self._stop = config, policy, held, sink, stop
        self._losses = losses
        self.running: tuple[str, str] | None = None  # phase, and what to lower in it; stays where an error ended one

    @property
    def can_select(self) -> bool:
        """Whether anything is held out to choose the best checkpoint on."""
        return "select" in self._held or self._losses is not None

    def select(self) -> Evaluation:
        """On what the best checkpoint is chosen by."""
        rolled = Evaluation({}, ())
        if "select" in self._held:
            rolled = self.on(self._held["select"], self._config.run.eval_samples, "eval")
        if self._losses is None:
            return rolled
        with self._phase("the held-out loss", "sft.per_device_train_batch_size or sft.max_length"):
            losses = self._losses()
        return Evaluation(rolled.values | losses, rolled.rollouts)

    def tests(self, step: int) -> dict[str, float]:
        """On the sets held out for the final figures, each under its own name; ``step`` is that of the policy."""
        values: dict[str, float] = {}
        for name, asked in self._held.items():
            if name != "select":
                prefix = "test" if name == "test" else f"test_{name}"
                values |= self.on(asked, self._config.run.test_samples, prefix).values
        if values:
            self._sink.metrics(step, "test", values)
        return values

    def on(self, asked: tuple[Asked, ...], samples: int, prefix: str) -> Evaluation:
        run = self._config.run

        def on_batch(done: int, of: int) -> None:
            self._sink.progress(0, 0, phase="evaluation", done=done, of=of)
            self._stop.check()

        with self._phase("an evaluation", "run.eval_batch"):
            return evaluate(
                self._policy,
                asked,
                self._config.generation,
                samples=samples,
                batch=run.eval_batch,
                seed=run.seed + 1,
                prefix=prefix,
                on_batch=on_batch,
            )

    @contextlib.contextmanager
    def _phase(self, name: str, knob: str) -> Iterator[None]:
        self.running = (name, f"lower {knob}")
        try:
            yield
        except Stopped:
            self.running = None
            raise
        self.running = None


def tell_counts(counts_by_source: Mapping[str, Mapping[str, int]], sink: Sink) -> None:
    """Read, kept and dropped of each source, a line each."""
    for source, counts in counts_by_source.items():
        listed = ", ".join(f"{name} {number}" for name, number in counts.items())
        sink.event(0, "start", f"{source}: {listed}")


def tell_data(prepared: Prepared, sink: Sink) -> None:
    sink.event(0, "start", f"{len(prepared.train)} training prompts, the longest of {prepared.longest} tokens")
    tell_counts(prepared.split.counts, sink)
    for note in prepared.split.notes:
        sink.event(0, "warning", note)
    for name, asked in prepared.held.items():
        sink.task_rows(one.row for one in asked)
        copied = prepared.split.copy_rate.get(COPY_RATE_OF.get(name, name))
        if copied is not None:
            sink.event(0, "start", f"{name}: {len(asked)} tasks; answering the input back solves {copied:.1%}")


def look_at_the_start(state: RunState, evaluator: Evaluator, sink: Sink) -> Evaluation | None:
    """Evaluate and test the starting policy; the evaluation, where anything is held out for one."""
    selected = evaluator.select() if evaluator.can_select else None
    if selected is not None:
        sink.metrics(0, "eval", selected.values)
        state.start = dict(selected.values)
    state.start |= evaluator.tests(0)
    return selected


def measure_floor(suite: RewardSuite, looked_at: Evaluation, sink: Sink, store: RunStore) -> None:
    """Set the least thinking to what the starting policy's rollouts show, and write it into ``resolved.toml``.

    Raises:
        RewardError: it never thinks.
    """
    measured = measure_min_tokens(looked_at.rollouts)
    if measured is None:
        raise RewardError(
            "the starting policy never thinks, so that the least thinking cannot be measured",
            "set reward.min_thinking.min_tokens, or reward.min_thinking.mode = 'none'",
        )
    suite.set_min_tokens(measured.min_tokens)
    sink.event(0, "start", measured.words)
    resolved = tomlkit.parse((store.path / "resolved.toml").read_text(encoding="utf-8"))
    resolved["reward"]["min_thinking"]["min_tokens"] = measured.min_tokens
    store.write_text("resolved.toml", tomlkit.dumps(resolved))
