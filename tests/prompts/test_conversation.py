"""Rows of every usual form become a conversation with one block of thinking."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcslim.errors import InputError
from arcslim.prompts.conversation import Conversation, RowError, find_columns, read_conversation, split_thinking
from arcslim.prompts.render import PREFILL, completion_text
from arcslim.sft_config import ColumnsSection

QUESTION, THOUGHT, ANSWER = "What is 2 + 2?", "Two and two.\n\nThat is four.", "It is **4**."
INSIDE = f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"
USER = {"role": "user", "content": QUESTION}


def read(row: dict[str, Any], **columns: str) -> Conversation:
    return read_conversation(row, find_columns(list(row), ColumnsSection(**columns)))


def read_or_reason(row: dict[str, Any]) -> Conversation | str:
    try:
        return read(row)
    except RowError as error:
        return error.reason


def refused(row: dict[str, Any]) -> str:
    with pytest.raises(RowError) as caught:
        read(row)
    assert str(caught.value), "words for people"
    return caught.value.reason


def assistant(content: Any = INSIDE, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


FORMS: dict[str, dict[str, Any]] = {
    "messages": {"messages": [USER, assistant()]},
    "conversations": {"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": INSIDE}]},
    "reasoning_content of the message": {"messages": [USER, assistant(ANSWER, reasoning_content=THOUGHT)]},
    "reasoning of the message": {"messages": [USER, assistant(ANSWER, reasoning=THOUGHT)]},
    "thinking of the message": {"messages": [USER, assistant(ANSWER, thinking=THOUGHT)]},
    "reasoning of the row": {"messages": [USER, assistant(ANSWER)], "reasoning": THOUGHT},
    "thinking of the row": {"messages": [USER, assistant(ANSWER)], "thinking": THOUGHT},
    "both places, the same": {"messages": [USER, assistant(INSIDE, reasoning_content=THOUGHT)]},
    "both, one with its tags": {"messages": [USER, assistant()], "reasoning": f"<think>\n{THOUGHT}\n</think>"},
    "parts of a message": {"messages": [USER, assistant([{"type": "text", "text": INSIDE}])]},
    "an unanswered question behind": {"messages": [USER, assistant(), {"role": "user", "content": "Sure?"}]},
    "prompt and completion": {"prompt": QUESTION, "completion": INSIDE},
    "prompt and completion in turns": {"prompt": [USER], "completion": [assistant()]},
    "prompt, reasoning, completion": {"prompt": QUESTION, "reasoning_content": THOUGHT, "completion": ANSWER},
    "question, reasoning, answer": {"question": QUESTION, "reasoning": THOUGHT, "answer": ANSWER},
    "question, thinking, answer": {"question": QUESTION, "thinking": THOUGHT, "answer": ANSWER},
    "question and answer": {"question": QUESTION, "answer": INSIDE},
    "a flag, not reasoning": {"messages": [USER, assistant()], "reasoning": "on", "thinking": True},
    "a flag that is true": {"messages": [USER, assistant()], "thinking": True},
    # case 1: the prompt wrote the opener already, and so the completion has the closer alone
    "closer only": {"prompt": QUESTION, "completion": f"{THOUGHT}\n</think>\n\n{ANSWER}"},
    "opener in the prompt": {"prompt": f"{QUESTION}\n<think>\n", "completion": f"{THOUGHT}</think>{ANSWER}"},
    "opener in a turn of the prompt": {
        "prompt": [USER, assistant("<think>\n")],
        "completion": [assistant(f"{THOUGHT}\n</think>{ANSWER}")],
    },
    # case 2: an empty block, the reasoning, an orphan closer
    "empty block first": {"messages": [USER, assistant(f"<think>\n\n</think>\n\n{THOUGHT}\n</think>\n\n{ANSWER}")]},
    "opener twice": {"prompt": QUESTION, "completion": f"<think><think>{THOUGHT}</think>{ANSWER}"},
    "closer twice": {"prompt": QUESTION, "completion": f"<think>{THOUGHT}</think></think>{ANSWER}"},
}


@pytest.mark.parametrize("form", FORMS)
def test_cases_1_and_2_every_form_gives_the_same_text(form: str) -> None:
    """Cases 1 and 2: whatever a row looks like, question, thinking and answer come out the same, without a tag."""
    assert read(FORMS[form]) == Conversation((USER,), THOUGHT, ANSWER)


def test_case_3_earlier_answers_are_shown_without_their_thinking_and_counted() -> None:
    """Case 3: two turns. The first answer is context as a reasoning model's template shows it, and is not trained."""
    system = {"role": "system", "content": "Be brief."}
    again = {"role": "user", "content": "And 3 + 3?"}
    turns = [system, USER, assistant("<think>first</think>4"), again, assistant("<think>second</think>6")]
    found = read({"messages": turns})
    assert found == Conversation((system, USER, {"role": "assistant", "content": "4"}, again), "second", "6", 1)
    cut = [USER, assistant("4 <think>first, never closed"), again, assistant("<think>second</think>6")]
    assert read({"messages": cut}).messages[1]["content"] == "4", "an earlier cut-off thought costs no row"
    kept = [USER, assistant("4", reasoning_content="first"), again, assistant("6", reasoning_content="second")]
    assert read({"messages": kept}).messages == (USER, {"role": "assistant", "content": "4"}, again)


