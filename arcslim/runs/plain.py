"""The view where there is no terminal: one compact line a step, and lines of their own for what matters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rich.text import Text

from arcslim.runs.figures import PASS, outlook_words, reward_parts
from arcslim.runs.grid_view import Panel, draw_panels
from arcslim.runs.view_state import SampleView, ViewState
from arcslim.runs.visible import tail, visible

STEP_EVERY = 1.0  # seconds: faster steps share a line
SAMPLE_EVERY = 600.0  # seconds between samples, the first one aside
WIDTH = 100

# Metric -> short name, form. The reward's parts are put in by name.
LINE = {
    "reward/solved_rate": ("solved", "{:.0%}"),
    "completion/token_accuracy": ("token_accuracy", "{:.1%}"),
    "thinking/tokens_mean": ("thinking", "{:.0f}"),
    "completion/cut_off_rate": ("cut_off", "{:.0%}"),
    "policy/entropy": ("entropy", "{:.3f}"),
    "policy/kl": ("kl", "{:.4f}"),
    "optim/lr": ("lr", "{:.2g}"),
    "her/best_pixel_accuracy": ("best", "{:.0%}"),
    "her/unique_rate": ("unique", "{:.0%}"),
    "her/novel_rate": ("new", "{:.0%}"),
    "her/code_lines_mean": ("lines", "{:.1f}"),
    "her/generations_total": ("programs", "{:.0f}"),
}


class Stream(Protocol):
    def write(self, text: str) -> int: ...
    def flush(self) -> None: ...
    def fileno(self) -> int: ...


class PlainView:
    """Writes whole lines, without colours or control characters: for logs, pipes and notebooks."""

    def __init__(self, state: ViewState, title: str, stream: Stream) -> None:
        self.state = state
        self._title = title
        self._stream = stream
        self._step_at: float | None = None
        self._sample_at: float | None = None
        self._nearest = -1.0
        self._phase = ""

    def metrics(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        numbers = self.state.metrics(step, kind, values)
        if kind != "train":
            self._evaluation(step, numbers)
            return
        now = self.state.clock()
        if self._step_at is None or now - self._step_at >= STEP_EVERY or step == self.state.total:
            self._step_at = now
            self._line(self._step_words(step, numbers))

    def samples(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.state.samples(rows)
        now = self.state.clock()
        sample = self.state.sample
        if self.state.drawings:
            self._drawing(now)
        elif sample is not None and (self._sample_at is None or now - self._sample_at >= SAMPLE_EVERY):
            self._sample_at = now
            self._sample(sample)

    def task_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.state.task_rows(rows)

    def event(self, step: int, event: str, detail: str) -> None:
        # The same warning at every step would hide the rest: said the first time, then at 2, 4, 8, … times.
        count = self.state.event(step, event, detail).count
        if count & (count - 1) == 0:
            times = f" ({count} times)" if count > 1 else ""
            self._line(f"{visible(event)}{times} at step {step}: {visible(detail)}")

    def progress(self, step: int, total: int, **facts: Any) -> None:
        self.state.progress(step, total, facts)
        # Before the first step there is nothing else to be seen.
        if self.state.phase != self._phase and step == 0 and self._step_at is None:
            self._phase = self.state.phase
            self._line(f"{visible(self.state.phase)} …")

    def stopping(self, text: str) -> None:
        """Called inside a signal handler, perhaps in a buffered write: so past the buffer, no lock."""
        with contextlib.suppress(OSError):  # the stream is gone, or is no file: the wish counts all the same
            os.write(self._stream.fileno(), f"{visible(text)}\n".encode("ascii", "backslashreplace"))

    def __enter__(self) -> PlainView:
        self._line(visible(self._title))
        return self

    def __exit__(self, *details: Any) -> None:
        self._stream.flush()

    def _step_words(self, step: int, numbers: Mapping[str, float]) -> str:
        words = [f"step {step}/{self.state.total}"]
        if "reward/total" in numbers:
            words.append(f"reward {numbers['reward/total']:.3f}")
        elif "loss" in numbers:  # GRPO's loss says nothing: without a reward there is no other figure
            words.append(f"loss {numbers['loss']:.4f}")
        for name in reward_parts(numbers):
            words.append(f"{visible(name.removeprefix('reward/'))} {numbers[name]:.3f}")
        words += [f"{short} {form.format(numbers[name])}" for name, (short, form) in LINE.items() if name in numbers]
        memory = numbers.get("memory/gpu_peak_bytes") or numbers.get("memory/host_peak_bytes")
        if memory:
            words.append(f"memory {memory / 2**30:.1f} GiB")
        return "  ".join([*words, *outlook_words(self.state.outlook(), short=True)])

    def _evaluation(self, step: int, numbers: Mapping[str, float]) -> None:
        passed = [(at, values[PASS]) for at, values in self.state.evaluations if PASS in values]
        words = [f"evaluation at step {step}:"]
        if PASS in numbers:
            words.append(f"pass@1 {numbers[PASS]:.1%}")
            if len(passed) > 1 and passed[0][0] == 0:
                words.append(f"(start {passed[0][1]:.1%}, best {max(value for _, value in passed):.1%})")
        words += [f"{name.removeprefix('eval/')} {value:.4g}" for name, value in numbers.items() if name != PASS]
        self._line(" ".join(visible(word) for word in words))

    def _sample(self, sample: SampleView) -> None:
        lines = [f"sample: {score_words(sample)}"]
        lines += [f"  {_plain(line)}" for line in draw_panels(sample_panels(sample), WIDTH, 31, colour=False)]
        lines.append(f"  {tail(sample.thinking or sample.completion, WIDTH) or '(no text)'}")
        self._line("\n".join(lines))

    def _drawing(self, now: float) -> None:
        """Each drawing that comes nearer than any before, beside the target."""
        target, *drawn = drawing_panels(self.state)
        newest = self.state.drawings[-1]
        if newest.accuracy <= self._nearest:
            return
        self._nearest = newest.accuracy
        shown = draw_panels([target, drawn[-1]], WIDTH, 31, colour=False)
        self._line("\n".join(["nearer:", *(f"  {_plain(line)}" for line in shown)]))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def sample_panels(sample: SampleView) -> list[Panel]:
    """Input, truth and answer; the answer's caption says whether it is right."""
    known = sample.answer is not None and sample.truth is not None
    verdict = ("right" if sample.answer == sample.truth else "wrong") if known else ""
    return [
        Panel("input", sample.input, "task not known"),
        Panel("truth", sample.truth, "hidden"),
        Panel(
            f"{verdict} answer".strip(),
            sample.answer,
            visible(sample.reason or "none").replace("_", " "),
            sample.truth if verdict else None,
        ),
    ]


def drawing_panels(state: ViewState) -> list[Panel]:
    """The target, then the drawings that came nearer and nearer to it."""
    truth = state.sample.truth if state.sample is not None else None
    drawn = [Panel(f"{one.step}: {one.accuracy:.0%}", one.cells) for one in state.drawings]
    return [Panel("target", truth, "not known"), *drawn]


def score_words(sample: SampleView) -> str:
    """The reward with its parts, the thinking's length, how the whole batch did, and where it comes from."""
    total = "?" if sample.total is None else f"{sample.total:.2f}"
    parts = ", ".join(f"{visible(name)} {part:.2f}" for name, part in sample.parts.items())
    batch = f"{sample.right} of {sample.of} right" if sample.of > 1 else ""
    words = [f"reward {total} ({parts})", f"thinking {sample.thinking_tokens}", batch, f"step {sample.step}"]
    return " · ".join([*filter(None, words), visible(sample.task_id)])


def _plain(line: Text) -> str:
    return line.plain.rstrip()
