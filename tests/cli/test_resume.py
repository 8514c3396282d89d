"""What a run goes on from is looked at before a byte is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arcslim.cli import resume
from arcslim.cli.options import TrainOptions
from arcslim.errors import ConfigError, InputError, RunFolderError
from arcslim.presets import load_config, to_toml
from arcslim.recipes.state import STATE_FILE
from tests.recipes.made import arcslim
from tests.runs.made import make_checkpoint

# SFT may save after any step; GRPO not in the middle of a rollout.
SETS = ["run.save_steps=7", "grpo.steps_per_generation=32", "optim.gradient_accumulation_steps=16", "sft.max_steps=14"]


def a_run(folder: Path, *, recipe: str | None = "sft", sets: tuple[str, ...] = ()) -> Path:
    """The folder of an SFT run with two checkpoints."""
    resolved = load_config(None, [*SETS, *sets], recipe="sft")
    (folder / resume.RESOLVED).write_text(to_toml(resolved.config, resolved.origins))
    (folder / resume.ENVIRONMENT).write_text(json.dumps({"recipe": recipe}))
    for step in (7, 14):
        make_checkpoint(folder, step, (STATE_FILE,))
    return folder


def look(folder: Path, *sets: str, which: str = "newest", recipe: str = "sft", force: bool = False) -> list[str]:
    knob = "sft.max_steps" if recipe == "sft" else "run.max_steps"
    options = TrainOptions(
        resume=which, run_dir=str(folder), recipe=recipe, sets=sets, max_steps_knob=knob, force=force
    )
    options, resolved = resume.resolve(options)
    return resume.look_ahead(options, resolved.config, (STATE_FILE,))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_resumed_run_reads_its_own_file_as_its_recipe_does(tmp_path: Path) -> None:
    """A save_steps that GRPO alone refuses must not keep an SFT run from going on, and its settings are compared."""
    folder = a_run(tmp_path, recipe=None)  # as folders of before are: they do not say whose they are
    assert look(folder) == []
    with pytest.raises(RunFolderError, match=r"lora\.r 16 → 3"):
        look(folder, "lora.r=3")
    with pytest.raises(ConfigError, match="cuts a rollout in two"):
        look(folder, recipe="grpo")


@pytest.mark.parametrize(("ran", "asked"), [("sft", "grpo"), ("grpo", "sft")])
@pytest.mark.parametrize("which", ["auto", "checkpoint-7"])
def test_another_recipes_run_is_refused_and_left_as_it_was(
    ran: str, asked: str, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(tmp_path, recipe=ran)
    before = content(folder)
    assert arcslim(asked, "--run-dir", folder, "--resume", which) == 2
    said = capsys.readouterr().err
    assert f"is a run of `arcslim {ran}`" in said and f"arcslim {asked} --model {folder}" in said
    assert content(folder) == before


@pytest.mark.parametrize(("which", "steps"), [("newest", 13), ("checkpoint-7", 7), ("checkpoint-7", 3)])
def test_steps_that_are_done_already_move_nothing_aside(which: str, steps: int, tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    before = content(folder)
    with pytest.raises(RunFolderError, match="nothing would be trained"):
        look(folder, f"sft.max_steps={steps}", which=which)
    assert content(folder) == before


def test_fewer_epochs_than_are_done_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = a_run(tmp_path, sets=("sft.num_train_epochs=2", 'sft.max_steps="none"'))
    for step in (7, 14):
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(
            json.dumps({"global_step": step, "max_steps": 14})
        )
    before = content(folder)
    with pytest.raises(RunFolderError, match=r"sft\.num_train_epochs asks for 7"):
        look(folder, "sft.num_train_epochs=1")
    assert content(folder) == before
    changed, curve = look(folder, "sft.num_train_epochs=3")
    assert "2.0 → 3.0" in changed and "curve" in curve


@pytest.mark.parametrize("which", ["", " "])
def test_an_empty_resume_is_told(which: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--resume is empty"):
        look(a_run(tmp_path), which=which)


def test_a_run_that_had_all_its_steps_may_be_looked_at_again(tmp_path: Path) -> None:
    """What a spot machine's start script does after the end."""
    assert look(a_run(tmp_path), which="auto") == []


def test_more_steps_change_the_learning_rates_curve_and_it_is_said(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    changed, curve = look(folder, "sft.max_steps=28")
    assert "sft.max_steps 14 → 28" in changed and "from step 14 on" in curve
    (changed,) = look(folder, "run.save_total_limit=9")
    assert "curve" not in changed


def test_a_flat_rate_has_no_curve(tmp_path: Path) -> None:
    folder = a_run(tmp_path, sets=("sft.lr_scheduler_type=constant",))
    (changed,) = look(folder, "sft.max_steps=28")
    assert "sft.max_steps 14 → 28" in changed


def test_force_goes_on_all_the_same(tmp_path: Path) -> None:
    (changed,) = look(a_run(tmp_path), "lora.r=3", force=True)
    assert "lora.r 16 → 3" in changed


@pytest.mark.parametrize("recipe", ["sft", "grpo"])
def test_a_dry_run_refuses_what_the_run_would(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, full, empty = tmp_path / "file", tmp_path / "full", tmp_path / "empty"
    file.write_text("x")
    full.mkdir()
    (full / "mine.txt").write_text("x")
    empty.mkdir()
    run = tmp_path / "run"
    run.mkdir()
    a_run(run, recipe=recipe)
    for words, said in (
        (["--run-dir", file], "is a file"),
        (["--run-dir", full], "is not empty"),
        (["--run-dir", full, "--resume", "auto"], "not a run folder"),
        (["--run-dir", empty, "--resume", "newest"], "nothing to resume"),
        (["--run-dir", run, "--resume", "checkpoint-3"], "no checkpoint checkpoint-3"),
    ):
        assert arcslim(recipe, "--preset", "cpu", "--dry-run", *words) == 2
        assert said in capsys.readouterr().err


def test_a_dry_run_refuses_to_train_an_adapter_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "tiny"}')
    words = [
        "--model",
        tmp_path,
        "--set",
        "model.full_finetuning=true",
        "--set",
        "model.load_in_4bit=false",
        "--dry-run",
    ]
    assert arcslim("sft", "--preset", "cpu", *words) == 2
    assert "cannot be trained in full" in capsys.readouterr().err