@pytest.mark.parametrize(
    ("reason", "row"),
    [
        ("no_reasoning", {"question": QUESTION, "answer": ANSWER}),
        ("no_reasoning", {"question": QUESTION, "reasoning": None, "answer": ANSWER}),
        ("no_reasoning", {"question": QUESTION, "reasoning": "  <think>\n</think> ", "answer": ANSWER}),
        ("no_reasoning", {"messages": [USER, assistant(ANSWER)], "reasoning": "off"}),
        ("no_reasoning", {"messages": [USER, assistant(f"<think>\n\n</think>\n\n{ANSWER}")]}),
        ("cut_off", {"prompt": QUESTION, "completion": f"<think>{THOUGHT}"}),
        ("cut_off", {"prompt": f"{QUESTION}<think>", "completion": THOUGHT}),
        ("cut_off", {"prompt": QUESTION, "completion": f"<think>a</think>b<think>{THOUGHT}"}),
        ("cut_off", {"question": QUESTION, "reasoning": THOUGHT, "answer": "<think>more"}),
        ("no_answer", {"prompt": QUESTION, "completion": f"<think>{THOUGHT}</think>\n"}),
        ("no_answer", {"prompt": QUESTION, "completion": f"<think>{THOUGHT}</think>{ANSWER}</think>"}),
        ("no_answer", {"question": QUESTION, "reasoning": THOUGHT, "answer": "  "}),
        ("no_answer", {"question": QUESTION, "reasoning": THOUGHT, "answer": None}),
        ("no_answer", {"messages": [USER]}),
        ("no_answer", {"messages": []}),
        ("no_answer", {"messages": [USER, assistant(None, reasoning_content=THOUGHT)]}),
        ("no_question", {"messages": [assistant()]}),
        ("no_question", {"prompt": [], "completion": INSIDE}),
        ("no_question", {"prompt": "", "completion": INSIDE}),
        ("no_question", {"question": " \n", "reasoning": THOUGHT, "answer": ANSWER}),
        ("no_question", {"messages": [{"role": "user", "content": " "}, assistant()]}),
        ("no_question", {"prompt": "<think>", "completion": f"{THOUGHT}</think>{ANSWER}"}),
        ("no_question", {"messages": [{"role": "system", "content": "Be brief."}, assistant()]}),
        ("malformed", {"messages": "not a list"}),
        ("malformed", {"messages": None}),
        ("malformed", {"messages": ["not a turn"]}),
        ("malformed", {"messages": [{"role": "wizard", "content": "abra"}, assistant()]}),
        ("malformed", {"messages": [{}]}),
        ("malformed", {"question": True, "reasoning": THOUGHT, "answer": ANSWER}),
        ("malformed", {"question": QUESTION, "reasoning": [THOUGHT], "answer": ANSWER}),
        ("malformed", {"prompt": QUESTION, "completion": f"<thi<think>nk>{THOUGHT}</think>{ANSWER}"}),
        ("encoding", {"question": "\ud83d", "reasoning": THOUGHT, "answer": ANSWER}),
        ("encoding", {"messages": [USER, assistant([{"type": "text", "text": INSIDE + "\ude00"}])]}),
    ],
)  # fmt: skip
def test_a_row_without_use_says_why(reason: str, row: dict[str, Any]) -> None:
    assert refused(row) == reason


