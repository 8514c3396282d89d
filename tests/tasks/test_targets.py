"""Targets: by name, from a file, out of an ARC task."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from arcslim.errors import InputError
from arcslim.tasks.arc import load_arc1
from arcslim.tasks.drawing import Image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.target_files import PALETTE
from arcslim.tasks.targets import SQUARES, Target, names, target
from tests.tasks.drawing_made import images


def rows(found: Target) -> list[str]:
    return ["".join(map(str, row)) for row in found.image.tolist()]


def picture(path: Path, cells: Image, cell: int = 1, palette: tuple[str, ...] = PALETTE) -> Path:
    """A PNG of these cells, each so many pixels a side."""
    parts = [[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in palette]
    colours = np.array(parts, dtype=np.uint8)
    pixels = np.kron(cells, np.ones((cell, cell), dtype=np.int8))
    Pillow.fromarray(colours[pixels]).save(path, format="PNG")
    return path


# By name


def test_nine_vertical_lines() -> None:
    assert rows(target("9-vertical-lines")) == ["123456789"] * 9
    assert rows(target("6-vertical-lines")) == ["123456"] * 6
    assert rows(target("12-vertical-lines")) == ["123456789123"] * 12


@pytest.mark.parametrize(
    ("number", "shape"),
    [
        (4, (4, 4)),
        (6, (4, 6)),
        (9, (6, 6)),
        (12, (6, 8)),
        (16, (8, 8)),
        (20, (10, 8)),
        (25, (10, 10)),
        (36, (12, 12)),
        (49, (14, 14)),
        (64, (16, 16)),
        (81, (18, 18)),
        (100, (20, 20)),
    ],
)
def test_squares(number: int, shape: tuple[int, int]) -> None:
    """Each is what the loops of the facts draw: x outside, y inside, one colour after the other."""
    found = target(f"{number}-squares")
    assert found.shape == shape == found.blank.shape and SQUARES[number] == shape
    colours, at, lines = (7 if number >= 81 else 9), 0, []
    for x in range(0, shape[1], 2):
        for y in range(0, shape[0], 2):
            lines.append(
                f"    img = draw_rectangle(img, point1=({y}, {x}), point2=({y + 1}, {x + 1}), color={at % colours + 1})"
            )
            at += 1
    assert at == number
    program = parse_program("\n".join(["def task(img):", *lines, "    return img"]))
    assert program.run(found.blank).tolist() == found.image.tolist()


def test_squares_go_down_before_they_go_right() -> None:
    assert rows(target("6-squares")) == ["113355", "113355", "224466", "224466"]


def test_chick() -> None:
    found = target("chick")
    assert found.shape == (10, 10) and rows(found)[0] == "8888448888" and rows(found)[9] == "8847447488"
    assert np.bincount(found.image.ravel()).tolist() == [2, 0, 2, 0, 63, 0, 0, 5, 28]


def test_every_name_is_known_and_starts_blank() -> None:
    assert {"9-vertical-lines", "chick", "12-squares", "100-squares"} <= set(names())
    for name in names():
        found = target(name)
        assert found.name == name and found.notes == ()
        assert found.image.dtype == np.int8 and not found.image.flags.writeable
        assert found.blank.shape == found.image.shape and not found.blank.any() and found.blank.flags.writeable


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("chik", "did you mean chick"),
        ("12-square", "did you mean 12-squares"),
        ("9-vertical-line", "9-vertical-lines"),
        ("13-squares", "12-squares"),
        ("31-vertical-lines", "N of 2 to 30"),
        ("1-vertical-lines", "N of 2 to 30"),
        ("", "known: 9-vertical-lines"),
        ("\u00b2-squares", "known"),
        ("-squares", "known"),
        ("99999999999999999999-squares", "known"),
        ("#test0", "known"),
        ("dir/none.png", "no such file"),
        ("none.json#test0", "no such file"),
    ],
)
def test_an_unknown_name_says_what_is_known(name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        target(name)
    assert says in str(caught.value)


def test_a_file_beside_that_is_near(tmp_path: Path) -> None:
    (tmp_path / "house.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"did you mean .*house\.png"):
        target(f"{tmp_path}/hous.png")


# Pictures


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images(), st.integers(1, 4))
def test_a_picture_in_arcs_colours_comes_back(tmp_path: Path, cells: Image, cell: int) -> None:
    found = target(f"{picture(tmp_path / 'a.png', cells, cell)}#cell{cell}")
    assert found.image.tolist() == cells.tolist()
    assert len(found.notes) == 1 and found.notes[0].endswith(f"cells of {cell} px")


def test_the_cell_is_found(tmp_path: Path) -> None:
    chick = target("chick").image
    for cell in (1, 3, 4, 16, 40):
        path = picture(tmp_path / "chick.png", chick, cell)
        if cell == 3:
            with pytest.raises(AssertionError):  # 30 pixels are a grid of 30 cells, unless the cell is named
                assert target(str(path)).image.tolist() == chick.tolist()
            path = Path(f"{path}#cell3")
        assert target(str(path)).image.tolist() == chick.tolist()


def test_blocks_are_read_as_cells_unless_the_cell_is_named(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png", target("4-squares").image, 10)
    assert rows(target(str(path))) == ["13", "24"]
    assert rows(target(f"{path}#cell10")) == rows(target("4-squares"))


def test_other_colours_take_the_nearest_and_are_told(tmp_path: Path) -> None:
    palette = ("#010000", "#0074d9", "#ff0000", *PALETTE[3:])
    found = target(str(picture(tmp_path / "a.png", np.array([[0, 1], [2, 2]], dtype=np.int8), 20, palette)))
    assert rows(found) == ["01", "22"]
    assert found.notes[0] == (
        "2 of 3 colours (75% of the picture) are not ARC's: #ff0000 is read as 2 (#ff4136, 85 away); "
        "#010000 is read as 0 (#000000, 1 away)"
    )


def test_what_is_transparent_is_0_and_our_own_black_is_arcs(tmp_path: Path) -> None:
    pixels = np.array([[[255, 65, 54, 255], [255, 65, 54, 0], [0x26, 0x26, 0x26, 255]]], dtype=np.uint8)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    found = target(str(tmp_path / "a.png"))
    assert rows(found) == ["200"]
    assert found.notes == ("33% of the picture is transparent and is read as 0", "1 x 3 cells of 1 px")


def test_pictures_of_other_modes(tmp_path: Path) -> None:
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        Pillow.new(mode, (4, 3)).save(tmp_path / "a.png")
        assert target(str(tmp_path / "a.png")).shape == (3, 4)


@pytest.mark.parametrize(
    ("size", "chosen", "says"),
    [
        ((31, 31), "", "grid of 31 x 31"),
        ((62, 20), "", "grid of 62 x 20"),
        ((20, 20), "#cell3", "do not divide into cells of 3"),
        ((20, 20), "#cell2", "of several colours"),
        ((5000, 1), "", "at most 4096 a side"),
    ],
)
def test_a_picture_that_is_no_grid_says_why(tmp_path: Path, size: tuple[int, int], chosen: str, says: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=says):
        target(f"{tmp_path / 'a.png'}{chosen}")


def test_a_broken_picture_is_refused_wherever_it_breaks(tmp_path: Path) -> None:
    whole = picture(tmp_path / "whole.png", target("chick").image, 4).read_bytes()
    broken = tmp_path / "broken.png"
    for length in range(8, len(whole) - 20):  # what ends behind the pixels is whole enough
        broken.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"broken\.png"):
            target(str(broken))
    for place in range(8, len(whole) - 12):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with contextlib.suppress(InputError):  # some bytes do no harm
            assert max(target(str(broken)).shape) <= 30


# Grids


@pytest.mark.parametrize(
    "text", ["12\n30\n", "1 2\n3 0", "1,2\r\n3,0\r\n", "\n12\n\n30\n\n", "\ufeff12\n30", " [[1, 2], [3, 0]] "]
)
def test_a_grid_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "grid").write_text(text, encoding="utf-8", newline="")
    found = target(str(tmp_path / "grid"))
    assert rows(found) == ["12", "30"] and found.shape == (2, 2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "a grid without rows"),
        (b"12\n3", "row 2 has 1 cells"),
        (b"12\n3x", "neither a PNG, nor JSON, nor rows of digits"),
        (b"12 10\n1 1", "neither"),
        (b"\xff\xfe1\x002\x00", "neither"),
        ("\u0661\u0662".encode(), "neither"),
        (b"\xff\xd8\xff\xe0 jpeg", "neither"),
        (b"1" * 31, "31 cells"),
        (b"1\n" * 31, "31 rows"),
        (b"1" * 100_000, "neither"),
        (b"[[1, 2], [3]]", "row 2 has 1 cells"),
        (b"[[1, 12]]", "outside 0-9"),
        (b"[[1, 2]", "no JSON"),
        (b"[" * 50_000, "lists within lists"),
        (b"{}", "object without anything"),
    ],
)
def test_a_file_that_is_no_grid_says_why(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "grid.txt").write_bytes(data)
    with pytest.raises(InputError) as caught:
        target(str(tmp_path / "grid.txt"))
    assert says in str(caught.value) and "grid.txt" in str(caught.value)


# ARC tasks


def task_file(path: Path, *outputs: list[list[int]] | None) -> Path:
    test = [{"input": [[0]], **({} if output is None else {"output": output})} for output in outputs]
    path.write_text(json.dumps({"train": [{"input": [[1]], "output": [[2]]}], "test": test}))
    return path


def test_a_test_output_of_a_task(tmp_path: Path) -> None:
    one = task_file(tmp_path / "one.json", [[3, 4]])
    assert rows(target(str(one))) == rows(target(f"{one}#test0")) == ["34"]
    two = task_file(tmp_path / "two.json", [[3]], [[5], [6]])
    assert rows(target(f"{two}#test1")) == ["5", "6"]
    assert rows(target(f"{two}#two#test1")) == rows(target(f"{tmp_path}#two#test1")) == ["5", "6"]


def test_a_file_whose_name_holds_the_mark(tmp_path: Path) -> None:
    assert rows(target(str(task_file(tmp_path / "a#test1.json", [[7]])))) == ["7"]


def test_which_test_output_must_be_clear(tmp_path: Path) -> None:
    two = task_file(tmp_path / "two.json", [[3]], None)
    task_file(tmp_path / "other.json", [[3]])
    for text, says in (
        (f"{two}", "name one: #test0 to #test1"),
        (f"{two}#test2", "has no #test2"),
        (f"{two}#test1", "hidden"),
        (f"{two}#tw", "did you mean two"),
        (f"{two}#two#three", "names two tasks"),
        (f"{two}#cell3", "said of a picture"),
        (f"{tmp_path}", "name one"),
    ):
        with pytest.raises(InputError) as caught:
            target(text)
        assert says in str(caught.value)


def test_arc1() -> None:
    assert target("arc1:007bbfb7").shape == (9, 9)
    with pytest.raises(InputError, match="such as arc1:007bbfb7"):
        target("arc1:")
    with pytest.raises(InputError, match="did you mean arc1:007bbfb7"):
        target("arc1:007bbfb")


def test_arc1_has_two_parts() -> None:
    task = next(task for task in load_arc1("eval", "arc1:eval").tasks if len(task.test) == 2)
    assert task.test[1].output is not None
    assert target(f"arc1:{task.task_id}#test1").image.tolist() == task.test[1].output.rows()


@pytest.mark.parametrize("name", ["a.png", "a.txt", "a.json"])
@pytest.mark.parametrize("chosen", ["test1", "test0", "cell0", "cellx", "test", "test\u0661", "007bbfb7"])
def test_what_chooses_nothing_is_never_ignored(tmp_path: Path, name: str, chosen: str) -> None:
    """`x.png#test1` once drew the picture, and `#cell0` was taken for a task's name."""
    Pillow.fromarray(np.zeros((2, 2, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("12\n34\n")
    (tmp_path / "a.json").write_text("[[1, 2], [3, 4]]")
    with pytest.raises(InputError, match=f"#{chosen}"):
        target(f"{tmp_path / name}#{chosen}")


@pytest.mark.parametrize(
    "name", ["0004567-squares", "4567-squares", "x" * 300, "~nobody-here/a.png", "a\0b", "016-squares"]
)
def test_a_name_that_is_none_is_refused_whatever_it_looks_like(name: str) -> None:
    with pytest.raises(InputError):
        target(name)


def test_sixteen_bits_of_grey_are_scaled(tmp_path: Path) -> None:
    Pillow.fromarray(np.array([[0, 0xAAAA], [0xAAAA, 0]], dtype=np.uint16)).save(tmp_path / "a.png")
    assert rows(target(str(tmp_path / "a.png"))) == ["05", "50"]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        target(str(tmp_path / "a.png"))
