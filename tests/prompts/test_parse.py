"""Parsing completions, with hypothesis for what must hold of any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.prompts.nouns import Parsed
from arcslim.prompts.parse import parse, parse_grid
from arcslim.prompts.text import grid_to_text
from arcslim.tasks.grid import Grid

SQUARE = Grid([[1, 2], [3, 4]])
ANSWER = "<answer>\n12\n34\n</answer>"
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
grids = st.integers(1, 30).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 9), min_size=width, max_size=width), min_size=1, max_size=30
    ).map(Grid)
)  # fmt: skip
pieces = st.lists(
    st.one_of(st.sampled_from([*TAGS, "12\n34", "7", " ", "\n", "word"]), st.text(max_size=5)), max_size=30
)


def test_the_plain_form() -> None:
    assert parse(f"flip it\n</think>\n\n{ANSWER}") == Parsed("flip it", SQUARE, None)


@pytest.mark.parametrize("opener", ["<think>\n", "<think>", "\n<think>\n", "<think><think>"])
def test_closer_only_equals_the_full_form(opener: str) -> None:
    """Case 1: the prompt already wrote the opener, so a completion with and without it means the same."""
    rest = f"flip it</think>{ANSWER}"
    assert parse(opener + rest) == parse(rest) == Parsed("flip it", SQUARE, None)


@pytest.mark.parametrize("block", ["</think>", "\n\n</think>\n\n", "<think>\n\n</think>\n"])
def test_empty_block_then_reasoning_then_orphan_closer(block: str) -> None:
    """Case 2: the reasoning between an empty block and an orphan closer is the thinking, once."""
    assert parse(f"{block}flip it\n</think>\n{ANSWER}") == Parsed("flip it", SQUARE, None)


def test_a_draft_in_reasoning_before_an_orphan_closer_does_not_count() -> None:
    """Cases 2 and 6 together."""
    draft = "</think>maybe <answer>7</answer>, no</think>"
    assert parse(draft) == Parsed("maybe <answer>7</answer>, no", None, "no_answer")
    assert parse(draft + ANSWER).answer == SQUARE


def test_a_stray_closer_after_the_answer_changes_nothing() -> None:
    assert parse(f"flip</think>{ANSWER}</think>") == Parsed("flip", SQUARE, None)
    assert parse(f"flip</think>{ANSWER} that is all </think> really") == Parsed("flip", SQUARE, None)
    assert parse(f"</think>{ANSWER}</think></think>") == Parsed("", SQUARE, None)


def test_several_blocks_of_thinking_count_once_each_up_to_the_answer() -> None:
    text = f"one</think><think>two</think>three</think>{ANSWER}<think>after</think>"
    assert parse(text) == Parsed("one\ntwo\nthree", SQUARE, None)


@pytest.mark.parametrize(
    "text",
    [
        "t</think><answer>7</answer><answer>12\n34</answer>",
        "t</think><answer>7</answer> wait, no: <answer>12\n34</answer> yes",
        "t</think><answer>not a grid</answer><answer>12\n34</answer>",
        "<answer>7</answer></think><answer>12\n34</answer>",
        "t</think><answer>12\n34</answer> or <answer>7 7",
        "t</think><answer>12\n34</answer></answer>",
        "t</think><answer> <answer>12\n34</answer>",
        "t</think><answer>12\n34</answer><think>or <answer>7</answer></think>",
        "t</think><answer>12\n34</answer><think>or <answer>7</answer>",
    ],
)
def test_the_last_complete_block_after_the_thinking_counts(text: str) -> None:
    """Case 6: two blocks, a draft and a corrected grid, an opener left over, grids inside thinking."""
    assert parse(text).answer == SQUARE


@pytest.mark.parametrize("text", [f"{ANSWER}</think>", f"<think>{ANSWER}</think> done", f"a {ANSWER} b</think>"])
def test_a_grid_only_inside_the_thinking_does_not_count(text: str) -> None:
    """Case 6: a grid only inside the thinking."""
    parsed = parse(text)
    assert parsed.answer is None
    assert parsed.reason == "no_answer"
    assert "12\n34" in parsed.thinking


def test_a_last_block_that_is_no_grid_is_what_was_answered() -> None:
    assert parse(f"t</think>{ANSWER}<answer>I do not know</answer>").reason == "not_a_grid"


@pytest.mark.parametrize("text", ["", "flip it", f"flip it {ANSWER}", "<think><think>", "</thi", "<THINK>x</THINK>"])
def test_thinking_never_closed(text: str) -> None:
    assert parse(text) == Parsed("", None, "no_thinking_close")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("before", ["", "</think>", "thought</think>"])
def test_unclosed_openers_are_parsed_in_no_time(tag: str, before: str) -> None:
    """Case 7: 5,000 unclosed openers in 200 KB, under 50 ms."""
    text = before + (tag + "x" * (40 - len(tag))) * 5_000
    assert len(text) >= 200_000

    def milliseconds() -> float:
        start = time.perf_counter()
        parse(text)
        return 1_000 * (time.perf_counter() - start)

    assert min(milliseconds() for _ in range(5)) < 50


@pytest.mark.parametrize(
    "unit", ["<answer>7</answer></think>", "<answer>7</answer>x</think>", "</think>", "<answer>", "<think>", "7\n"]
)
def test_time_is_linear_in_the_length(unit: str) -> None:
    def seconds(repeats: int) -> float:
        text = "</think>" * repeats + unit * repeats + "<answer>" + unit * repeats + "</answer>"
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            parse(text)
            runs.append(time.perf_counter() - start)
        return min(runs)

    assert seconds(16_000) < 10 * max(seconds(4_000), 1e-4)  # quadratic would be 16 times


def test_a_right_answer_followed_by_2000_characters_counts() -> None:
    """Case 8: a 30 x 30 answer with 2,000 more characters behind it (the score: tests/rewards/test_grid.py)."""
    grid = Grid([[(row * column) % 10 for column in range(30)] for row in range(30)])
    text = f"t</think><answer>{grid_to_text(grid, 'compact')}</answer>" + "and so on " * 200
    assert parse(text) == Parsed("t", grid, None)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("777", [[7, 7, 7]]),
        ("7 7 7", [[7, 7, 7]]),
        (" 7\t7  7 \r\n 0 0 0 \r\n", [[7, 7, 7], [0, 0, 0]]),
        ("\n\n12\n34\n\n", [[1, 2], [3, 4]]),
        ("7", [[7]]),
        ("7\n7", [[7], [7]]),
        ("0" * 30, [[0] * 30]),
    ],
)
def test_grids(text: str, rows: list[list[int]]) -> None:
    assert parse_grid(text) == Grid(rows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("the grid", "not_a_grid"),
        ("12\n3x", "not_a_grid"),
        ("12\n\n34", "not_a_grid"),
        ("77 7", "not_a_grid"),
        ("1, 2", "not_a_grid"),
        ("[[1]]", "not_a_grid"),
        ("-1", "not_a_grid"),
        ("1.0", "not_a_grid"),
        ("<answer>1", "not_a_grid"),
        ("٣٣", "not_a_grid"),
        ("³", "not_a_grid"),
        ("7\N{NO-BREAK SPACE}7", "not_a_grid"),
        ("7\u200b7", "not_a_grid"),
        ("12\n345", "ragged"),
        ("1 2\n1", "ragged"),
        ("0" * 31, "too_large"),
        ("0\n" * 31, "too_large"),
        ("0" * 200_000, "too_large"),
    ],
)
def test_what_is_no_grid_says_why(text: str, reason: str) -> None:
    assert parse_grid(text) == reason
    if "<" not in text:
        assert parse(f"t</think><answer>{text}</answer>") == Parsed("t", None, reason)  # type: ignore[arg-type]


@given(grids, st.sampled_from(["compact", "spaced"]))
def test_both_formats_come_back(grid: Grid, style: str) -> None:
    assert parse_grid(grid_to_text(grid, style)) == grid  # type: ignore[arg-type]


@settings(max_examples=300)
@given(st.one_of(st.text(), pieces.map("".join), st.text(alphabet="<>/thinkaswer7 \n")))
def test_never_raises_and_the_reason_stands_for_the_answer(text: str) -> None:
    parsed = parse(text)
    assert (parsed.answer is None) == (parsed.reason is not None)
    if parsed.reason == "no_thinking_close":
        assert parsed.thinking == ""
        assert "</think>" not in text


@given(pieces.map("".join), grids)
def test_a_last_answer_after_a_closer_and_an_opened_thought_always_counts(noise: str, grid: Grid) -> None:
    """Whatever came before, thinking that is opened, closed and followed by an answer ends in that answer."""
    text = f"{noise}<think>so it is</think><answer>{grid_to_text(grid, 'compact')}</answer>"
    parsed = parse(text)
    assert parsed.answer == grid
    assert parsed.thinking.endswith("so it is")


@given(st.text(st.characters(codec="utf-8", exclude_characters="<>"), max_size=200))
def test_thinking_is_kept_word_for_word(thought: str) -> None:
    assert parse(f"{thought}</think>{ANSWER}") == Parsed(thought.strip(), SQUARE, None)
    assert parse(f"<think>{thought}</think>{ANSWER}").thinking == thought.strip()