@pytest.mark.parametrize(
    "content",
    [
        "<think>t</think>The tag </think> closes a block.",
        "t</think>a</think>b",
        f"<think></think>{THOUGHT}</think>The tag </think> closes it.",
    ],
)
def test_an_answer_that_quotes_the_closer_is_left_out(content: str) -> None:
    """Nobody can say where the thinking ends."""
    assert refused({"messages": [USER, assistant(content)]}) == "malformed"


@pytest.mark.parametrize(
    "row",
    [
        {"reasoning_content": None, "reasoning": THOUGHT},
        {"reasoning_content": "", "thinking": THOUGHT},
        {"reasoning_content": "high", "thinking": THOUGHT},
    ],
)
def test_of_several_reasoning_columns_the_first_with_a_text_is_taken(row: dict[str, Any]) -> None:
    assert read({"question": QUESTION, "answer": ANSWER} | row).thinking == THOUGHT
    assert read({"messages": [USER, assistant(ANSWER, **row)]}).thinking == THOUGHT


@pytest.mark.parametrize("word", ["high", "disabled", "Medium", "none", "auto"])
def test_a_column_that_says_how_much_reasoning_there_is_holds_none(word: str) -> None:
    found = read({"messages": [USER, assistant()], "reasoning": word})
    assert found.thinking == THOUGHT and not found.joined


def test_a_whole_character_outside_the_first_plane_is_no_half_one() -> None:
    assert read({"question": "😀?", "reasoning": "😀", "answer": "é"}).thinking == "😀"


def test_what_stands_in_two_places_and_differs_is_all_kept() -> None:
    row = {"messages": [USER, assistant(INSIDE, reasoning_content="A plan.")], "reasoning": "A hint."}
    assert read(row).thinking == f"A hint.\n\nA plan.\n\n{THOUGHT}"
    assert read(row).joined


@pytest.mark.parametrize(
    ("content", "joined"),
    [
        (INSIDE, False),
        (f"<think>\n</think>\n{THOUGHT}\n</think>\n{ANSWER}", False),
        (f"<think>one</think><think>two</think>{ANSWER}", True),
        (f"<think>one</think> said between <think>two</think>{ANSWER}", True),
    ],
)
def test_thinking_in_several_blocks_is_told_apart(content: str, joined: bool) -> None:
    assert read({"messages": [USER, assistant(content)]}).joined == joined


def test_case_4_a_question_keeps_the_blanks_at_its_ends() -> None:
    """Case 4: at inference nobody takes a newline off a question, and so training must not."""
    asked = "\n  What is it?\n12\n34\n"
    for row in ({"question": asked}, {"messages": [{"role": "user", "content": asked}, assistant()]}):
        found = read({"reasoning": f"\n{THOUGHT}\n", "answer": f"\n{ANSWER} ", **row})
        assert found == Conversation(({"role": "user", "content": asked},), THOUGHT, ANSWER)


def test_columns_of_other_names() -> None:
    row = {"problem": QUESTION, "trace": THOUGHT, "solution": ANSWER, "answer": "4", "messages": [USER, assistant("x")]}
    found = read(row, question="problem", reasoning="trace", answer="solution")
    assert found == Conversation((USER,), THOUGHT, ANSWER)
    assert read(row, question="problem", reasoning="trace").answer == "4", "the rest under its usual name"


