"""Rows of reasoning data from files and from the hub: every bad line counted with its place, and the rest read."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcslim.tasks.rows as rows_module
from arcslim.errors import InputError
from arcslim.tasks.lines import Unreadable
from arcslim.tasks.rows import Row, read_rows
from arcslim.tasks.spec import HUB, PATH, ROWS, SAMPLES, Spec, or_hub, parse_spec

ROW_A, ROW_B = {"question": "a", "answer": "é"}, {"question": "b", "answer": None}


def read(path: object) -> list[Row | Unreadable]:
    return list(read_rows(parse_spec(str(path))))


def faults(path: object) -> list[tuple[str, str]]:
    return [(row.place, row.reason) for row in read(path) if isinstance(row, Unreadable)]


def jsonl(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson", "rows.jsonl.gz"])
def test_lines_are_rows_with_their_places(name: str, tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + jsonl(ROW_A) + b"\n  \n" + jsonl(ROW_B).rstrip()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read(path) == [Row(f"{name}:1", ROW_A), Row(f"{name}:4", ROW_B)], "blank lines count, and are no rows"


def test_parquet_rows_are_those_of_jsonl(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    turns = [
        {"messages": [{"role": "user", "content": str(n)}, {"role": "assistant", "content": "b"}]} for n in range(600)
    ]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(turns), path)
    found = read(path)
    assert [row.values for row in found if isinstance(row, Row)] == turns
    assert isinstance(found[-1], Row) and found[-1].place == "rows.parquet:600"

    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    with pytest.raises(InputError, match="no parquet file"):
        read(path)


def test_a_text_of_parquet_that_is_not_utf8_ends_the_file_with_its_place(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    broken = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"question": broken}), path)
    assert [reason for _, reason in faults(path)] == ["unreadable"]


def test_each_bad_line_is_counted_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "LONGEST_LINE", 8000)
    bad = {
        "not_json": [b"{", b"{'a': 1}", b'{"a": 1} {"b": 2}', b"[" * 2000, b'{"a": ' + b"1" * 5000 + b"}"],
        "not_an_object": [b"[1]", b"null", b'"a"', b"7"],
        "encoding": [b'{"a": "\xff"}'],
        "too_long_line": [b'{"a": "' + b"x" * 9000 + b'"}'],
    }
    lines, wanted = [jsonl(ROW_A).rstrip()], []
    for reason, some in bad.items():
        for line in some:
            lines.append(line)
            wanted.append((f"rows.jsonl:{len(lines)}", reason))
    lines.append(jsonl(ROW_B).rstrip())
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines))
    assert faults(path) == wanted
    good = [row for row in read(path) if isinstance(row, Row)]
    assert [row.values for row in good] == [ROW_A, ROW_B] and good[-1].place == f"rows.jsonl:{len(lines)}"


def test_a_gzip_file_that_is_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    many = [{"question": str(number), "answer": str(number**9)} for number in range(4000)]
    whole = gzip.compress(jsonl(*many))
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    *good, last = read(path)
    assert isinstance(last, Unreadable) and last.reason == "unreadable"
    assert len(good) > 1000 and [row.values for row in good if isinstance(row, Row)] == many[: len(good)]


@given(st.binary(max_size=200))
def test_no_bytes_break_it(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Whatever the lines are: all that hold something are rows or faults, in order."""
    path = tmp_path_factory.mktemp("any") / "rows.jsonl"
    path.write_bytes(content + b"\n" + jsonl(ROW_A))
    found = read(path)
    assert found[-1] == Row(f"rows.jsonl:{content.count(10) + 2}", ROW_A)
    assert len(found) == len([line for line in content.split(b"\n") if line.strip()]) + 1


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.parquet"])
def test_a_file_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("a/rows.jsonl", Spec(ROWS, "a/rows.jsonl", 1.0)),
        ("rows.jsonl.gz", Spec(ROWS, "rows.jsonl.gz", 1.0)),
        ("rows.ndjson", Spec(ROWS, "rows.ndjson", 1.0)),
        ("rows.parquet=2", Spec(ROWS, "rows.parquet", 2.0)),
        ("lr=1.jsonl", Spec(ROWS, "lr=1.jsonl", 1.0)),
        ("hub:open-r1/codeforces-cots", Spec(HUB, "open-r1/codeforces-cots", 1.0)),
        ("hub:open-r1/cots:solutions@train[:5%]=2", Spec(HUB, "open-r1/cots:solutions@train[:5%]", 2.0)),
        ("open-r1/codeforces-cots", Spec(HUB, "open-r1/codeforces-cots", 1.0)),
        ("open-r1/codeforces-cots:solutions@train", Spec(HUB, "open-r1/codeforces-cots:solutions@train", 1.0)),
        ("samples:runs/one", Spec(SAMPLES, "runs/one", 1.0)),
        ("a/b/c", Spec(PATH, "a/b/c", 1.0)),
        ("a/mine.json", Spec(PATH, "a/mine.json", 1.0)),
    ],
)  # fmt: skip
def test_specs_of_rows(text: str, spec: Spec) -> None:
    assert or_hub(parse_spec(text)) == spec


