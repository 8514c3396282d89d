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
        (["--set", "her.load_in_4bit=true", "--set", "model.full_finetuning=true"], "her.load_in_4bit=false for all"),
        (["--set", 'her.samplers=["8@0.1", "x@1"]'], "--set her.samplers"),
        (["--set", 'run.report_to=["trackio"]'], "trackio, which is not installed"),
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


def test_a_knob_of_another_recipe_is_named_with_hers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run.save_steps=5", "lora.r=4", "grpo.num_generations=4", "optim.weight_decay=0.1"]
    sets = [word for knob in words for word in ("--set", knob)]
    assert arcslim("her", "--preset", "cpu", "--dry-run", *sets) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "run.save_steps has no effect here (set her.save_epochs)" in said
    assert "lora.r has no effect here (set her.lora_r)" in said
    assert "grpo.num_generations has no effect here (leave it out)" in said
    assert "weight_decay has no effect" not in said
    assert arcslim("her", "pretrain", "--preset", "cpu", "--dry-run", "--set", "run.save_steps=5") == 0
    assert "set her.base.save_steps" in " ".join(capsys.readouterr().out.split())


def test_her_draws_without_vllm_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["model.fast_inference=true", "model.standby=true", "her.use_dora=true", "model.load_in_4bit=true"]
    words = [word for knob in sets for word in ("--set", knob)]
    assert arcslim("her", "--preset", "cpu", "--dry-run", *words) == 0
    assert "HER draws without vLLM" in " ".join(capsys.readouterr().out.split())


def test_its_own_defaults_are_not_doubted(capsys: pytest.CaptureFixture[str]) -> None:
    """`arcslim her --target chick`, as it is typed first."""
    assert arcslim("her", "--target", "chick", "--dry-run") == 0
    assert "doubtful" not in capsys.readouterr().out


@pytest.mark.parametrize(("name", "doubted"), [("16-squares", False), ("chick", False), ("49-squares", True)])
def test_a_target_that_no_program_has_room_for_is_doubted(
    name: str, doubted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert arcslim("her", "--preset", "cpu", "--target", name, "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("her.max_completion_length is 256: unless a shorter one draws it" in said) is doubted


def test_a_slip_in_the_modules_is_doubted(capsys: pytest.CaptureFixture[str]) -> None:
    knob = 'her.target_modules=["q_porj", "v_proj"]'
    assert arcslim("her", "--preset", "cpu", "--dry-run", "--set", knob) == 0
    assert "did you mean q_proj?" in " ".join(capsys.readouterr().out.split())


def made_base(folder: Path, recipe: str, form: str) -> Path:
    """A run folder as `her pretrain` leaves it, as far as the form of its question goes."""
    final = folder / "final"
    final.mkdir(parents=True)
    (final / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen2.5-Coder-0.5B"}))
    section = "her.base" if recipe == "her-pretrain" else "her"
    (folder / "resolved.toml").write_text(f'[{section}]\nprompt = "{form}"\n')
    (folder / "environment.json").write_text(json.dumps({"recipe": recipe}))
    return folder


@pytest.mark.parametrize("recipe", ["her-pretrain", "her"])
@pytest.mark.parametrize("place", ["", "final"])
def test_a_base_is_asked_as_it_was_made(
    recipe: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = made_base(tmp_path / "base", recipe, "chat") / place
    assert arcslim("her", "--preset", "cpu", "--model", str(base), "--dry-run") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "her.prompt is compact" in said and "was made on chat" in said and "set her.prompt=chat" in said
    assert arcslim("her", "pretrain", "--preset", "cpu", "--model", str(base), "--dry-run") == 2
    assert "set her.base.prompt=chat" in " ".join(capsys.readouterr().err.split())


def test_an_adapter_on_the_embedded_model_is_asked_as_that_was_made(tmp_path: Path) -> None:
    from arcslim.recipes.her_base import question_form

    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "tiny-draw"}))
    assert question_form(str(tmp_path)) == ("compact", "tiny-draw")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-0.6B"}))
    assert question_form(str(tmp_path)) is None and question_form("Qwen/Qwen3-0.6B") is None


def test_a_model_that_was_not_made_on_drawings_is_doubted(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim("her", "--preset", "4090", "--target", "chick", "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "doubtful: nothing says that Qwen/Qwen2.5-Coder-0.5B-Instruct was made on drawings" in said
    assert "her.target chick --target" in said and "fits, " in said
    assert arcslim("her", "--preset", "cpu", "--target", "chick", "--dry-run") == 0
    assert "doubtful" not in capsys.readouterr().out


def test_a_revision_is_of_the_model_that_it_was_given_for() -> None:
    from arcslim.config import Config, ModelSection
    from arcslim.her_config import HerSection

    given = ModelSection(name="a/b", revision="abc", load_in_4bit=True)
    other = Config(model=given, her=HerSection(model="c/d")).model_for("her")
    assert (other.name, other.revision, other.load_in_4bit) == ("c/d", None, False)
    assert Config(model=given, her=HerSection(model="a/b")).model_for("her").revision == "abc"
    assert Config(model=given).model_for("her-pretrain").name == HerSection().base.model
    assert Config(model=given).model_for("grpo") is given


def test_the_dry_run_of_a_base_looks_at_some_drawings(capsys: pytest.CaptureFixture[str]) -> None:
    """It tokenised all 96,000 drawings of the preset, for minutes and without a word."""
    words = ("--set", "her.base.drawings=5000", "--set", "her.base.held_out=10")
    assert arcslim("her", "pretrain", "--preset", "cpu", "--dry-run", *words) == 0
    said = capsys.readouterr().out
    assert "counted on the first 2,000 of 5,000 drawings" in said and "read 2000" in said


def test_a_run_folder_with_a_blank_can_be_pasted() -> None:
    from arcslim.cli.train import resume_line

    assert resume_line("her-pretrain", Path("my runs/a")) == (
        "go on with: arcslim her pretrain --run-dir 'my runs/a' --resume auto"
    )