def test_of_several_forms_the_conversation_is_taken_unless_another_is_named() -> None:
    row = {"messages": [USER, assistant()], "question": "Q", "answer": "<think>t</think>A", "prompt": "only this"}
    assert read(row).answer == ANSWER
    assert read(row, question="question").answer == "A"


@pytest.mark.parametrize(
    ("present", "columns", "words"),
    [
        (["problem", "solution"], {}, ["none of the forms", "problem, solution", "data.columns.question=problem"]),
        (["question", "answer"], {"answer": "solution"}, ["'solution'", "data.columns.answer", "answer, question"]),
        (["messages"], {"reasoning": "trace"}, ["'trace'", "data.columns.reasoning", "messages"]),
        # what is named must be used, not passed over for another form
        (["messages", "problem"], {"question": "problem"}, ["data.columns.question", "messages, problem"]),
        (["messages", "prompt"], {"messages": "messages", "prompt": "prompt"}, ["data.columns.messages and data.col"]),
        (["prompt"], {}, ["none of the forms"]),
        ([], {}, ["no columns"]),
    ],
)
def test_a_missing_column_is_an_error_that_lists_those_present(
    present: list[str], columns: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        find_columns(present, ColumnsSection(**columns))
    for word in words:
        assert word in str(caught.value)


PIECES = st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", ">", " ", "\n", "a", "b2", "é", "<answer>", "1"])
TEXTS = st.lists(PIECES, max_size=14).map("".join)


def letters(text: str) -> str:
    """A text without its tags and without its blanks."""
    return re.sub(r"\s", "", re.sub(r"</?think>", "", text))


@given(prompt=TEXTS, beside=TEXTS, completion=TEXTS)
@example(prompt="q", beside="", completion="<think>\n\n</think>a\n</think>b2")
@example(prompt="q", beside="", completion="<thi<think>nk>a</think>1")
@example(prompt="q", beside="</th<think>ink>", completion="1")
def test_case_2_any_mixture_of_tags_gives_one_opener_and_one_closer(prompt: str, beside: str, completion: str) -> None:
    """Case 2: one opener (the prefill's) and one closer, or a reason; what is kept is kept whole and in order."""
    found = read_or_reason({"prompt": prompt, "reasoning": beside, "completion": completion})
    if isinstance(found, str):
        assert found in {"no_reasoning", "cut_off", "no_answer", "no_question", "malformed"}
        assert found != "malformed" or "<thi" in beside + completion or "</" in beside + completion
        return
    rendered = PREFILL + completion_text(found.thinking, found.answer)
    assert rendered.count("<think>") == rendered.count("</think>") == 1
    thinking, _, answer = rendered.removeprefix(PREFILL).partition("</think>")
    assert thinking.strip() and answer.strip()
    wanted = letters(completion)
    got = letters(found.thinking) + letters(found.answer)
    assert got in (letters(beside) + wanted, wanted), "nothing is lost, nothing twice"
    if letters(beside) not in ("", letters(split_thinking(completion)[0])):
        assert got == letters(beside) + wanted


def test_thousands_of_tags_take_no_time() -> None:
    """Case 7's kind: 5,000 openers, tags inside of tags, and a closer at the end."""
    texts = ["<think>" * 5000, "<thi" * 20_000 + "<think>" + "nk>" * 20_000, "</think><think>" * 5000]
    began = time.perf_counter()
    for text in texts:
        with pytest.raises(RowError):
            read({"prompt": "q", "completion": f"{text} a </think>"})
    assert time.perf_counter() - began < 0.5


def test_a_number_is_a_text() -> None:
    """Answers of mathematics sets often are numbers."""
    assert read({"question": 7, "reasoning": THOUGHT, "answer": 4.5}).answer == "4.5"