@pytest.mark.parametrize("text", ["hub:name", "hub:a/b/c", "hub:", "samples:", "hub:../etc/passwd"])
def test_specs_that_name_nothing(text: str) -> None:
    with pytest.raises(InputError):
        parse_spec(text)


def test_a_folder_is_a_run_s_samples_if_it_holds_them_and_never_the_hub_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    assert or_hub(parse_spec("runs/one")).kind == PATH
    (tmp_path / "runs" / "one" / "samples.jsonl").write_bytes(jsonl(ROW_A))
    spec = or_hub(parse_spec("runs/one"))
    assert spec == Spec(SAMPLES, "runs/one", 1.0) and spec.name == "samples:runs/one"
    for text in ("runs/one", "samples:runs/one", "samples:runs/one/samples.jsonl"):
        assert read(text) == [Row("samples.jsonl:1", ROW_A)]


def test_the_hub_s_rows_come_as_those_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``datasets`` takes a folder OWNER/NAME for the hub's: the whole way without a network."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "owner" / "name"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_bytes(jsonl(*({"question": str(number), "answer": "b"} for number in range(9))))
    found = read("hub:owner/name")
    assert [row.values["question"] for row in found if isinstance(row, Row)] == [str(number) for number in range(9)]
    assert isinstance(found[-1], Row) and found[-1].place == "owner/name:9"
    some = read("hub:owner/name@train[2:4]")
    assert [row.values["question"] for row in some if isinstance(row, Row)] == ["2", "3"]
    with pytest.raises(InputError, match="owner/name cannot be read"):
        read("hub:owner/name@other")


def test_the_hub_without_a_network_is_an_error_with_the_way_out() -> None:
    with pytest.raises(InputError) as caught:
        list(read_rows(or_hub(parse_spec("nobody/has-this"))))
    assert "nobody/has-this" in str(caught.value) and "local JSONL or parquet" in str(caught.value)


def test_numbers_that_json_does_not_know_are_read_where_no_text_is_wanted(tmp_path: Path) -> None:
    """NaN in a column that nobody asks for costs no row; so writes Python's own `json`."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "q", "score": NaN, "worst": -Infinity}\n', encoding="utf-8")
    (row,) = read(path)
    assert isinstance(row, Row) and row.values["question"] == "q"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_huge_line_is_never_held(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 MB in one line, read with some MB: the row behind it is read, and has the right place."""
    monkeypatch.setattr(rows_module, "LONGEST_LINE", 2**20)
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) if name.endswith(".gz") else path.open("wb") as file:
        file.write(b'{"question": "')
        for _ in range(60):
            file.write(b"x" * 10**6)
        file.write(b'"}\n' + jsonl(ROW_A))
    tracemalloc.start()
    try:
        found = [(row.place, isinstance(row, Row)) for row in read(path)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [(f"{name}:1", False), (f"{name}:2", True)]
    assert most < 8 * 2**20
