"""Drawing tasks as prompts, and programs cut out of completions."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.prompts.drawing import compact_text, drawing_messages, image_text, program_text
from arcslim.tasks.drawing import PARAMETERS, Image, Program
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.targets import target
from tests.tasks.drawing_made import images, programs

SOURCE = "def task(img):\n    img = draw_horizontal_line(img, y=0, color=1)\n    return img\n"


def test_an_image_has_its_shape_and_its_rows_have_numbers() -> None:
    assert image_text(target("6-squares").image) == "shape: 4x6\n0 113355\n1 113355\n2 224466\n3 224466"
    lines = image_text(target("12-vertical-lines").image).split("\n")
    assert lines[1] == " 0 123456789123" and lines[12] == "11 123456789123"


def test_messages_explain_every_call_and_show_both_images() -> None:
    aim = target("3-vertical-lines")
    (message,) = drawing_messages(aim.blank, aim.image)
    assert message["role"] == "user"
    text = message["content"]
    assert all(f"    img = {name}(" in text for name in PARAMETERS)
    assert "draw_rectangle(img, point1=(R, C), point2=(R, C), color=K)" in text
    assert text.endswith("Input\nshape: 3x3\n0 000\n1 000\n2 000\n\nOutput\nshape: 3x3\n0 123\n1 123\n2 123\n")


def test_compact_text() -> None:
    aim = target("3-vertical-lines")
    assert compact_text(aim.blank, aim.image) == "input 3x3 all 0\noutput 3x3\n0 123\n1 123\n2 123\n"
    assert compact_text(aim.image, aim.blank) == "input 3x3\n0 123\n1 123\n2 123\noutput 3x3\n0 000\n1 000\n2 000\n"


@given(images(most=4), images(most=4), images(most=4), images(most=4))
def test_different_pairs_have_different_texts(one: Image, other: Image, after: Image, other_after: Image) -> None:
    same = one.tolist() == other.tolist() and after.tolist() == other_after.tolist()
    assert (compact_text(one, after) == compact_text(other, other_after)) == same
    assert (drawing_messages(one, after) == drawing_messages(other, other_after)) == same


@pytest.mark.parametrize(
    "completion",
    [
        SOURCE,
        "\n\n  " + SOURCE,
        f"```python\n{SOURCE}```",
        f"```\n{SOURCE}\n```\n",
        f"Here it is:\n```py\n{SOURCE}```\nIt draws `a line`.",
        f"```python\n{SOURCE}",
        f"<think>\n```python\nimport os\n```\n</think>\n\n{SOURCE}",
        f"so the row</think>```python\n{SOURCE}```",
        f"so</think><answer>\n{SOURCE}</answer>",
        f"so</think><answer>no</answer> or <answer>```python\n{SOURCE}```</answer> it is",
    ],
)
def test_a_program_is_cut_out(completion: str) -> None:
    assert program_text(completion) == SOURCE


def test_what_is_no_program_stays_none() -> None:
    assert program_text("") == program_text("<think>so</think>") == "\n"
    assert program_text("```rust\nfn task()\n```").startswith("```rust")
    assert program_text("</answer><answer>") == "</answer><answer>\n"


@given(programs(), st.text(alphabet=st.characters(codec="ascii", exclude_characters="<`"), max_size=40))
def test_any_program_comes_out_of_any_wrapping(program: Program, words: str) -> None:
    source = program.to_source()
    assert parse_program(program_text(source)) == program
    assert parse_program(program_text(f"{words}\n</think>\n\n{source}")) == program
    assert parse_program(program_text(f"{words}```python\n{source}```{words}")) == program


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "```", "</think>", "<answer></answer>", "`"])
def test_a_hostile_completion_takes_no_time(piece: str) -> None:
    start = time.process_time()
    program_text(piece * 100_000)
    assert time.process_time() - start < 0.1


def test_numbers_are_numpys_or_pythons() -> None:
    assert image_text(np.array([[1, 0]], dtype=np.int8)) == "shape: 1x2\n0 10"
