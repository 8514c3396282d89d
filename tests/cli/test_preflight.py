"""Before a run loads anything: does it fit the GPU that is there? The GPU is what a fake ``nvidia-smi`` says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arcslim.cards import find_gpu
from arcslim.cards_ram import Ram
from arcslim.cli.plan import plan_for
from arcslim.cli.preflight import gpu_here, look_before, plan_against_measured, plan_lines
from arcslim.errors import DoesNotFitError
from arcslim.memory.formulas import CUDA_CONTEXT
from arcslim.presets import find_preset, load_config
from tests.recipes.conftest import stack, whole  # noqa: F401 - fixtures
from tests.recipes.made import Folder, arcslim, write_preset
from tests.runs.made import RTX_4090, fake_smi

GIB = 1024**3
T4 = "Tesla T4, 15360 MiB, 580.95, 7.5, 70.00 W, 3 MiB, GPU-0a1b, [N/A]"
FULL_4090 = RTX_4090.replace("412 MiB", "9000 MiB")


@pytest.fixture(autouse=True)
def plenty_of_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests say of other machines what they need; how much RAM this one has is not their subject."""
    machine(monkeypatch, 256, 200)


def machine(monkeypatch: pytest.MonkeyPatch, total: float, free: float, *, limited: bool = False) -> None:
    ram = Ram(total * GIB, free * GIB, limited)
    monkeypatch.setattr("arcslim.cli.preflight.host_ram", lambda: ram)


def config_of(preset: str, *sets: str, recipe: str = "grpo"):  # type: ignore[no-untyped-def]
    return load_config(preset, sets, recipe=recipe).config


def test_what_cannot_fit_ends_before_a_folder_is_made_or_anything_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    line = ["grpo", "--preset", "4090", "--run-dir", str(tmp_path / "run")]
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('loaded', [n for n in ('torch', 'transformers') if n in sys.modules]))\n"
        f"from arcslim.cli.main import main; main({line})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    said = re.sub(r"\s+", " ", done.stderr)
    assert "the plan needs 20.0 GiB, T4 has 14.6" in said
    assert "--set generation.rollout_batch=" in said and "--force" in said
    assert not (tmp_path / "run").exists()
    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
def test_the_change_that_is_named_makes_it_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    with pytest.raises(DoesNotFitError) as error:
        look_before(config_of("4090", recipe=recipe), recipe)
    settings = re.findall(r"--set (\S+?=\S+?)(?:;|\s|$)", str(error.value.hint))
    assert settings
    plan = look_before(config_of("4090", *settings, recipe=recipe), recipe).plan
    assert plan is not None and plan.fits and plan.request.gpu.name == "T4"


def test_force_starts_all_the_same_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    before = look_before(config_of("4090"), "grpo", force=True)
    assert before.plan is not None and not before.plan.fits
    assert "started all the same" in before.notes[0]


def test_without_a_gpu_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, script="echo 'no driver' >&2; exit 9")
    before = look_before(config_of("h100-14b"), "grpo")
    assert before.plan is not None and before.plan.request.gpu.is_cpu
    assert bool(before.notes) != before.plan.fits
    assert look_before(config_of("cpu"), "grpo").notes == ()


def test_a_gpu_that_is_hidden_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    here = gpu_here()
    assert here.card is None and not here.is_there
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    before = look_before(config_of("4090"), "grpo")
    assert before.plan is None and "CUDA_VISIBLE_DEVICES=3" in before.notes[0]


def test_doubts_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    assert look_before(config_of("4090"), "grpo").notes == ()
    (tight,) = look_before(config_of("4090-14b"), "grpo").notes
    assert "upper end of its error band" in tight


def test_what_others_hold_of_the_card_is_not_there_to_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, FULL_4090)
    with pytest.raises(DoesNotFitError, match=r"other programs hold 8\.8 GiB") as error:
        look_before(config_of("4090"), "grpo")
    hint = str(error.value.hint)
    assert (
        error.value.exit_code == 3
        and "nvidia-smi" in hint
        and "--force" in hint
        and "14.8 are left" in str(error.value)
    )
    settings = re.findall(r"--set (\S+?=\S+?)(?:;|\s|$)", hint)
    assert settings and look_before(config_of("4090", *settings), "grpo").plan, "what is advised starts beside them"
    (held,) = look_before(config_of("4090"), "grpo", force=True).notes
    assert "started all the same" in held
    fake_smi(tmp_path, monkeypatch, RTX_4090.replace("412 MiB", "3200 MiB"))
    assert look_before(config_of("4090"), "grpo").notes == (), "3.1 GiB of a card with 3.3 to spare"


def test_too_little_host_ram_is_refused_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    config = config_of("4090")
    plan = plan_for(config, "grpo", find_gpu("4090"))
    assert 10 * GIB < plan.host_peak < 11 * GIB
    machine(monkeypatch, 9.5, 9, limited=True)
    with pytest.raises(DoesNotFitError, match=r"10\.5 GiB of host RAM") as error:
        look_before(config, "grpo")
    assert error.value.exit_code == 3 and "limit) 9.5" in str(error.value)
    hint = str(error.value.hint)
    assert "micro-batch 2 instead of 4 would fit" in hint and "--force" in hint
    settings = re.findall(r"--set (\S+?=\S+?)(?:;|\s|$)", hint)
    assert look_before(config_of("4090", *settings), "grpo").notes == ()
    (forced,) = look_before(config, "grpo", force=True).notes
    assert "host RAM" in forced and "started all the same" in forced
    machine(monkeypatch, 16, 10)
    (short,) = look_before(config, "grpo").notes
    assert "of 16.0 GiB of RAM 10.0 are free now, and the plan needs 10.5" in short
    machine(monkeypatch, 16, 10.6)
    assert look_before(config, "grpo").notes == ()
    machine(monkeypatch, 3, 3)
    with pytest.raises(DoesNotFitError, match=r"this machine has 3\.0") as error:
        look_before(config, "grpo")
    assert "a machine with more RAM" in str(error.value.hint)


