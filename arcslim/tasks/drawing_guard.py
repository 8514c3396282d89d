"""What a model wrote, looked at as text before any parser sees it: length, characters, numbers, depth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from arcslim.tasks.drawing import DrawingLimits, DrawingRefused, Reason

_LINE_BYTES = 200  # a plain call has 80 at most
_MARKS = 24  # brackets, commas, colons, signs in a line; draw_line has 18 with every sign
_DEPTH = 2

_COMMENT = re.compile("#[^\n]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_ \t\n(),=:-]")
_ODD_NUMBER = re.compile(r"(?<!\w)[0-9]+(?:[A-Za-z_]|(?<=[0-9]{7}))")
_BRACKETS = re.compile("[()]")
_MARK = re.compile(r"[^\w\s]")


@dataclass(frozen=True)
class Line:
    """A line of code without its comment: where it stands, its indentation, and what follows."""

    number: int
    indent: str
    code: str


def guarded(source: str, limits: DrawingLimits) -> list[Line]:
    """The lines of code, once nothing in them can keep ``ast.parse`` busy."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        place = next(index for index, character in enumerate(text) if not character.isascii())
        refuse("character", f"line {_line_of(text, place)}: {text[place]!a} is not ASCII")
    text = _COMMENT.sub("", text)
    foreign = _FOREIGN.search(text)
    if foreign is not None:
        refuse("character", f"line {_line_of(text, foreign.start())}: {foreign[0]!r} has no place in a program")
    odd = _ODD_NUMBER.search(text)
    if odd is not None:
        refuse("number", f"line {_line_of(text, odd.start())}: {odd[0][:12]} is no integer that is read")
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if number > limits.max_lines + 1:  # those that \r ends
            refuse("too_many_lines", f"more than {limits.max_lines} lines")
        code = line.strip()
        if code:
            if len(line) > _LINE_BYTES or len(_MARK.findall(code)) > _MARKS:
                refuse("too_long", f"line {number} is too long for one call")
            _check_brackets(code, number)
            lines.append(Line(number, line[: line.index(code[0])], code))
    if len(lines) > limits.max_calls + 2:
        refuse("too_many_calls", f"{len(lines)} lines of code; at most {limits.max_calls} calls")
    return lines


def _check_brackets(code: str, number: int) -> None:
    depth = 0
    for bracket in _BRACKETS.findall(code):
        depth += 1 if bracket == "(" else -1
        if depth > _DEPTH:
            refuse("too_deep", f"line {number}: brackets within brackets within brackets")
        if depth < 0:
            break
    if depth:
        refuse("syntax", f"line {number}: the brackets of a line must close in it")


def _line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def refuse(reason: Reason, words: str) -> NoReturn:
    raise DrawingRefused(reason, words)
