"""A row of a reasoning data set, in whichever of the usual forms, becomes a conversation with one block of thinking.

Forms: ``messages`` (or ``conversations``), ``prompt`` and ``completion``, ``question``, ``reasoning`` and ``answer``.
The thinking stands inside the content between the tags, or in a field of its own. Whatever the form, what comes out is
the turns up to the last question, the thinking without any tag, and the answer without any tag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arcslim.errors import InputError
from arcslim.sft_config import ColumnsSection

OPENER, CLOSER = "<think>", "</think>"
REASONING = ("reasoning_content", "reasoning", "thinking")
_USUAL: Mapping[str, tuple[str, ...]] = {
    "messages": ("messages", "conversations"),
    "prompt": ("prompt",),
    "completion": ("completion",),
    "question": ("question",),
    "reasoning": REASONING,
    "answer": ("answer",),
}
_FORMS = (("messages",), ("prompt", "completion"), ("question", "answer"))
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
_TAG = re.compile(r"</?think>")
_LONE = re.compile("[\ud800-\udfff]")  # half of a pair of surrogates, as JSON can write it
# A column `reasoning` may say whether there is any, or how much.
_FLAGS = ("on", "off", "true", "false", "yes", "no", "enabled", "disabled", "none", "auto", "minimal", "low", "medium",
          "high", "max")  # fmt: skip


class RowError(Exception):
    """A row that cannot be trained on; ``reason`` is the short name that it is counted under."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


@dataclass(frozen=True)
class Conversation:
    """``messages``: the turns up to and including the last question. ``untrained_turns``: answers among them, which
    are shown without their thinking and not trained on. ``joined``: the thinking stood in several places."""

    messages: tuple[dict[str, str], ...]
    thinking: str
    answer: str
    untrained_turns: int = 0
    joined: bool = False


@dataclass(frozen=True)
class Columns:
    """Which column of a source is what; None where a source has none."""

    messages: str | None = None
    prompt: str | None = None
    completion: str | None = None
    question: str | None = None
    reasoning: tuple[str, ...] = ()  # the first that has a text is taken, row by row
    answer: str | None = None


def find_columns(present: Sequence[str], asked: ColumnsSection) -> Columns:
    """Settle a source's columns by the names that it has.

    Raises:
        InputError: a column that ``asked`` names is not there or goes with nothing, or no form is complete; lists
            those present.
    """
    found: dict[str, str] = {}
    for part, usual in _USUAL.items():
        named = getattr(asked, part)
        if named is not None and named not in present:
            raise InputError(
                f"there is no column {named!r} (data.columns.{part}); present: {', '.join(sorted(present)) or 'none'}",
                f"name the right one with --set data.columns.{part}=NAME",
            )
        name = named or next((name for name in usual if name in present), None)
        if name is not None and part != "reasoning":
            found[part] = name
    named_parts = {part for part in _USUAL if getattr(asked, part) is not None and part != "reasoning"}
    forms = [form for form in _FORMS if all(part in found for part in form)]
    chosen = next((form for form in forms if named_parts <= set(form)), None)
    if chosen is None:
        what = "the rows have none of the forms"
        if named_parts:
            what = f"{' and '.join(f'data.columns.{part}' for part in sorted(named_parts))} completes none of the forms"
        raise InputError(
            f"{what} `messages`, `prompt` + `completion`, `question` + `answer`; "
            f"present: {', '.join(sorted(present)) or 'no columns'}",
            "say which column is what, as --set data.columns.question=problem --set data.columns.answer=solution",
        )
    reasoning = (asked.reasoning,) if asked.reasoning else tuple(name for name in REASONING if name in present)
    return Columns(**{part: name for part, name in found.items() if part in chosen}, reasoning=reasoning)


def read_conversation(row: Mapping[str, Any], columns: Columns) -> Conversation:
    """One row.

    Raises:
        RowError: nothing to learn from: no reasoning, an unfinished thought, no answer, no question, or another shape.
    """
    beside = next((text for name in columns.reasoning if (text := _reasoning(row.get(name)))), "")
    if columns.messages is not None:
        turns = _turns(row.get(columns.messages))
    elif columns.prompt is not None and columns.completion is not None:
        prompt, completion = row.get(columns.prompt), row.get(columns.completion)
        turns = _opened_by_prompt(_as_turns(prompt, "user"), _as_turns(completion, "assistant"))
    else:
        assert columns.question is not None and columns.answer is not None
        turns = [
            *_as_turns(row.get(columns.question), "user"),
            *_as_turns(row.get(columns.answer), "assistant"),
        ]
    return _conversation(turns, beside)


