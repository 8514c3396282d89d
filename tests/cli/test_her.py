"""`arcslim her` before it runs: what is refused, and by whom."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from arcslim.cli.her import TARGET_FILE, _refuse_another_image
from arcslim.errors import RunFolderError
from tests.recipes.made import arcslim


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "blank.txt"], "is blank"),
        (["--target", "nonsense"], "there is no target"),
        (["--set", "model.max_seq_length=300"], "raise model.max_seq_length to"),
        (["--set", 'her.samplers=["8"]'], "COUNT@TEMPERATURE"),
        (["--set", "her.max_generations=8"], "less than one epoch draws"),
        (["--set", "her.prompt=chat"], "knows one form of question"),
        (["--model", "no/where/at/all"], "no model folder"),
    ],
)
def test_what_cannot_run_is_refused_by_the_dry_run(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text("000\n000\n")
    assert arcslim("her", "--preset", "cpu", "--dry-run", *words) == 2
    assert said in capsys.readouterr().err


def test_options_before_pretrain_are_not_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("her", "--preset", "cpu", "pretrain", "--dry-run") == 2
    assert "--preset stands before `pretrain`" in capsys.readouterr().err


def test_a_target_that_changed_since_is_refused(tmp_path: Path) -> None:
    given = {"blank": [[0, 0]], "image": [[1, 2]]}
    (tmp_path / TARGET_FILE).write_text(json.dumps(given))
    folder = SimpleNamespace(path=tmp_path, checkpoint=object())
    _refuse_another_image(folder, given)
    with pytest.raises(RunFolderError, match="another image"):
        _refuse_another_image(folder, given | {"image": [[1, 3]]})
