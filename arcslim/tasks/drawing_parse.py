"""Programs of the drawing language, read from what a model wrote.

Three stages, each of which sees only what the one before let through:

1. A program in the plain form (``Program.to_source``), which is what a trained model writes, is read by one regular
   expression. It is there for speed alone: ``ast`` takes ten times as long, and would give the same calls.
2. Anything else is looked at as text: length, lines, depth, characters, numbers.
3. Then ``ast.parse`` reads it line by line, and of each line's tree only the language's own forms pass. The first line
   that is none ends it, so that no more than one line of anything else is ever parsed.

Accepted beside the plain form: any spacing and indentation, comments and blank lines, arguments in any order,
``img=img``, ``create_img`` without ``color``, and a draw call without ``img =`` (it changes ``img`` in place).
"""

from __future__ import annotations

import ast
import re

from arcslim.tasks.drawing import (
    CREATE,
    FOOTER,
    HEADER,
    INDENT,
    LIMITS,
    PARAMETERS,
    Call,
    DrawingLimits,
    Kind,
    Program,
    call_form,
)
from arcslim.tasks.drawing_guard import Line, guarded, refuse
from arcslim.tasks.grid import COLOURS, MAX_SIDE

IMAGE = "img"
_INTEGER = "(?:0|-?[1-9][0-9]{0,2})"
_PLAIN: dict[Kind, str] = {
    "shape": r"\((?:[12]?[1-9]|[123]0), (?:[12]?[1-9]|[123]0)\)",
    "point": rf"\({_INTEGER}, {_INTEGER}\)",
    "number": _INTEGER,
    "colour": "[0-9]",
}
_PLAIN_SIDE, _PLAIN_NUMBER = MAX_SIDE, 999  # what the expressions above let through


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

_TASK = re.compile(r"def\s+task\b")
_BLOCK = re.compile(r"(?:async|case|class|def|elif|else|except|finally|for|if|match|try|while|with)\b")


def parse_program(source: str, limits: DrawingLimits = LIMITS) -> Program:
    """Read a program.

    Takes under 10 ms whatever ``source`` is, with the limits as they are.

    Raises:
        DrawingRefused: with a reason to count by, and words that name the line.
    """
    if len(source) > limits.max_bytes:
        refuse("too_long", f"{len(source):,} characters; at most {limits.max_bytes:,} are read")
    if source.count("\n") > limits.max_lines:
        refuse("too_many_lines", f"more than {limits.max_lines} lines")
    plain = _PLAIN_PROGRAM.fullmatch(source)
    if plain is None:
        return _Reader(limits).program(guarded(source, limits))
    numbers = _PLAIN_NUMBERS.findall
    calls = [Call(name, tuple(map(int, numbers(arguments, 0)))) for name, arguments in _PLAIN_CALL.findall(plain[1])]
    if len(calls) > limits.max_calls:
        refuse("too_many_calls", f"{len(calls)} calls; at most {limits.max_calls}")
    if limits.max_side < _PLAIN_SIDE or limits.max_number < _PLAIN_NUMBER:
        for line, call in enumerate(calls, 2):
            _check(call, line, limits)
    return Program(tuple(calls))


class _Reader:
    """Reads the lines of one program, one after the other."""

    def __init__(self, limits: DrawingLimits) -> None:
        self.limits = limits

    def program(self, lines: list[Line]) -> Program:
        tasks = [index for index, line in enumerate(lines) if _TASK.match(line.code)]
        if len(tasks) != 1:
            refuse("no_task", f"a program is one `{HEADER}`; {len(tasks)} of its name are here")
        if tasks != [0]:
            refuse("outside_task", f"line {lines[0].number}: {lines[0].code[:40]!r} stands outside of `task`")
        _check_signature(lines[0])
        calls: list[Call] = []
        for index, line in enumerate(lines[1:], 1):
            _check_indent(line, lines[1].indent)
            node = _statement(line)
            if not isinstance(node, ast.Return):
                calls.append(self.call(node, line.number))
                continue
            if not _is_image(node.value):
                refuse("statement", f"line {line.number}: a program ends in `return {IMAGE}`")
            if index < len(lines) - 1:
                after = lines[index + 1]
                _check_indent(after, line.indent)
                refuse("after_return", f"line {after.number}: nothing follows `return {IMAGE}`")
            if len(calls) > self.limits.max_calls:
                refuse("too_many_calls", f"{len(calls)} calls; at most {self.limits.max_calls}")
            return Program(tuple(calls))
        refuse("no_return", f"the program does not end in `return {IMAGE}`")

    def call(self, node: ast.stmt, line: int) -> Call:
        if (isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_image(node.targets[0])) or isinstance(
            node, ast.Expr
        ):
            value = node.value
        else:
            refuse("statement", f"line {line}: {_named(node)}, where `{IMAGE} = CALL` is meant to stand")
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            refuse("statement", f"line {line}: {_named(value)} where a call is meant to stand")
        name = value.func.id
        if name not in PARAMETERS:
            refuse("unknown_call", f"line {line}: there is no call {name[:40]!r}")
        if name == CREATE and isinstance(node, ast.Expr):
            refuse("statement", f"line {line}: what {CREATE} makes is thrown away")
        given = self.arguments(value, name, line)
        numbers: list[int] = []
        for parameter, kind in PARAMETERS[name]:
            if parameter in given:
                numbers += _numbers(given[parameter], kind, f"line {line}: {parameter} of {name}")
            elif (name, parameter) == (CREATE, "color"):
                numbers.append(0)
            else:
                refuse("arguments", f"line {line}: {name} lacks {parameter}")
        call = Call(name, tuple(numbers))
        _check(call, line, self.limits)
        return call

    def arguments(self, node: ast.Call, name: str, line: int) -> dict[str, ast.expr]:
        """What is given by keyword, ``img`` apart."""
        where = f"line {line}: {name}"
        given: dict[str, ast.expr] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in given:
                refuse("arguments", f"{where} is given {str(keyword.arg)[:40]!r} twice")
            given[keyword.arg] = keyword.value
        images = list(node.args)
        if IMAGE in given:
            images.append(given.pop(IMAGE))
        if len(images) != (0 if name == CREATE else 1) or not all(_is_image(image) for image in images):
            takes = "no image" if name == CREATE else f"`{IMAGE}` first"
            refuse("arguments", f"{where} takes {takes}, and all else by keyword")
        unknown = sorted(given.keys() - {parameter for parameter, _ in PARAMETERS[name]})
        if unknown:
            refuse("arguments", f"{where} does not take {unknown[0][:40]!r}")
        return given


