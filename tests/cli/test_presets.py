"""``arcslim presets list | show | copy | validate``."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcslim.cli.main import main
from arcslim.presets import find_preset, list_presets, load_config


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    captured = capsys.readouterr()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code, captured.out, captured.err


def test_list_names_every_preset_with_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "presets", "list")
    assert code == 0
    assert all(preset.name in out for preset in list_presets())
    assert "planned 19.8 GiB" in out


def test_show_prints_the_file_and_resolved_prints_every_knob(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "presets", "show", "cpu") == (0, find_preset("cpu").text, "")
    code, out, _ = run(capsys, "presets", "show", "cpu", "--resolved")
    assert code == 0
    assert "adam_beta1 = 0.9\n" in out
    saved = tmp_path / "resolved.toml"
    saved.write_text(out)
    assert load_config(str(saved)).config == load_config("cpu").config


def test_copy_does_not_overwrite_unless_forced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    assert run(capsys, "presets", "copy", "4090", str(mine))[0] == 0
    assert mine.read_text() == find_preset("4090").text
    mine.write_text("# my own work\n")
    code, _, err = run(capsys, "presets", "copy", "4090", str(mine))
    assert code == 2
    assert "--force" in err
    assert mine.read_text() == "# my own work\n"
    assert run(capsys, "presets", "copy", "4090", str(mine), "--force")[0] == 0
    assert mine.read_text() == find_preset("4090").text


@pytest.mark.parametrize("target", ["mine.txt", "nowhere/mine.toml"])
def test_copy_says_why_it_cannot(capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str) -> None:
    code, _, err = run(capsys, "presets", "copy", "cpu", str(tmp_path / target))
    assert code == 2
    assert target in err.replace("\n", "")


def test_validate_lists_every_problem_of_every_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Case 15: `arcslim presets validate` finds a misspelt key too."""
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text("[optim]\nlearnign_rate = 1\n[model]\nstandby = 3\n")
    second.write_text("[grpo]\nnum_generations = 3\n")
    code, out, err = run(capsys, "presets", "validate", "cpu", str(first), str(second), "nowhere.toml")
    assert code == 2
    assert out == "cpu: valid\n"
    for said in ("first.toml:2: ", "first.toml:4: ", "second.toml:2: ", "nowhere.toml: ", "4 problems"):
        assert said in err


def test_validate_is_silent_about_nothing_and_shows_doubts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "hot.toml"
    file.write_text("[generation]\ntemperature = 0.7\n")
    code, out, err = run(capsys, "presets", "validate", str(file))
    assert (code, err) == (0, "")
    assert "warning: " in out
    assert "hot.toml:2: at temperature 0.7" in out
