from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.errors import TaskError
from arcslim.tasks import jsonfile
from arcslim.tasks.jsonfile import read_json


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"{", "not_json"),
        (b"[1,]", "not_json"),
        (b"[1] [2]", "not_json"),
        (b"[01]", "not_json"),
        (b"[" + b"9" * 5000 + b"]", "not_json"),
        (b"[NaN]", "not_finite"),
        (b"[-Infinity]", "not_finite"),
        (b'{"a": 1, "a": 2}', "repeated_key"),
        (b'[{"x": {"a": 1, "b": 1, "a": 2}}]', "repeated_key"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        ("[1]".encode("utf-16"), "encoding"),
        (b'["\xe4"]', "encoding"),
    ],
)
def test_every_fault_has_its_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(data)
    with pytest.raises(TaskError) as caught:
        read_json(path)
    assert caught.value.reason == reason
    assert "f.json" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_json(path) == {"a": [1]}


def test_the_place_of_bad_syntax_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{\n "a": [1,\n 2,, 3]}')
    with pytest.raises(TaskError, match=r"f\.json:3:4"):
        read_json(path)


def test_a_line_of_200_mb_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)  # sparse: takes no disk
    with pytest.raises(TaskError, match="200 MB; at most 64 MB") as caught:
        read_json(path)
    assert caught.value.reason == "too_big"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path / "pipe.json", tmp_path, Path("/dev/zero")):
        with pytest.raises(TaskError) as caught:
            read_json(path)
        assert caught.value.reason == "unreadable"


def test_a_missing_file_and_a_loop_of_links(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        read_json(tmp_path / "none.json")
    assert caught.value.reason == "not_found"
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    with pytest.raises(TaskError) as caught:
        read_json(tmp_path / "loop.json")
    assert caught.value.reason == "unreadable"


@given(
    data=st.binary(max_size=60)
    | st.recursive(st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_read_or_refused_in_words(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    reason: str | None = None
    content: object = None
    try:
        content = read_json(path)
    except TaskError as error:
        reason = error.reason
    if reason is None:
        assert content == json.loads(data.decode("utf-8-sig"))
    else:
        assert reason in ("empty", "encoding", "not_json", "not_finite", "repeated_key")


def test_the_limit_holds_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile, "MAX_BYTES", 10)
    path = tmp_path / "f.json"
    path.write_text("[1234567 ]")
    assert read_json(path) == [1234567]
    path.write_text("[12345678 ]")
    with pytest.raises(TaskError):
        read_json(path)