def _parsed(code: str, line: int) -> ast.stmt:
    """The one statement of a line, by Python's own parser."""
    try:
        module = ast.parse(code)
    except SyntaxError as error:
        refuse("syntax", f"line {line}: {error.msg}")
    except (ValueError, MemoryError, RecursionError) as error:
        refuse("syntax", f"line {line}: Python cannot read it: {type(error).__name__}")
    return module.body[0]


def _statement(line: Line) -> ast.stmt:
    block = _BLOCK.match(line.code)
    if block is not None:  # what it opens stands on other lines
        refuse("statement", f"line {line.number}: `{block[0]}` has no place in a program")
    return _parsed(line.code, line.number)


def _check_indent(line: Line, indent: str) -> None:
    if not line.indent:
        refuse("outside_task", f"line {line.number}: {line.code[:40]!r} stands outside of `task`")
    if line.indent != indent:
        refuse("syntax", f"line {line.number}: it is indented otherwise than the first line of `task`")


def _check_signature(line: Line) -> None:
    task = _parsed(f"{line.code} pass", line.number) if line.code.endswith(":") else None
    if line.indent or not isinstance(task, ast.FunctionDef) or not isinstance(task.body[0], ast.Pass):
        refuse("signature", f"line {line.number}: a program begins with `{HEADER}`")
    taken = task.args
    names = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    plain = names == [IMAGE] == [argument.arg for argument in taken.args] and taken.args[0].annotation is None
    if not plain or taken.defaults or taken.vararg or taken.kwarg or task.decorator_list or task.returns:
        refuse("signature", f"line {line.number}: a program begins with `{HEADER}`")


def _numbers(node: ast.expr, kind: Kind, where: str) -> list[int]:
    if kind not in ("shape", "point"):
        return [_integer(node, where)]
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        refuse("not_literal", f"{where} is a pair of integers such as (0, 1)")
    return [_integer(item, where) for item in node.elts]


def _integer(node: ast.expr, where: str) -> int:
    sign, value = 1, node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, value = -1, node.operand
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return sign * value.value
    refuse("not_literal", f"{where} is written in integers")


def _check(call: Call, line: int, limits: DrawingLimits) -> None:
    """Refuse numbers beyond the limits."""
    left = iter(call.numbers)
    for parameter, kind in PARAMETERS[call.name]:
        numbers = [next(left) for _ in range(2 if kind in ("shape", "point") else 1)]
        where = f"line {line}: {parameter} of {call.name}"
        if kind == "colour" and not 0 <= numbers[0] < COLOURS:
            refuse("colour", f"{where} is {numbers[0]}; colours are 0 to {COLOURS - 1}")
        if kind == "shape" and not all(1 <= side <= min(limits.max_side, MAX_SIDE) for side in numbers):
            refuse("canvas", f"{where} is {numbers[0]} x {numbers[1]}; sides are 1 to {limits.max_side}")
        if any(abs(number) > limits.max_number for number in numbers):
            refuse("number", f"{where} goes beyond {limits.max_number}")


def _is_image(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == IMAGE


def _named(node: ast.AST) -> str:
    """A node in words: its kind, as ``ast`` calls it."""
    return type(node).__name__
