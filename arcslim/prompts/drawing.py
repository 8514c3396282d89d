"""A drawing task as a prompt: two images, and the completion is the program that makes one of the other.

Two styles: messages for a chat model, which explain the language, and a compact text for a small model that was trained
on nothing else. What a model answers, ``program_text`` cuts out.
"""

from __future__ import annotations

from arcslim.tasks.drawing import FOOTER, HEADER, PARAMETERS, Image, Kind, call_form

_SHOWN: dict[Kind, tuple[str, ...]] = {"shape": ("H", "W"), "point": ("R", "C"), "number": ("N",), "colour": ("K",)}
_FENCE = "```"
_OPEN, _CLOSE, _THOUGHT = "<answer>", "</answer>", "</think>"


def _calls() -> str:
    forms = []
    for name, parameters in PARAMETERS.items():
        letters = [letter for _, kind in parameters for letter in _SHOWN[kind]]
        forms.append("    " + call_form(name).replace("%d", "%s") % tuple(letters))
    return "\n".join(forms)


_ASK = (
    "Write a Python function that turns the input image into the output image. It uses these calls alone, one a line, "
    "with numbers in the place of letters. Points are (row, column), counted from 0; colours K are 0 to 9; lines and "
    "rectangles include both ends; what lies outside the image is left out.\n\n"
    f"{HEADER}\n{_calls()}\n{FOOTER}\n\n"
)


def image_text(image: Image) -> str:
    """``shape: HxW``, then a line a row: its number and its cells as digits."""
    height, width = image.shape
    digits = len(str(height - 1))
    rows = [f"{number:>{digits}} {''.join(map(str, row))}" for number, row in enumerate(image.tolist())]
    return "\n".join([f"shape: {height}x{width}", *rows])


def drawing_messages(input_image: Image, output_image: Image) -> list[dict[str, str]]:
    """The user's turn that asks a chat model for the program; the answer is ``Program.to_source``."""
    content = f"{_ASK}Input\n{image_text(input_image)}\n\nOutput\n{image_text(output_image)}\n"
    return [{"role": "user", "content": content}]


def compact_text(input_image: Image, output_image: Image) -> str:
    """The same pair for a small model, in as few tokens as there are; ``Program.to_source`` follows it.

    An input of one colour, which all inputs of training are, is that colour alone::

        input 2x3 all 0
        output 2x3
        0 011
        1 000
    """
    return f"input {_compact(input_image)}\noutput {_compact(output_image, whole=True)}\n"


def _compact(image: Image, whole: bool = False) -> str:
    height, width = image.shape
    if not whole and bool((image == image[0, 0]).all()):
        return f"{height}x{width} all {image[0, 0]}"
    rows = (f"{number} {''.join(map(str, row))}" for number, row in enumerate(image.tolist()))
    return "\n".join([f"{height}x{width}", *rows])


def program_text(completion: str) -> str:
    """The program within a completion: behind the thinking, inside the last whole answer block and the first fenced
    block where there are any. Linear in time; what comes out is for ``parse_program`` to judge.
    """
    text = completion.rpartition(_THOUGHT)[2]
    closes = text.rfind(_CLOSE)
    opens = text.rfind(_OPEN, 0, closes) if closes >= 0 else -1
    if opens >= 0:
        text = text[opens + len(_OPEN) : closes]
    _, fence, fenced = text.partition(_FENCE)
    if fence:
        language, _, fenced = fenced.partition("\n")
        text = fenced.partition(_FENCE)[0] if language.strip() in ("", "python", "py") else text
    return text.strip() + "\n"
