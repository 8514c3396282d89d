"""The console: what it shows, in any terminal and in none, and that nothing written by a model acts on it."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from arcslim.recipes.sink import Sink
from arcslim.runs.console import LiveView, SafeStream, Tee, open_view
from arcslim.runs.plain import PlainView
from arcslim.runs.view_state import ViewState
from arcslim.runs.visible import tail, visible
from tests.runs.made import feed, sample_row, task_row

SGR = re.compile(r"\x1b\[[0-9;]*m")
EVIL = "[red]red?[/red] [link=http://x]y[/link] :smile: \x1b[2J\x1b]0;title\x07 \r\b\x9b31m \u202e\u200b\ud800"


def live(columns: int, lines: int, **changes: Any) -> LiveView:
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="truecolor", width=columns, height=lines, highlight=False,
        markup=False, emoji=False, _environ={}, **changes,
    )  # fmt: skip
    return LiveView(ViewState(price_per_hour=0.44), "arcslim grpo", SafeStream(None), console=console)


def shown(view: LiveView) -> str:
    view.console.print(view.render())
    assert isinstance(view.console.file, io.StringIO)
    return view.console.file.getvalue()


# What models write -----------------------------------------------------------------------------------------------


def test_markup_and_escapes_of_a_model_are_shown_and_do_nothing() -> None:
    view = live(200, 50)
    feed(view, EVIL)
    text = SGR.sub("", shown(view))
    assert "[red]red?[/red]" in text
    assert r"\x1b[2J" in text
    assert not set(text) & {"\x1b", "\x07", "\r", "\b", "\x9b", "\u202e", "\u200b", "\ud800"}


def test_plain_lines_hold_no_escape_either() -> None:
    stream = io.StringIO()
    view = PlainView(ViewState(), EVIL, SafeStream(stream))
    with view:
        feed(view, EVIL)
    text = stream.getvalue()
    assert "[red]red?[/red]" in text
    assert r"\x1b[2J" in text
    assert not [character for character in text if character != "\n" and not character.isprintable()]


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60))
def test_what_is_made_visible_is_printable(text: str) -> None:
    assert visible(text).isprintable()
    assert len(tail(text, 20)) <= 20
    assert visible(visible(text)) == visible(text)


def test_a_runaway_completion_costs_no_time() -> None:
    assert len(tail("\x1b[2J" * 1_000_000, 100)) == 100


# Any terminal ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    columns=st.integers(24, 180),
    lines=st.integers(4, 60),
    side=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    colour=st.booleans(),
)
def test_it_fits_any_terminal(columns: int, lines: int, side: tuple[int, int], colour: bool) -> None:
    view = live(columns, lines, no_color=not colour)
    feed(view, "a long text, " * 30, [[index % 10 for index in range(side[1])]] * side[0])
    options = view.console.options.update(height=None)
    rows = view.console.render_lines(view.render(), options, pad=False)
    assert all(sum(segment.cell_length for segment in row) <= columns for row in rows)
    assert len(rows) < max(lines, 8)


def test_sixty_columns_show_the_essentials() -> None:
    view = live(60, 40)
    feed(view)
    text = SGR.sub("", shown(view))
    for words in ("step 2/10", "pass@1", "25.0% +15.0", "reward", "warning: turn it", "right answer 2×2", "truth 2×2"):
        assert words in text


def test_grids_are_coloured_and_without_colours_digits() -> None:
    view = live(80, 40)
    feed(view, grid=[[1, 4], [0, 8]])
    assert "48;2;0;116;217" in shown(view)  # ARC's blue as a background
    view = live(80, 40, no_color=True)
    feed(view, grid=[[1, 4], [0, 8]])
    text = shown(view)
    assert "48;2" not in text
    assert re.search(r"^14 +14 +14 *$", SGR.sub("", text), re.MULTILINE)
    assert re.search(r"^\.8 +\.8 +\.8 *$", SGR.sub("", text), re.MULTILINE)


def test_wrong_cells_are_marked_and_a_missing_grid_says_why() -> None:
    view = live(80, 40)
    feed(view)
    view.samples([sample_row(3, answer=[[1, 2], [3, 9]])])
    text = SGR.sub("", shown(view))
    assert "wrong answer 2×2" in text
    assert text.count("><") == 1
    view.samples([sample_row(3, answer=None, reason="no_thinking_close")])
    assert "no thinking close" in SGR.sub("", shown(view))


def test_a_sample_of_an_unknown_task_is_shown_all_the_same() -> None:
    view = live(80, 40)
    view.samples([sample_row(3, prompt_id="never seen")])
    assert "task not known" in SGR.sub("", shown(view))


# No terminal -----------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_one_a_step_and_samples_rarely() -> None:
    clock, stream = Clock(), io.StringIO()
    view = PlainView(ViewState(clock=clock), "run", SafeStream(stream))
    view.task_rows([task_row()])
    for step in range(1, 21):
        clock.now += 3
        view.progress(step - 1, 20, phase="rollout")
        view.samples([sample_row(step)])
        view.metrics(step, "train", {"reward/total": 0.5})
        view.event(step, "warning", "cut off")
    lines = stream.getvalue().splitlines()
    assert sum(line.startswith("step ") for line in lines) == 20
    assert sum(line.startswith("sample:") for line in lines) == 1
    # The same warning twenty times: said at 1, 2, 4, 8 and 16.
    assert [line for line in lines if line.startswith("warning")][-1].startswith("warning (16 times) at step 16")
    assert sum(line.startswith("warning") for line in lines) == 5


def test_plain_evaluations_have_a_line_of_their_own() -> None:
    stream = io.StringIO()
    view = PlainView(ViewState(), "run", SafeStream(stream))
    for step, value in ((0, 0.1), (25, 0.3), (50, 0.2)):
        view.metrics(step, "eval", {"eval/pass@1": value, "eval/n": 200})
    assert stream.getvalue().splitlines()[-1] == "evaluation at step 50: pass@1 20.0% (start 10.0%, best 30.0%) n 200"


PROGRAM = """
import sys
from arcslim.runs.console import open_view
from arcslim.runs.signals import StopRequest
from tests.runs.made import feed
view = open_view("run")
with view, StopRequest(notify=view.stopping):
    feed(view)
