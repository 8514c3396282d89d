"""The SFT recipe on the real stack: the tiny model in 4-bit, a generator's honest traces."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import Config
from tests.recipes.made import Folder, Never, arcslim, assert_same_rows, tensors_differ
from tests.recipes.sft_made import sft_config_of, write_sft_preset

STEPS = 12  # 48 rows, 8 an update, 2 epochs


def test_it_learns(taught: Folder) -> None:
    """The loss on rows that it never saw falls, and it solves more of the tasks behind them."""
    start, end = taught.values("eval", 0), taught.values("eval", STEPS)
    assert end["eval/loss"] < 0.6 * start["eval/loss"]
    assert end["eval/pass@1"] > start["eval/pass@1"] + 0.1
    assert end["eval/thinking_tokens_mean"] > 0.8 * start["eval/thinking_tokens_mean"]
    losses = [taught.values("train", step)["loss"] for step in range(1, STEPS + 1)]
    assert sum(losses[-3:]) < 0.6 * sum(losses[:3])


def test_the_run_folder_is_the_contract(taught: Folder) -> None:
    row = taught.values("train", STEPS)
    for name in ("loss", "optim/lr", "optim/grad_norm", "seconds/update", "memory/host_peak_bytes"):
        assert name in row
    assert {path.name for path in (taught.path / "final").iterdir()} >= {
        "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "tokenizer.json",
    }  # fmt: skip
    assert all(path.suffix != ".bin" for path in (taught.path / "final").iterdir())
    assert taught.rows("tasks") and taught.events("end") == ["all steps are done"]
    goes = json.loads((taught.path / "final" / "adapter_config.json").read_text())
    assert goes["r"] == 16


def test_the_best_checkpoint_is_the_one_with_the_best_pass_at_1(taught: Folder) -> None:
    state = taught.state(STEPS)
    passed = {step: taught.values("eval", step)["eval/pass@1"] for step in (4, 8, 12)}
    assert passed[state["best_step"]] == max(passed.values()) == state["best"]
    final, best = taught.adapter("final"), taught.adapter(f"checkpoint-{state['best_step']}")
    assert not list(tensors_differ(final, {name: best[name].float() for name in best}))


def test_it_goes_on_as_the_uninterrupted_run(taught: Folder, tmp_path: Path) -> None:
    """From step 4, in the middle of an epoch: the same rows in the same order, the same weights."""
    run = taught.copy_to(tmp_path / "run")
    assert arcslim("sft", "--run-dir", run.path, "--resume", "checkpoint-4") == 0
    assert_same_rows(run.learned(), taught.learned())
    assert not list(tensors_differ(run.adapter("checkpoint-12"), taught.adapter("checkpoint-12")))


def test_the_saved_template_opens_the_thinking(taught: Folder) -> None:
    """Case 4: what a server renders from ``final/`` is, token for token, the prompt of the training."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(taught.path / "final")
    row = taught.rows("tasks")[0]
    question = row["prompt"].partition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
    messages = [{"role": "user", "content": question}]
    encoded = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=True)
    assert tokenizer.decode(encoded["input_ids"]) == row["prompt"]
    assert row["prompt"].endswith("<|im_start|>assistant\n<think>\n")
    assert list(encoded["input_ids"]) == tokenizer(row["prompt"], add_special_tokens=False)["input_ids"]


