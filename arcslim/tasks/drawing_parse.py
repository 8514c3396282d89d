"""Programs of the drawing language, read from what a model wrote.

Three stages, each of which sees only what the one before let through:

1. A program in the plain form (``Program.to_source``), which is what a trained model writes, is read by one regular
   expression. It is there for speed alone: ``ast`` takes ten times as long, and would give the same calls.
2. Anything else is looked at as text: length, lines, depth, characters, numbers. What remains is so small and so plain
   that ``ast.parse`` has no long way to go with it.
3. ``ast.parse``, and a walk over its tree in which only the language's own forms pass.

Accepted beside the plain form: any spacing and indentation, comments and blank lines, arguments in any order,
``img=img``, ``create_img`` without ``color``, and a draw call without ``img =`` (it changes ``img`` in place).
"""

from __future__ import annotations

import ast
import re
from typing import NoReturn

from arcslim.tasks.drawing import (
    CREATE,
    FOOTER,
    HEADER,
    INDENT,
    LIMITS,
    PARAMETERS,
    Call,
    DrawingLimits,
    DrawingRefused,
    Kind,
    Program,
    Reason,
    call_form,
)
from arcslim.tasks.grid import COLOURS

IMAGE = "img"
_LINE_BYTES = 200  # a plain call has 80 at most
_MARKS = 24  # brackets, commas, colons, signs in a line; draw_line has 18 with every sign
_DEPTH = 2
_BLOCKS = 4  # different indentations: enough for a loop to be called a loop

_INTEGER = "(?:0|-?[1-9][0-9]{0,2})"
_PLAIN: dict[Kind, str] = {
    "shape": r"\((?:[12]?[1-9]|[123]0), (?:[12]?[1-9]|[123]0)\)",
    "point": rf"\({_INTEGER}, {_INTEGER}\)",
    "number": _INTEGER,
    "colour": "[0-9]",
}
_PLAIN_SIDE, _PLAIN_NUMBER = 30, 999  # what the expressions above let through


def _plain_program() -> re.Pattern[str]:
    """Matches programs in the plain form, and those alone."""
    lines = []
    for name, parameters in PARAMETERS.items():
        head, *_ = call_form(name).partition(f"{parameters[0][0]}=")
        arguments = ", ".join(f"{parameter}={_PLAIN[kind]}" for parameter, kind in parameters)
        lines.append(f"{re.escape(INDENT + head)}{arguments}\\)\n")
    return re.compile(f"{re.escape(HEADER)}\n((?:{'|'.join(lines)})*){re.escape(FOOTER)}\n*")


_PLAIN_PROGRAM = _plain_program()
_PLAIN_CALL = re.compile(r" = (\w+)\(([^\n]*)")
_PLAIN_NUMBERS = re.compile("(?<=[ =(])-?[0-9]+")  # not the 1 of point1

_COMMENT = re.compile("#[^\n]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_ \t\n(),=:-]")
_ODD_NUMBER = re.compile(r"(?<!\w)[0-9]+(?:[A-Za-z_]|(?<=[0-9]{7}))")
_BRACKETS = re.compile("[()]")
_MARK = re.compile(r"[^\w\s]")


def parse_program(source: str, limits: DrawingLimits = LIMITS) -> Program:
    """Read a program.

    Takes under 10 ms whatever ``source`` is, with the limits as they are.

    Raises:
        DrawingRefused: with a reason to count by, and words that name the line.
    """
    if len(source) > limits.max_bytes:
        _refuse("too_long", f"{len(source):,} characters; at most {limits.max_bytes:,} are read")
    if source.count("\n") > limits.max_lines:
        _refuse("too_many_lines", f"more than {limits.max_lines} lines")
    plain = _PLAIN_PROGRAM.fullmatch(source)
    if plain is None:
        return _Reader(limits).program(_guarded(source, limits))
    numbers = _PLAIN_NUMBERS.findall
    calls = [Call(name, tuple(map(int, numbers(arguments, 0)))) for name, arguments in _PLAIN_CALL.findall(plain[1])]
    if len(calls) > limits.max_calls:
        _refuse("too_many_calls", f"{len(calls)} calls; at most {limits.max_calls}")
    if limits.max_side < _PLAIN_SIDE or limits.max_number < _PLAIN_NUMBER:
        for line, call in enumerate(calls, 2):
            _check(call, line, limits)
    return Program(tuple(calls))


