from __future__ import annotations

import json
from pathlib import Path

import pytest

from arcslim.cli.main import main
from tests.tasks.barc_made import puzzle, write_lines

DATA = Path(__file__).parents[1] / "data"


def arcslim(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_it_lists_what_it_finds_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_lines(tmp_path / "some.jsonl", [puzzle(1), puzzle(1), "nonsense", puzzle(2)])
    held = write_lines(tmp_path / "held.jsonl", [puzzle(2)])
    assert arcslim("data", "check", f"barc:{file}", "rearc", "--held-out", f"barc:{held}") == 0
    said = capsys.readouterr().out
    assert "duplicate: some.jsonl:2: is some.jsonl:1: the same pairs" in said
    assert "malformed: some.jsonl:3: not_json" in said
    assert "leak: some.jsonl:4: is held out as held.jsonl:1: the same pairs" in said
    assert f"barc:{file}: read 4, kept 1, dropped: duplicate 1, leak 1, not_json 1" in said
    assert "rearc: generated" in said
    assert "held out: 1 tasks; 1 leaks" in said


def test_strict_is_for_scripts(tmp_path: Path) -> None:
    good, bad = write_lines(tmp_path / "good.jsonl", [puzzle(1)]), write_lines(tmp_path / "bad.jsonl", [puzzle(1)] * 2)
    assert arcslim("data", "check", "--strict", f"barc:{good}") == 0
    assert arcslim("data", "check", "--strict", f"barc:{bad}") == 1


def test_nothing_usable_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (("empty.json", ""), ("list.json", "[]"), ("deep.json", "[" * 100_000)):
        (tmp_path / name).write_text(content)
        assert arcslim("data", "check", tmp_path / name) == 2
        shown = capsys.readouterr()
        assert f"malformed: {tmp_path / name}: " in shown.out
        assert "nothing usable is left" in shown.err


def test_many_findings_are_cut_short_unless_all_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_lines(tmp_path / "some.jsonl", [puzzle(1), *["{}"] * 25])
    arcslim("data", "check", f"barc:{file}")
    said = capsys.readouterr().out
    assert said.count("malformed: some") == 10
    assert "and 15 more malformed" in said
    arcslim("data", "check", f"barc:{file}", "--all")
    assert capsys.readouterr().out.count("malformed: some") == 25


def test_names_that_would_act_on_the_terminal_are_shown_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = json.loads((DATA / "mirror.json").read_text())
    (tmp_path / "some.json").write_text(json.dumps({"[red]\x1b[2Jx": {"train": 3}, "arc1:train:": task}))
    assert arcslim("data", "check", tmp_path / "some.json") == 0
    assert "[red]\\x1b[2Jx" in capsys.readouterr().out


def test_rows_of_the_hub_are_looked_at(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``arcslim sft --data OWNER/NAME`` takes, this does too."""
    monkeypatch.setattr("arcslim.tasks.rows.hub_rows", lambda name, **how: iter([{"prompt": "a"}] * 2))
    assert arcslim("data", "check", "someone/rows") == 0
    assert "duplicate: someone/rows:2: is someone/rows:1: the same row" in capsys.readouterr().out


def test_a_generator_cannot_be_held_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("data", "check", "arc1", "--held-out", "rearc") == 2
    assert "no tasks that can be read" in capsys.readouterr().err