print(type(view).__name__, file=sys.stderr)
"""


@pytest.mark.parametrize("closing", ["<&-", ">&-", "<&- >&- ", "| head -c 1"])
def test_case_28_closed_streams_do_not_end_a_run(closing: str) -> None:
    """Case 28: standard input closed, no terminal: nothing is asked, and the run goes on."""
    command = f'{sys.executable} -c "$PROGRAM" {closing}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ | {"PROGRAM": PROGRAM, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PlainView" in done.stderr


@pytest.mark.parametrize(("term", "kind"), [("xterm-256color", "LiveView"), ("dumb", "PlainView")])
def test_a_real_terminal(term: str, kind: str) -> None:
    """A pseudo terminal of no stated size, with standard input closed."""
    main, terminal = pty.openpty()
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "TERM": term, "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        ["bash", "-c", f'{sys.executable} -c "$PROGRAM" <&-'], env=environment | {"PROGRAM": PROGRAM}, stdout=terminal,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        output = b""
        while True:
            try:
                output += os.read(main, 4096)
            except OSError:  # the other end is closed
                break
        _, errors = process.communicate(timeout=60)
    os.close(main)
    assert process.returncode == 0, errors
    assert kind in errors
    assert (b"\x1b[?25h" in output) == (kind == "LiveView")  # the cursor is back
    assert b"step 2/10" in output or kind == "PlainView"


def test_an_ascii_stream_gets_escapes_instead_of_errors() -> None:
    raw = io.BytesIO()
    view = open_view("run · é", stream=io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    with view:
        feed(view)
    assert rb"run \xb7 \xe9" in raw.getvalue()


# Time and money --------------------------------------------------------------------------------------------------


def test_time_left_and_the_bill() -> None:
    clock = Clock()
    state = ViewState(price_per_hour=0.36, clock=clock)
    assert state.outlook().left is None
    state.progress(0, 100, {})
    clock.now = 600  # the evaluation of the start belongs to the first step, and says nothing about the others
    state.progress(1, 100, {})
    for step in range(2, 12):
        clock.now += 30
        state.progress(step, 100, {})
    outlook = state.outlook()
    assert outlook.left == pytest.approx(89 * 30)
    assert outlook.cost == pytest.approx(900 / 3600 * 0.36)
    assert outlook.cost_total == pytest.approx((900 + 89 * 30) / 3600 * 0.36)
    clock.now += 15
    assert state.outlook().left == pytest.approx(89 * 30 - 15)


def test_max_hours_ends_the_projection() -> None:
    clock = Clock()
    state = ViewState(max_hours=0.5, clock=clock)
    for step in range(4):
        state.progress(step, 1000, {})
        clock.now += 60
    outlook = state.outlook()
    assert outlook.left == pytest.approx(1800 - 240)
    assert outlook.last_step == 3 + (1800 - 240) // 60


def test_a_resumed_run_counts_its_own_steps_only() -> None:
    clock = Clock()
    state = ViewState(clock=clock)
    for step in (400, 401, 402, 403):
        state.progress(step, 500, {})
        clock.now += 10
    clock.now -= 10
    assert state.outlook().left == pytest.approx(97 * 10)


def test_a_phase_without_a_step_leaves_the_step_alone() -> None:
    clock = Clock()
    state = ViewState(clock=clock)
    for step in range(4):
        state.progress(step, 100, {"phase": "rollout"})
        clock.now += 10
    state.progress(0, 0, {"phase": "evaluation", "done": 3, "of": 9})
    assert (state.step, state.total, state.phase, state.done, state.of) == (3, 100, "evaluation", 3, 9)
    assert state.outlook().left == pytest.approx(97 * 10 - 10)


def test_numbers_that_are_not_finite_are_passed_over() -> None:
    view = live(80, 40)
    feed(view)
    view.metrics(3, "train", {"reward/total": float("nan"), "thinking/tokens_mean": None})
    view.samples([sample_row(3, score={"total": float("nan"), "parts": {"grid": float("inf")}, "weights": {}})])
    assert "0.500" in SGR.sub("", shown(view))


def test_tee_gives_all_to_each() -> None:
    class Kept:
        def __init__(self) -> None:
            self.got: list[Any] = []

        def __getattr__(self, name: str) -> Any:
            return lambda *values, **facts: self.got.append((name, [*values], facts))

    one, two = Kept(), Kept()
    tee: Sink = Tee([one, two])
    rows: list[Any] = [sample_row(1), sample_row(2)]
    tee.samples(row for row in rows)
    tee.task_rows(row for row in [])
    tee.metrics(1, "train", {"loss": 1.0})
    tee.event(1, "warning", "x")
    tee.progress(1, 2, phase="rollout")
    assert one.got == two.got
    assert one.got[0] == ("samples", [rows], {})
    assert len(one.got) == 5
