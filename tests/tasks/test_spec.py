from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcslim.errors import InputError
from arcslim.tasks.rows import ROW_KINDS
from arcslim.tasks.sources import OPENERS
from arcslim.tasks.spec import BUILT, KINDS, PATH, ROWS, Spec, parse_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("rearc", Spec("rearc", "", 1.0)),
        (" rearc=0.5 ", Spec("rearc", "", 0.5)),
        ("rearc:67a3c6ac", Spec("rearc", "67a3c6ac", 1.0)),
        ("rearc:67a3c6ac, 68b16354=2", Spec("rearc", "67a3c6ac,68b16354", 2.0)),
        ("arc1", Spec("arc1", "", 1.0)),
        ("arc1:train=3", Spec("arc1", "train", 3.0)),
        ("arc1:eval", Spec("arc1", "eval", 1.0)),
        ("arc2:ARC-AGI-2=2", Spec("arc2", "ARC-AGI-2", 2.0)),
        ("barc", Spec("barc", "", 1.0)),
        ("barc:a/b.jsonl.gz=0.5", Spec("barc", "a/b.jsonl.gz", 0.5)),
        ("barc:lr=1.jsonl", Spec("barc", "lr=1.jsonl", 1.0)),
        ("mine.json", Spec(PATH, "mine.json", 1.0)),
        ("data/tasks=0.25", Spec(PATH, "data/tasks", 0.25)),
        ("./rearc", Spec(PATH, "./rearc", 1.0)),
        ("lr=0.5/tasks.json", Spec(PATH, "lr=0.5/tasks.json", 1.0)),
        ("lr=0.5/tasks.json=2", Spec(PATH, "lr=0.5/tasks.json", 2.0)),
        ("C:tasks.json", Spec(PATH, "C:tasks.json", 1.0)),
    ],
)
def test_specs_are_read(text: str, spec: Spec) -> None:
    assert parse_spec(text) == spec


def test_a_name_is_the_spec_without_its_weight() -> None:
    assert [parse_spec(text).name for text in ("rearc=2", "arc1:eval=2", "a/b.json=2")] == [
        "rearc",
        "arc1:eval",
        "a/b.json",
    ]


def test_an_existing_path_may_hold_an_equals_sign(tmp_path: Path) -> None:
    folder = tmp_path / "tasks=2"
    folder.mkdir()
    assert parse_spec(str(folder)) == Spec(PATH, str(folder), 1.0)
    assert parse_spec(f"{folder}=3") == Spec(PATH, str(folder), 3.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("reacr", "did you mean 'rearc'"),
        ("arc2", "arc2 needs a path"),
        ("arc3", "did you mean 'barc'"),
        ("arc1:evaluation", "did you mean arc1:eval"),
        ("arc1:", "nothing follows the colon"),
        ("rearc:a,,b", "empty generator id"),
        ("rearc:a,a", "more than once"),
        ("rearc=0", "above 0"),
        ("rearc=-1", "above 0"),
        ("rearc=inf", "above 0"),
        ("rearc=nan", "above 0"),
        ("rearc=lots", "not a number"),
        ("rearc=", "not a number"),
        ("", "empty data source"),
        ("=2", "empty data source"),
        ("zzzz", "known forms"),
    ],
)
def test_what_cannot_be_read_says_what_can(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_spec(text)
    assert words in str(caught.value)


def test_an_unknown_kind_lists_the_known_forms() -> None:
    with pytest.raises(InputError) as caught:
        parse_spec("lab42")
    assert all(kind.form in str(caught.value) for kind in KINDS.values())
    assert "PATH" in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    spec: Spec | None = None
    message = ""
    try:
        spec = parse_spec(text)
    except InputError as error:
        message = str(error)
    if spec is None:
        assert "known" in message or "weight" in message or "generator" in message or "rearc" in message
    else:
        assert spec.weight > 0
        assert spec.kind in {*OPENERS, *ROW_KINDS}


def test_every_kind_can_be_opened() -> None:
    assert {*OPENERS, *ROW_KINDS} == {*KINDS, PATH, BUILT, ROWS}