def _guarded(source: str, limits: DrawingLimits) -> str:
    """The source without its comments, once nothing in it can keep ``ast.parse`` busy."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        place = next(index for index, character in enumerate(text) if not character.isascii())
        _refuse("character", f"line {_line_of(text, place)}: {text[place]!a} is not ASCII")
    text = _COMMENT.sub("", text)
    foreign = _FOREIGN.search(text)
    if foreign is not None:
        _refuse("character", f"line {_line_of(text, foreign.start())}: {foreign[0]!r} has no place in a program")
    odd = _ODD_NUMBER.search(text)
    if odd is not None:
        _refuse("number", f"line {_line_of(text, odd.start())}: {odd[0][:12]} is no integer that is read")
    indents: set[str] = set()
    lines = text.split("\n")
    if len(lines) > limits.max_lines + 1:  # those that \r ends
        _refuse("too_many_lines", f"more than {limits.max_lines} lines")
    written = 0
    for number, line in enumerate(lines, 1):
        code = line.strip()
        if not code:
            continue
        written += 1
        indents.add(line[: len(line) - len(line.lstrip())])
        if len(line) > _LINE_BYTES or len(_MARK.findall(code)) > _MARKS:
            _refuse("too_long", f"line {number} is too long for one call")
        _check_brackets(code, number)
    if written > limits.max_calls + 2:
        _refuse("too_many_calls", f"{written} lines of code; at most {limits.max_calls} calls")
    if len(indents) > _BLOCKS:
        _refuse("too_deep", f"{len(indents)} different indentations")
    return text


def _check_brackets(code: str, number: int) -> None:
    depth = 0
    for bracket in _BRACKETS.findall(code):
        depth += 1 if bracket == "(" else -1
        if depth > _DEPTH:
            _refuse("too_deep", f"line {number}: brackets within brackets within brackets")
        if depth < 0:
            break
    if depth:
        _refuse("syntax", f"line {number}: the brackets of a line must close in it")


class _Reader:
    """Walks over the tree of one program."""

    def __init__(self, limits: DrawingLimits) -> None:
        self.limits = limits

    def program(self, text: str) -> Program:
        try:
            module = ast.parse(text)
        except SyntaxError as error:
            _refuse("syntax", f"line {error.lineno or 0}: {error.msg}")
        except (ValueError, MemoryError, RecursionError) as error:
            _refuse("syntax", f"Python cannot read it: {type(error).__name__}")
        tasks = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "task"]
        if len(tasks) != 1:
            _refuse("no_task", f"a program is one `{HEADER}`; {len(tasks)} of its name are here")
        for node in module.body:
            if node is not tasks[0]:
                _refuse("outside_task", f"line {node.lineno}: {_named(node)} outside of `task`")
        _check_signature(tasks[0])
        return Program(self.calls(tasks[0].body))

    def calls(self, body: list[ast.stmt]) -> tuple[Call, ...]:
        calls: list[Call] = []
        for index, node in enumerate(body):
            if isinstance(node, ast.Return):
                if not _is_image(node.value):
                    _refuse("statement", f"line {node.lineno}: a program ends in `return {IMAGE}`")
                if index != len(body) - 1:
                    _refuse("after_return", f"line {body[index + 1].lineno}: nothing follows `return {IMAGE}`")
                if len(calls) > self.limits.max_calls:
                    _refuse("too_many_calls", f"{len(calls)} calls; at most {self.limits.max_calls}")
                return tuple(calls)
            calls.append(self.call(node))
        _refuse("no_return", f"the program does not end in `return {IMAGE}`")

    def call(self, node: ast.stmt) -> Call:
        if (isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_image(node.targets[0])) or isinstance(
            node, ast.Expr
        ):
            value = node.value
        else:
            _refuse("statement", f"line {node.lineno}: {_named(node)}, where `{IMAGE} = CALL` is meant to stand")
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            _refuse("statement", f"line {node.lineno}: {_named(value)} where a call is meant to stand")
        name = value.func.id
        if name not in PARAMETERS:
            _refuse("unknown_call", f"line {node.lineno}: there is no call {name[:40]!r}")
        if name == CREATE and isinstance(node, ast.Expr):
            _refuse("statement", f"line {node.lineno}: what {CREATE} makes is thrown away")
        given = self.arguments(value, name)
        numbers: list[int] = []
        for parameter, kind in PARAMETERS[name]:
            if parameter in given:
                numbers += _numbers(given[parameter], kind, name, parameter)
            elif (name, parameter) == (CREATE, "color"):
                numbers.append(0)
            else:
                _refuse("arguments", f"line {node.lineno}: {name} lacks {parameter}")
        call = Call(name, tuple(numbers))
        _check(call, node.lineno, self.limits)
        return call

    def arguments(self, node: ast.Call, name: str) -> dict[str, ast.expr]:
        """What is given by keyword, ``img`` apart."""
        where = f"line {node.lineno}: {name}"
        given: dict[str, ast.expr] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in given:
                _refuse("arguments", f"{where} is given {str(keyword.arg)[:40]!r} twice")
            given[keyword.arg] = keyword.value
        images = list(node.args)
        if IMAGE in given:
            images.append(given.pop(IMAGE))
        if len(images) != (0 if name == CREATE else 1) or not all(_is_image(image) for image in images):
            takes = "no image" if name == CREATE else f"`{IMAGE}` first"
            _refuse("arguments", f"{where} takes {takes}, and all else by keyword")
        unknown = sorted(given.keys() - {parameter for parameter, _ in PARAMETERS[name]})
        if unknown:
            _refuse("arguments", f"{where} does not take {unknown[0][:40]!r}")
        return given


def _check_signature(task: ast.FunctionDef) -> None:
    taken = task.args
    names = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    plain = names == [IMAGE] == [argument.arg for argument in taken.args] and taken.args[0].annotation is None
    if not plain or taken.defaults or taken.vararg or taken.kwarg or task.decorator_list or task.returns:
        _refuse("signature", f"line {task.lineno}: a program is `{HEADER}`")


def _numbers(node: ast.expr, kind: Kind, name: str, parameter: str) -> list[int]:
    if kind not in ("shape", "point"):
        return [_integer(node, name, parameter)]
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        _refuse("not_literal", f"line {node.lineno}: {parameter} of {name} is a pair of integers such as (0, 1)")
    return [_integer(item, name, parameter) for item in node.elts]


def _integer(node: ast.expr, name: str, parameter: str) -> int:
    sign, value = 1, node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, value = -1, node.operand
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return sign * value.value
    _refuse("not_literal", f"line {node.lineno}: {parameter} of {name} is written in integers")


def _check(call: Call, line: int, limits: DrawingLimits) -> None:
    """Refuse numbers beyond the limits."""
    left = iter(call.numbers)
    for parameter, kind in PARAMETERS[call.name]:
        numbers = [next(left) for _ in range(2 if kind in ("shape", "point") else 1)]
        where = f"line {line}: {parameter} of {call.name}"
        if kind == "colour" and not 0 <= numbers[0] < COLOURS:
            _refuse("colour", f"{where} is {numbers[0]}; colours are 0 to {COLOURS - 1}")
        if kind == "shape" and not all(1 <= side <= limits.max_side for side in numbers):
            _refuse("canvas", f"{where} is {numbers[0]} x {numbers[1]}; sides are 1 to {limits.max_side}")
        if any(abs(number) > limits.max_number for number in numbers):
            _refuse("number", f"{where} goes beyond {limits.max_number}")


def _is_image(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == IMAGE


def _named(node: ast.AST) -> str:
    """A node in words: its kind, as ``ast`` calls it."""
    return type(node).__name__


def _line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _refuse(reason: Reason, words: str) -> NoReturn:
    raise DrawingRefused(reason, words)