def _conversation(turns: list[dict[str, str]], beside: str) -> Conversation:
    while turns and turns[-1]["role"] != "assistant":
        turns = turns[:-1]  # a question that nobody answered
    if not turns:
        raise RowError("no_answer", "no turn of the assistant")
    *before, last = turns
    if not before or before[-1]["role"] != "user" or not before[-1]["content"].strip():
        raise RowError("no_question", "the last answer does not follow a question")
    inside, answer = split_thinking(last["content"])
    thoughts = dict.fromkeys(_without_tags(part) for part in (beside, last.get("reasoning", ""), inside))
    several = [part for part in thoughts if part]
    thinking = "\n\n".join(several)
    if not thinking:
        raise RowError("no_reasoning", "no reasoning, neither between the tags nor in a field of its own")
    if not answer:
        raise RowError("no_answer", "nothing follows the thinking")
    shown = [
        {"role": turn["role"], "content": _shown(turn) if turn["role"] == "assistant" else turn["content"]}
        for turn in before
    ]
    untrained = sum(turn["role"] == "assistant" for turn in before)
    joined = len(several) > 1 or _blocks(last["content"].rpartition(CLOSER)[0]) > 1
    return Conversation(tuple(shown), thinking, answer, untrained, joined)


def split_thinking(content: str) -> tuple[str, str]:
    """Thinking and answer of a turn, without tags; the last closer parts them.

    An empty block before the real reasoning, a second block, a closer without its opener: all that stands before the
    last closer is thinking. A turn without tags is all answer.

    Raises:
        RowError: a block that is opened and never closed: its thought was cut off.
    """
    before, closer, after = content.rpartition(CLOSER)
    if OPENER in after:
        raise RowError("cut_off", "the thinking is opened and never closed")
    if not closer:
        return "", content.strip()
    _refuse_quoted_closer(content)
    return _without_tags(before), after.strip()


def _refuse_quoted_closer(content: str) -> None:
    """A block with text that was closed, and then a closer of nothing: the answer quotes the tag, and nobody can say
    where it begins. An empty block before (case 2) is none."""
    opened = whole = False
    before = 0
    for tag in _TAG.finditer(content):
        text, before = content[before : tag.start()].strip(), tag.end()
        if tag.group() == OPENER:
            opened = True
        elif opened or not whole:
            opened, whole = False, whole or bool(text)
        elif text and content[tag.end() :].strip():  # twice the same closer, or one at the very end, parts nothing
            raise RowError("malformed", f"{CLOSER} stands in the answer as well")


def _blocks(text: str) -> int:
    return sum(bool(part.strip()) for part in _TAG.split(text))


def _without_tags(text: str) -> str:
    text = _TAG.sub("", text)
    if _TAG.search(text):
        raise RowError("malformed", "a thinking tag stands inside of another")
    return text.strip()


def _shown(turn: dict[str, str]) -> str:
    """An earlier answer as a reasoning model's own template shows it: without its thinking."""
    try:
        return split_thinking(turn["content"])[1]
    except RowError:
        return turn["content"].rpartition(CLOSER)[2].partition(OPENER)[0].strip()


def _opened_by_prompt(prompt: list[dict[str, str]], completion: list[dict[str, str]]) -> list[dict[str, str]]:
    """The turns of both; an opener that the prompt ends in goes to the completion that it belongs to."""
    if prompt and completion and prompt[-1]["content"].rstrip().endswith(OPENER):
        *before, last = prompt
        rest = last | {"content": last["content"].rstrip().removesuffix(OPENER).rstrip()}
        prompt = [*before, rest] if rest["content"] else before
        completion = [completion[0] | {"content": OPENER + completion[0]["content"]}, *completion[1:]]
    return [*prompt, *completion]


def _as_turns(value: Any, role: str) -> list[dict[str, str]]:
    if isinstance(value, list):
        return _turns(value)
    content = _text(value, role)
    if not content.strip():
        raise RowError("no_question" if role == "user" else "no_answer", f"the text of the {role} is empty")
    return [{"role": role, "content": content}]


def _turns(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not all(isinstance(turn, Mapping) for turn in value):
        raise RowError("malformed", f"a conversation is a list of turns, not {type(value).__name__}")
    turns = []
    for turn in value:
        role = str(turn.get("role") or turn.get("from") or "")
        content = turn.get("content") if "content" in turn else turn.get("value")
        one = {"role": _ROLES.get(role, role), "content": _text(content, role)}
        if one["role"] not in ("system", "user", "assistant"):
            raise RowError("malformed", f"a turn of the role {role!r}")
        reasoning = next((text for name in REASONING if (text := _reasoning(turn.get(name)))), "")
        turns.append(one | {"reasoning": reasoning} if reasoning else one)
    return turns


def _reasoning(value: Any) -> str:
    """The text of a field for reasoning; "" where it only says whether there is any."""
    if isinstance(value, bool):
        return ""
    text = _text(value, "reasoning").strip()
    return "" if text.lower() in _FLAGS else text


def _text(value: Any, what: str) -> str:
    """A text as it stands, blanks at its ends too, or the text parts of a message joined; "" for one that is not there.

    A question is rendered as it will be at inference, where nobody takes its last newline off either.
    """
    if isinstance(value, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in value):
        value = "".join(str(part.get("text", "")) for part in value)
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)  # as the answers of mathematics sets are
    if not isinstance(value, str):
        raise RowError("malformed", f"{what} is {type(value).__name__}, not text")
    if not value.isascii() and _LONE.search(value):
        raise RowError("encoding", f"{what} holds half a character, which no tokenizer takes")
    return value