class Seen:
    """A sink that keeps nothing but events and figures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[tuple[str, int], dict[str, Any]] = {}

    def metrics(self, step: int, kind: str, values: Any) -> None:
        self.values[kind, step] = dict(values)

    def samples(self, rows: Any) -> None: ...
    def task_rows(self, rows: Any) -> None: ...
    def event(self, step: int, event: str, detail: str) -> None: ...
    def progress(self, step: int, total: int, **facts: Any) -> None: ...
    def mark_best(self, step: int) -> None: ...
    def prune(self, keep: int, best: int | None = None) -> list[str]:
        return []

    def write_text(self, name: str, text: str) -> None: ...

    def rewind(self) -> list[str]:
        return []


def trained(config: Config, path: Path) -> tuple[Seen, dict[str, Any]]:
    """The recipe run on its own; its figures and the adapter of its last checkpoint."""
    from arcslim.recipes.sft import run

    seen = Seen(path)
    run(config, seen, seen, Never(), cache_dir=path / "cache")  # type: ignore[arg-type]
    last = max(path.glob("checkpoint-*"), key=lambda one: int(one.name.rpartition("-")[2]))
    return seen, Folder(path).adapter(last.name)


QUIET = ("data.holdout_select=0", "run.eval_steps=1000", "run.save_steps=1000")


@pytest.mark.parametrize(("warmup", "at_start"), [("0", 1.0), ("0.03", 0.0), ("1", 0.0)])
def test_the_rate_warms_up_and_falls_to_a_tenth(stack: Path, tmp_path: Path, warmup: str, at_start: float) -> None:
    """60 steps, one row each: first, middle and last."""
    sets = (*QUIET, f"sft.warmup_steps={warmup}", "sft.max_steps=60", "sft.batch_size=1",
            "sft.per_device_train_batch_size=1", "sft.learning_rate=1e-4")  # fmt: skip
    seen, _ = trained(sft_config_of(tmp_path, *sets), tmp_path / "run")
    rates = [seen.values["train", step]["optim/lr"] for step in range(1, 61)]
    assert rates[0] == pytest.approx(1e-4 * at_start)
    assert max(rates) == pytest.approx(1e-4)
    assert rates[30] == pytest.approx(0.55e-4, rel=0.08), "half-way down the cosine"
    assert rates[-1] == pytest.approx(1e-5, rel=0.01)


def test_a_run_of_one_update_learns(stack: Path, tmp_path: Path) -> None:
    """The first step of a warm-up has the rate 0, and 3% of one step is none."""
    sets = (*QUIET, "sft.max_steps=1", "sft.batch_size=8")
    seen, adapter = trained(sft_config_of(tmp_path, *sets), tmp_path / "run")
    assert seen.values["train", 1]["optim/lr"] > 0
    assert any(bool(weight.any()) for name, weight in adapter.items() if "lora_B" in name)


@pytest.fixture
def no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    import arcslim.recipes.arguments as arguments

    monkeypatch.setattr(arguments, "mixed_precision", lambda *, on_gpu: {"bf16": False})


@pytest.mark.parametrize("four_bit", [False, True])
def test_accumulation_is_the_same_update(stack: Path, tmp_path: Path, no_autocast: None, four_bit: bool) -> None:
    """8 steps of 8 rows, at once and one by one: rows of different lengths, so that a mean of means would show.

    With a step of warm-up, as runs of a usual length have: AdamW's very first step moves each weight by the whole rate
    whatever its gradient, so that rounding decides the direction where there is next to none.
    """
    sets = (
        *QUIET,
        "sft.max_steps=8",
        "sft.warmup_steps=1",
        f"model.load_in_4bit={str(four_bit).lower()}",
        "sft.learning_rate=1e-4",
    )
    whole, weights = trained(sft_config_of(tmp_path, *sets), tmp_path / "whole")
    pieces, others = trained(sft_config_of(tmp_path, *sets, "sft.per_device_train_batch_size=1"), tmp_path / "pieces")
    for step in range(1, 9):
        loss, other = (seen.values["train", step]["loss"] for seen in (whole, pieces))
        assert other == pytest.approx(loss, rel=1e-3 if four_bit else 1e-5)
    if not four_bit:
        moved = [name for name in weights if bool((weights[name] != 0).any())]
        assert len(moved) == len(weights), "each B matrix has left 0"
        for name in weights:
            assert float((weights[name] - others[name]).norm() / weights[name].norm()) < 1e-5, name


def test_case_21_no_packing_is_no_packing(stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 21: neither packing nor padding-free; a batch of rows is a batch of rows, padded on the right."""
    from trl import SFTTrainer

    batches: list[dict[str, Any]] = []
    real = SFTTrainer.compute_loss

    def look(self: Any, model: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        batches.append({name: tensor.clone() for name, tensor in inputs.items()})
        assert not self.args.packing and not self.args.padding_free and not self.padding_free
        return real(self, model, inputs, *arguments, **named)

    monkeypatch.setattr(SFTTrainer, "compute_loss", look)
    trained(sft_config_of(tmp_path, *QUIET, "sft.max_steps=2", "sft.group_by_length=false"), tmp_path / "run")
    assert len(batches) == 2
    for batch in batches:
        assert "position_ids" not in batch
        rows, width = batch["input_ids"].shape
        assert rows == 8 and batch["labels"].shape == batch["attention_mask"].shape == (rows, width)
        lengths = batch["attention_mask"].sum(1)
        assert len(set(lengths.tolist())) > 1 and int(lengths.max()) == width
        for labels, length in zip(batch["labels"], lengths, strict=True):
            assert bool((labels[int(length) :] == -100).all()) and int(labels[int(length) - 1]) != -100


def test_grpo_goes_on_from_it(taught: Folder, tmp_path: Path) -> None:
    """`arcslim grpo --model RUN/final`: from that adapter, and with beta > 0 the KL is to it and not to the base."""
    from tests.recipes.made import WHOLE, write_preset

    preset = write_preset(tmp_path, *WHOLE, "run.max_steps=1", "grpo.beta=0.1", "run.save_steps=1")
    words = ("--preset", preset, "--model", taught.path / "final", "--run-dir", tmp_path / "run")
    assert arcslim("grpo", *words) == 0
    run = Folder(tmp_path / "run")
    assert run.values("train", 1)["policy/kl"] == pytest.approx(0.0, abs=1e-6)
    before, after = taught.adapter("final"), run.adapter("final")
    assert before.keys() == after.keys()
    assert all(float((after[name] - before[name]).abs().max()) < 0.01 for name in before), "a step away from it"


def test_full_finetuning_saves_the_whole_model(stack: Path, tmp_path: Path) -> None:
    sets = (
        *QUIET,
        "sft.max_steps=3",
        "model.full_finetuning=true",
        "model.load_in_4bit=false",
        "sft.learning_rate=1e-4",
    )
    preset = write_sft_preset(tmp_path, *sets)
    assert arcslim("sft", "--preset", preset, "--run-dir", tmp_path / "run") == 0
    final = tmp_path / "run" / "final"
    assert (final / "model.safetensors").is_file() and not (final / "adapter_config.json").exists()
    losses = [Folder(tmp_path / "run").values("train", step)["loss"] for step in (1, 3)]
    assert losses[1] < losses[0]


def test_case_25_stopped_and_resumed_it_ends_as_the_uninterrupted_run(
    taught: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 25: Ctrl-C in a step and SIGTERM in an evaluation's loss; the same code as GRPO's, so that two suffice."""
    import arcslim.recipes.sft_loss as losses
    from tests.recipes.test_grpo_stopping import signalling

    run = Folder(tmp_path / "run")

    def stopped(owner: Any, name: str, signum: int, at: int, *words: Any) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            signalling(monkeypatch, owner, name, signum, lambda call: call == at)
            assert arcslim("sft", *words, "--run-dir", run.path) == 128 + signum
        said = capsys.readouterr().err.replace("\n", " ")
        assert f"go on with: arcslim sft --run-dir {run.path} --resume auto" in said

    from trl import SFTTrainer

    stopped(SFTTrainer, "compute_loss", signal.SIGINT, 6, "--preset", taught.path / "resolved.toml")
    kept = [int(name.rpartition("-")[2]) for name in run.checkpoints()]
    assert kept and max(kept) < STEPS and run.adapter("final")
    stopped(losses.HeldLoss, "__call__", signal.SIGTERM, 1, "--resume", "auto")
    assert arcslim("sft", "--run-dir", run.path, "--resume", "auto") == 0
    assert_same_rows(run.learned(), taught.learned())
    assert not list(tensors_differ(run.adapter("checkpoint-12"), taught.adapter("checkpoint-12")))


def test_right_rollouts_become_rows(whole: Folder, tmp_path: Path) -> None:
    """Rejection sampling end to end: a GRPO run's folder is data for SFT, and what it got wrong is not trained on."""
    right = [row for row in whole.rows("samples") if row["score"]["parts"]["grid"] == 1.0]
    assert right, "the small GRPO run solves something"
    preset = write_sft_preset(tmp_path, *QUIET, "sft.max_steps=2")
    words = ("--preset", preset, "--data", f"samples:{whole.path}", "--run-dir", tmp_path / "run")
    assert arcslim("sft", *words) == 0
    said = next(words for words in Folder(tmp_path / "run").events("start") if words.startswith("samples:"))
    counts = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", said.partition(": ")[2])}
    assert counts["read"] == len(whole.rows("samples")) == sum(counts.values()) - counts["read"]
    assert 0 < counts["kept"] <= len(right)


def test_a_run_is_not_resumed_on_other_rows(taught: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another seed holds out other questions: those trained on so far would be tested on."""
    run = taught.copy_to(tmp_path / "run")
    assert arcslim("sft", "--run-dir", run.path, "--resume", "checkpoint-4", "--seed", "9") == 2
    assert "run.seed 0 → 9" in capsys.readouterr().err


def test_rows_that_changed_are_refused_and_the_folder_is_left_as_it_was(
    taught: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where --force lets the settings pass: no checkpoint is moved for a run that cannot go on."""
    run = taught.copy_to(tmp_path / "run")
    before = {path.name for path in run.path.iterdir()}
    words = ("--run-dir", run.path, "--resume", "checkpoint-4", "--set", "data.tasks=40")
    assert arcslim("sft", *words) == 2
    assert "--force" not in capsys.readouterr().err
    assert arcslim("sft", *words, "--force") == 2
    assert "not those that this run began with" in capsys.readouterr().err
    assert before <= {path.name for path in run.path.iterdir()} and not (run.path / "lost").exists()
    assert "tasks = 48" in (run.path / "resolved.toml").read_text(), "its settings are still those that it ran with"


def test_a_rate_that_is_changed_on_resume_is_the_one_in_force(taught: Folder, tmp_path: Path) -> None:
    """The checkpoint's optimizer and scheduler bring the old rate with them."""
    run = taught.copy_to(tmp_path / "run")
    words = ("--run-dir", run.path, "--resume", "checkpoint-8", "--set", "sft.learning_rate=1e-4")
    assert arcslim("sft", *words) == 0
    for step in range(9, STEPS + 1):
        was = taught.values("train", step)["optim/lr"]
        assert run.values("train", step)["optim/lr"] == pytest.approx(was / 20, rel=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_must_show_1_the_cpu_preset_and_grpo_after_it(stack: Path, tmp_path: Path) -> None:
    """`arcslim sft --preset cpu --no-packing`, shorter: loss falls, pass@1 rises; GRPO starts from it, its KL at 0."""
    less = (
        "data.tasks=480",
        "data.holdout_select=48",
        "data.holdout_test=0",
        "data.holdout_families=[]",
        "data.holdout_arc1=0",
    )
    sets = [word for knob in less for word in ("--set", knob)]
    taught, after = Folder(tmp_path / "sft"), Folder(tmp_path / "grpo")
    assert arcslim("sft", "--preset", "cpu", "--no-packing", "--run-dir", taught.path, *sets) == 0
    start, end = taught.values("eval", 0), taught.values("eval", 15)
    assert end["eval/loss"] < start["eval/loss"] and end["eval/pass@1"] > start["eval/pass@1"]
    words = ("--model", taught.path / "final", "--run-dir", after.path, "--max-steps", 2, "--set", "grpo.beta=0.05")
    assert arcslim("grpo", "--preset", "cpu", *words, *sets, "--set", "run.save_steps=2") == 0
    assert after.values("train", 1)["policy/kl"] == pytest.approx(0.0, abs=1e-6)
    assert after.values("eval", 0)["eval/pass@1"] > start["eval/pass@1"]
