"""What people's files really hold: a clear line each, never a crash, and exit code 2 where nothing usable is left."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcslim.cli.main import main
from arcslim.errors import InputError
from arcslim.tasks.audit import Audit, Finding
from arcslim.tasks.spec import parse_spec
from tests.tasks.barc_made import puzzle, write_lines

MALFORMED = Path(__file__).parents[1] / "data" / "malformed"
REASONS = {
    "31_by_31": "too_large",
    "blank": "empty",
    "bom_alone": "empty",
    "cut_off": "not_json",
    "deep": "too_deep",
    "digits": "not_json",
    "empty": "empty",
    "float": "not_an_integer",
    "list": "not_a_task",
    "misnamed": "unknown_key",
    "missing_test": "missing_key",
    "nan": "not_finite",
    "negative": "bad_colour",
    "nested": "too_deep",
    "nothing": "empty",
    "ragged": "ragged",
    "text_for_number": "not_an_integer",
    "truth": "not_an_integer",
    "twice": "repeated_key",
    "utf16": "encoding",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 10) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["train", "test", "input", "output", "examples", "x"]), inner, max_size=3)
    ),
    max_leaves=20,
)
LINES = st.lists(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()), max_size=8)


def arcslim(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def look(spec: str) -> tuple[Audit, list[Finding]]:
    audit = Audit(4)
    return audit, list(audit.look(parse_spec(spec)))


def test_every_hand_made_file_is_known() -> None:
    assert {path.stem for path in MALFORMED.iterdir()} == set(REASONS)


@pytest.mark.parametrize("name", REASONS)
def test_a_file_that_cannot_be_used_has_a_clear_line_and_ends_with_2(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Must show 4 of the data issue."""
    path = MALFORMED / f"{name}.json"
    assert arcslim("data", "check", path) == 2
    shown = capsys.readouterr()
    (line,) = [line for line in shown.out.splitlines() if line.startswith("malformed: ")]
    assert line.startswith(f"malformed: {path}: {REASONS[name]}: ")
    assert len(line) < 300
    assert "nothing usable is left" in shown.err
    assert arcslim("data", "build", "--data", path, "--out", tmp_path / "built") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_of_them_is_read_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("data", "check", MALFORMED, "--all") == 2
    said = capsys.readouterr().out
    assert said.count(f"malformed: {MALFORMED}") == len(REASONS)
    assert f"read {len(REASONS)}, kept 0" in said
    assert arcslim("data", "build", "--data", MALFORMED, "--out", tmp_path / "built") == 2
    assert "no task to train on" in capsys.readouterr().err


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_200_mb_is_passed_over_and_never_held(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("some.jsonl.gz" if packed else "some.jsonl")
    good = json.dumps(puzzle(1)).encode() + b"\n"
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        file.write(good)
        file.write(b'{"examples": [')
        for _ in range(200):
            file.write(b"1," * 2**19)
        file.write(b"1]}\n" + good.replace(b"1", b"2"))
    tracemalloc.start()
    audit, findings = look(f"barc:{path}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(item.place, item.words) for item in findings] == [
        (f"{path.name}:2", "too_long_line: over 8 MiB in one line")
    ]
    assert audit.looked[0].usable == 2
    assert peak < 32 * 2**20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.booleans())
def test_any_lines_are_read_to_the_end(tmp_path: Path, lines: list[bytes], packed: bool) -> None:
    content = b"\n".join(lines) + b"\n"
    for kind, ending in (("barc:", "barc"), ("", "rows")):
        path = tmp_path / f"{ending}.jsonl{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
        audit, findings = look(f"{kind}{path}")
        counts = audit.looked[0].as_dict()
        assert counts.pop("read") == sum(counts.values())
        assert len([item for item in findings if item.what == "malformed"]) == audit.looked[0].malformed.total()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_file_is_a_task_or_a_line_about_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    audit, findings = look(str(path))
    assert audit.looked[0].usable or findings


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_behind_gzips_mark_are_no_crash(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08" + content)
    _, findings = look(f"barc:{path}")
    assert findings


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    _, findings = look(f"barc:{tmp_path / 'pipe.jsonl'}")
    assert findings[0].words.startswith("unreadable")
    with pytest.raises(InputError):
        look(f"barc:{write_lines(tmp_path / 'a.jsonl', [])}.nowhere")