def test_a_model_without_known_shapes_is_not_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    fake_smi(tmp_path, monkeypatch, RTX_4090)
    before = look_before(config_of("4090", f"model.name={tmp_path / 'gpt'}"), "grpo")
    assert before.plan is None and "gpt2" in before.notes[0]


def test_an_adapter_brings_its_rank(tmp_path: Path) -> None:
    said = {"base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": 128}
    (tmp_path / "adapter_config.json").write_text(json.dumps(said))
    plan = plan_for(config_of("4090", f"model.name={tmp_path}"), "grpo", find_gpu("4090"))
    assert plan.request.setup.lora_r == 128 and plan.request.card.name == "Qwen2.5-7B"


@pytest.mark.parametrize(("recipe", "knob"), [("her", "her.rollout_batch"), ("her-pretrain", "her.base.per_device")])
def test_her_and_its_base_are_planned_and_refused_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, knob: str
) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    plan = look_before(config_of("4090", recipe=recipe), recipe).plan
    assert plan is not None and plan.fits and plan.request.setup.recipe == recipe
    assert plan.request.card.name == "Qwen2.5-0.5B", "of [her], and not of [model]"
    large = {"her": ("her.rollout_batch=2000", 'her.samplers=["2000@0.9"]', "her.max_completion_length=2000")}
    sets = large.get(recipe, ("her.base.per_device_train_batch_size=512", "her.base.batch_size=512"))
    with pytest.raises(DoesNotFitError) as error:
        look_before(config_of("4090", *sets, recipe=recipe), recipe)
    assert knob in str(error.value.hint)
    lines = plan_lines(load_config("4090", recipe=recipe), recipe)
    assert "on RTX 4090: fits" in lines[0] and f"--recipe {recipe}" in lines[-1]


@pytest.mark.parametrize(("recipe", "line"), [("her", ["her"]), ("her-pretrain", ["her", "pretrain"])])
def test_her_ends_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], recipe: str, line: list[str]
) -> None:
    fake_smi(tmp_path, monkeypatch, T4.replace("15360", "1500"))
    assert arcslim(*line, "--preset", "4090", "--run-dir", str(tmp_path / "run")) == 3
    assert "T4 has" in re.sub(r"\s+", " ", capsys.readouterr().err) and not (tmp_path / "run").exists()


def test_a_dry_run_plans_for_the_presets_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, monkeypatch, T4)
    said = "\n".join(plan_lines(load_config("4090", recipe="grpo"), "grpo"))
    assert "on RTX 4090: fits, 20.3 of 23.6 GiB" in said and "rollout 18.9" in said
    assert "arcslim plan --preset 4090 --recipe grpo" in said
    shown = load_config("4090", ["generation.rollout_batch=64"], recipe="grpo")
    assert "--set generation.rollout_batch=" in plan_lines(shown, "grpo")[3]
    copy = tmp_path / "mine.toml"
    copy.write_text(find_preset("4090").text)
    assert f"--preset {copy} " in plan_lines(load_config(str(copy), recipe="grpo"), "grpo")[-1]
    unnamed = load_config(None, [], {"model.name": "Qwen/Qwen2.5-7B-Instruct"}, recipe="grpo")
    assert "on which GPU?" in plan_lines(unnamed, "grpo")[0]


def test_plan_against_measured_on_a_gpu() -> None:
    plan = plan_for(config_of("4090"), "grpo", find_gpu("4090"))
    planned = max(phase.gpu_peak for phase in plan.phases) - CUDA_CONTEXT
    event, words = plan_against_measured(plan, {"memory/gpu_peak_bytes": 0.8 * planned}) or ("", "")
    assert event == "start" and "(80%)" in words and "on the GPU" in words
    assert (plan_against_measured(plan, {"memory/gpu_peak_bytes": 1.2 * planned}) or [""])[0] == "warning"
    assert plan_against_measured(plan, {"memory/host_peak_bytes": 3 * GIB}) is None, "it ran without the GPU after all"


def test_a_run_holds_its_plan_and_what_became_of_it(whole: Folder) -> None:  # noqa: F811
    plan = json.loads((whole.path / "plan.json").read_text())
    assert plan["gpu"]["name"] == "cpu" and plan["setup"]["recipe"] == "grpo" and plan["fits"]
    (words,) = [words for words in whole.events("start") + whole.events("warning") if "plan against measured" in words]
    (row,) = [row for row in whole.rows("events") if row["detail"] == words]
    assert row["step"] == 1
    measured = whole.values("train", 1)["memory/host_peak_bytes"]
    assert f"{measured / GIB:.1f} measured so far ({measured / plan['host_peak_bytes']:.0%})" in words


def test_the_dry_run_shows_it_and_refuses_what_the_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_smi(tmp_path, monkeypatch, T4.replace("15360", "900"))
    preset = write_preset(tmp_path)
    assert arcslim("grpo", "--preset", preset, "--dry-run") == 3
    told = capsys.readouterr()
    assert "on this machine, without a GPU: fits" in re.sub(r"\s+", " ", told.out)
    assert "Tesla T4 has" in told.err
    assert arcslim("grpo", "--preset", preset, "--dry-run", "--force") == 0
