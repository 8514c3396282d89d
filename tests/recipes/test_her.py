"""HER on the real stack: the embedded model learns to draw what it could not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from arcslim.cli.her import redrawn
from arcslim.tasks.drawing_choice import same_image
from arcslim.tasks.drawing_parse import parse_program
from arcslim.tasks.targets import target
from tests.recipes.made import Folder, arcslim, tensors_differ

TARGET = "12-squares"
WORDS = ("her", "--preset", "cpu", "--target", TARGET, "--set", "her.save_epochs=1", "--set", "run.save_total_limit=99")


@pytest.fixture(scope="module")
def drawn(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = tmp_path_factory.mktemp("drawn")
    assert arcslim(*WORDS, "--run-dir", place / "run") == 0
    return Folder(place / "run")


def steps(run: Folder) -> list[dict[str, float]]:
    return [row["values"] for row in run.rows("metrics") if row["kind"] == "train"]


def told(run: Folder) -> list[dict[str, float]]:
    """The figures of each epoch without those of time and memory."""
    return [
        {name: value for name, value in row.items() if not name.startswith(("seconds/", "memory/"))}
        for row in steps(run)
    ]


def test_it_learns_to_draw_what_it_could_not(drawn: Folder) -> None:
    rows = steps(drawn)
    assert rows[0]["her/solved"] == 0 and rows[0]["her/best_pixel_accuracy"] < 1
    assert rows[-1]["her/solved"] == 1 and rows[-1]["her/best_pixel_accuracy"] == 1
    assert rows[-1]["her/generations_total"] == 64 * len(rows)
    best = [row["her/best_pixel_accuracy"] for row in rows]
    assert best == sorted(best)
    wanted = target(TARGET)
    program = parse_program((drawn.path / "program.txt").read_text())
    assert same_image(program.run(wanted.blank), wanted.image)
    assert drawn.events("end") == ["solved"]


def test_without_learning_as_many_programs_do_not_draw_it(drawn: Folder, tmp_path: Path) -> None:
    epochs = len(steps(drawn))
    words = ("--run-dir", tmp_path / "run", "--set", "her.train=false", "--max-epochs", epochs)
    assert arcslim(*WORDS, *words) == 0
    rows = steps(Folder(tmp_path / "run"))
    assert len(rows) == epochs and rows[-1]["her/solved"] == 0
    assert rows[-1]["her/best_pixel_accuracy"] < 0.9


def test_the_run_folder_is_the_contract(drawn: Folder) -> None:
    row = steps(drawn)[0]
    for name in (
        "loss", "her/unique_rate", "her/novel_rate", "her/code_lines_mean", "optim/grad_norm", "optim/lr",
        "completion/tokens_mean", "completion/cut_off_rate", "tokens/completion",
        "seconds/rollout", "seconds/update", "memory/host_peak_bytes",
    ):  # fmt: skip
        assert name in row
    assert {path.name for path in (drawn.path / "final").iterdir()} >= {"adapter_model.safetensors", "tokenizer.json"}
    assert all(path.suffix in (".json", ".safetensors", ".jinja") for path in (drawn.path / "final").iterdir())
    (asked,) = drawn.rows("tasks")
    assert asked["task"]["test"][0]["output"] == target(TARGET).image.tolist()
    drew = [sample for sample in drawn.rows("samples") if sample["answer"] is not None]
    for sample in drew:
        for written in (sample["completion"], sample["program"]):
            image = parse_program(written).run(target(TARGET).blank)
            assert image.tolist() == sample["answer"], "code → image"
    assert drew and all(sample["completion_tokens"] > 2 for sample in drew)
    refused = [sample for sample in drawn.rows("samples") if sample["answer"] is None]
    assert refused and all(sample["reason"] and sample["score"]["total"] == 0 for sample in refused)
    with Image.open(drawn.path / "drawings.png") as strip, Image.open(drawn.path / "drawings.gif") as film:
        assert strip.width > 200 and film.n_frames == len(steps(drawn))  # type: ignore[attr-defined]


def test_a_fresh_process_draws_the_same_and_a_lie_is_found_out(drawn: Folder, tmp_path: Path) -> None:
    assert "it draws the target" in redrawn(drawn.path, 1.0)
    (tmp_path / "target.json").write_bytes((drawn.path / "target.json").read_bytes())
    (tmp_path / "program.txt").write_text(
        "def task(img):\n    img = draw_pixel(img, point=(0, 0), color=1)\n    return img\n"
    )
    for said in (1.0, 0.5):
        with pytest.raises(RuntimeError, match="disagrees"):
            redrawn(tmp_path, said)
    assert "what was measured" in redrawn(tmp_path, 1 / 48)  # one cell of 6 x 8, though no solution
    (tmp_path / "program.txt").write_text("import os")
    with pytest.raises(RuntimeError, match="refused"):
        redrawn(tmp_path, 0.0)
    (tmp_path / "target.json").write_text("{")
    with pytest.raises(RuntimeError, match="JSONDecodeError"):
        redrawn(tmp_path, 0.0)


def test_it_goes_on_as_the_uninterrupted_run(drawn: Folder, tmp_path: Path) -> None:
    """The same programs, the same losses, the same weights: the optimizer and what was seen come along."""
    run = drawn.copy_to(tmp_path / "run")
    assert arcslim("her", "--run-dir", run.path, "--resume", "checkpoint-2") == 0
    assert told(run) == told(drawn)
    last = f"checkpoint-{len(steps(drawn))}"
    assert not list(tensors_differ(run.adapter(last), drawn.adapter(last)))
    assert (run.path / "program.txt").read_text() == (drawn.path / "program.txt").read_text()


def test_a_run_that_is_over_is_over_when_it_is_resumed(drawn: Folder, tmp_path: Path) -> None:
    run = drawn.copy_to(tmp_path / "run")
    assert arcslim("her", "--run-dir", run.path, "--resume", "auto") == 0
    assert told(run) == told(drawn) and run.events("end") == ["solved", "solved"]


def test_settings_that_a_run_goes_on_with_are_its_own_from_then_on(drawn: Folder, tmp_path: Path) -> None:
    """They were forgotten: the line that a stopped run gave to go on with was refused, and a rate went back."""
    run = drawn.copy_to(tmp_path / "run")
    words = ("her", "--run-dir", run.path, "--resume", "checkpoint-1", "--max-epochs", 2, "--force")
    assert arcslim(*words, "--set", "her.learning_rate=0.003") == 0
    assert steps(run)[1]["optim/lr"] == pytest.approx(0.003)
    resolved = (run.path / "resolved.toml").read_text()
    assert "max_epochs = 2 " in resolved and "learning_rate = 0.003 " in resolved
    assert arcslim("her", "--run-dir", run.path, "--resume", "auto", "--max-epochs", 3) == 0
    assert steps(run)[2]["optim/lr"] == pytest.approx(0.003)


def test_another_target_is_another_run(drawn: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = drawn.copy_to(tmp_path / "run")
    assert arcslim("her", "--run-dir", run.path, "--resume", "auto", "--target", "chick") == 2
    said = capsys.readouterr().err
    assert f"her.target {TARGET} → chick" in said and "--force" not in said


class After:
    """Asks to stop after so many epochs, as Ctrl-C does."""

    def __init__(self, folder: Path, epochs: int) -> None:
        self._metrics, self._epochs = folder / "metrics.jsonl", epochs

    @property
    def requested(self) -> bool:
        return self._metrics.is_file() and len(self._metrics.read_text().splitlines()) >= self._epochs

    def check(self) -> None:
        from arcslim.errors import Stopped

        if self.requested:
            raise Stopped("stopped by Ctrl-C", signum=2)


def test_case_25_stopped_between_two_epochs_it_is_saved_and_goes_on(drawn: Folder, tmp_path: Path) -> None:
    from arcslim.errors import Stopped
    from arcslim.presets import load_config
    from arcslim.recipes.her import run as run_her
    from arcslim.runs.folder import RunFolder

    config = load_config(str(drawn.path / "resolved.toml"), ["her.save_epochs=50"], {}, recipe="her").config
    place = tmp_path / "run"
    with RunFolder.create(place) as folder, pytest.raises(Stopped):
        run_her(config, folder, folder, After(place, 3), cache_dir=tmp_path)
    (place / "resolved.toml").write_bytes((drawn.path / "resolved.toml").read_bytes())
    run = Folder(place)
    assert run.events("checkpoint") == ["checkpoint-3"]
    assert arcslim("her", "--run-dir", place, "--resume", "auto") == 0
    assert told(run) == told(drawn)


def test_an_epoch_without_a_valid_program_goes_on(stack: Path, tmp_path: Path) -> None:
    """Cut off after three tokens no program is whole: counted, and the run ends by its own patience."""
    words = ("--set", "her.max_completion_length=3", "--set", "her.patience=2", "--run-dir", tmp_path / "run")
    assert arcslim(*WORDS, *words) == 0
    run = Folder(tmp_path / "run")
    rows = steps(run)
    assert [row["her/valid_rate"] for row in rows] == [0.0, 0.0] and rows[0]["her/refused/cut_off"] == 1
    assert "patience" in run.events("end")[0] and not (run.path / "program.txt").exists()


def test_a_base_is_made_and_her_goes_on_with_its_adapter(stack: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    sets = ("her.base.drawings=96", "her.base.held_out=16", "her.base.learning_rate=1e-4")
    words = [word for knob in sets for word in ("--set", knob)]
    assert arcslim("her", "pretrain", "--preset", "cpu", "--max-steps", 6, "--run-dir", base, *words) == 0
    run = Folder(base)
    start, end = run.values("eval", 0), run.values("eval", 6)
    assert start["eval/loss_rows"] == 16 and 0 <= start["eval/pass@1"] <= start["eval/pass@8"] <= 1
    assert end["eval/loss"] != start["eval/loss"]
    words = ["--model", str(base), "--run-dir", str(tmp_path / "run"), "--max-epochs", "1"]
    assert arcslim(*WORDS, *words) == 0
    goes = json.loads((tmp_path / "run" / "final" / "adapter_config.json").read_text())
    assert goes["use_rslora"] and goes["base_model_name_or_path"] == "tiny-draw"


def test_the_dry_run_shows_the_question_and_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert arcslim(*WORDS, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "output 6x8" in said and "0 11447711" in said
    assert "an epoch draws 64 programs" in said and "64 epochs at most, 4096 programs" in said


def test_grpo_on_a_drawing_is_paid_by_the_drawing_alone(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = Path(__file__).parents[2] / "benchmarks" / "her" / "grpo_draw.toml"
    words = ("grpo", "--preset", preset, "--data", "draw:4-squares", "--max-steps", 2, "--set", "run.save_steps=2")
    assert arcslim(*words, "--run-dir", tmp_path / "run") == 0
    run = Folder(tmp_path / "run")
    first = [row for row in run.rows("samples") if row["step"] == 1]
    assert len(first) == 64
    paid = [row["score"]["parts"]["drawing"] for row in first]
    assert run.values("train", 1)["reward/drawing"] == pytest.approx(sum(paid) / 64, abs=1e-6)
    capsys.readouterr()
    assert arcslim("grpo", "--preset", "cpu", "--data", "draw:4-squares", "--dry-run") == 2
    assert "--reward arcslim.rewards.drawing:DrawingReward" in capsys.readouterr().err
