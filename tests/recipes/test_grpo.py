"""What a run of the real recipe writes: figures, samples, checkpoints and the adapter in the end."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from arcslim.presets import load_config
from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.rewards.base import Rollout
from arcslim.rewards.suite import RewardSuite
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task
from tests.recipes.made import CHANCE, Folder, arcslim, tensors_differ, write_preset

# The names of the run folder's contract that GRPO writes on a CPU without a KL term.
NAMES = {
    "loss", "reward/total", "reward/grid", "reward/min_thinking", "thinking/tokens_mean", "completion/tokens_mean",
    "completion/cut_off_rate", "completion/repetition", "group/no_spread_rate", "group/correct_spread_rate",
    "advantage/share_grid", "advantage/share_min_thinking", "advantage/share_unsolved", "policy/entropy", "optim/lr",
    "optim/grad_norm", "tokens/prompt", "tokens/completion", "seconds/rollout", "seconds/reward", "seconds/update",
    "memory/host_peak_bytes",
}  # fmt: skip


def test_every_step_has_every_figure(whole: Folder) -> None:
    for step in range(1, 5):
        values = whole.values("train", step)
        assert NAMES - values.keys() == set()
        assert all(math.isfinite(value) for value in values.values())
        assert values["optim/grad_norm"] > 0 and values["tokens/completion"] <= 8 * 88
        assert values["completion/tokens_mean"] * 8 == pytest.approx(values["tokens/completion"])
        assert values["seconds/step"] >= values["seconds/rollout"] + values["seconds/reward"] > 0
    assert {"eval/pass@1", "eval/thinking_tokens_mean", "eval/n"} <= whole.values("eval", 0).keys()
    assert whole.values("eval", 4)["eval/n"] == 4


def test_figures_of_a_rollout_are_written_once(halves: Folder) -> None:
    """Of two updates that one rollout gives, the first carries its figures."""
    with_rollout = [step for step in range(1, 7) if "reward/total" in halves.values("train", step)]
    assert with_rollout == [1, 3, 5]
    assert {row["step"] for row in halves.rows("samples")} == {1, 3, 5}
    assert all("optim/grad_norm" in halves.values("train", step) for step in range(1, 7))


def test_samples_and_tasks_rescore_to_the_same_advantages(whole: Folder) -> None:
    """From samples.jsonl and tasks.jsonl alone, with the price that the step had."""
    tasks = {row["prompt_id"]: row for row in whole.rows("tasks")}
    config = load_config(str(whole.path / "resolved.toml"), [], {}).config
    rows = whole.rows("samples")
    assert len(rows) == 4 * 8 and len({row["advantage"] for row in rows}) > 4
    for step in range(1, 5):
        suite = RewardSuite.from_config(config.reward, scale_rewards=config.grpo.scale_rewards)
        price = whole.values("train", step)["thinking/price"]
        suite.load_state_dict({"min_thinking": suite.state_dict()["min_thinking"] | {"price": price}})
        drawn = [row for row in rows if row["step"] == step]
        rollouts = [_rollout(row, tasks[row["prompt_id"]]) for row in drawn]
        scored = suite.score(rollouts, group_size=4, training=False)
        assert scored.advantages == pytest.approx([row["advantage"] for row in drawn], abs=1e-9)
        assert [score.total for score in scored.scores] == pytest.approx([row["score"]["total"] for row in drawn])
        assert np.mean(scored.rewards) == pytest.approx(whole.values("train", step)["reward/total"])


def _rollout(row: dict, task: dict) -> Rollout:  # type: ignore[type-arg]
    def pairs(side: str) -> tuple[Pair, ...]:
        return tuple(Pair(Grid(pair["input"]), Grid(pair["output"])) for pair in task["task"][side])

    asked = Task(row["task_id"], task["source"], task["family"], pairs("train"), pairs("test"))
    completion = Completion(row["completion"], (0,) * row["completion_tokens"], row["cut_off"])
    parsed = parse(row["completion"])
    assert parsed.thinking == row["thinking"] and parsed.reason == row["reason"]
    assert (None if parsed.answer is None else parsed.answer.rows()) == row["answer"]
    return Rollout(row["prompt_id"], asked, completion, parsed, row["thinking_tokens"], task["prompt"])


def test_checkpoints_and_the_end_hold_the_adapter_in_fp32_and_nothing_pickled(whole: Folder) -> None:
    """Must show 6 through the whole recipe: fp32 in 4-bit training; `final/` is safetensors and text."""
    import torch

    for where in ("checkpoint-2", "checkpoint-4", "final"):
        adapter = whole.adapter(where)
        assert adapter and {tensor.dtype for tensor in adapter.values()} == {torch.float32}
    names = {path.name for path in (whole.path / "final").rglob("*")}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert {Path(name).suffix for name in names} <= {".json", ".safetensors", ".jinja", ".txt", ".md"}
    best = whole.state(4)["best_step"]
    assert (whole.path / "best").read_text().strip() == f"checkpoint-{best}"
    assert not list(tensors_differ(whole.adapter("final"), whole.adapter(f"checkpoint-{best}")))
    config = json.loads((whole.path / "final" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny", "no path of the machine that trained it"


def test_case_14_every_completion_cut_off(halves: Folder) -> None:
    """Case 14: finite loss, and a warning that nothing was learned; told once and not at every step."""
    assert all(math.isfinite(halves.values("train", step)["loss"]) for step in range(1, 7))
    assert halves.values("train", 1)["completion/cut_off_rate"] == 1.0
    warned = [line for line in halves.events("warning") if "cut off at the length limit" in line]
    assert len(warned) == 1 and "nothing was learned" in warned[0]


def test_case_14_and_19_cut_off_and_masked_with_a_constant_reward(stack: Path, tmp_path: Path) -> None:
    """Case 14 with the cut-off rows masked: no token is left to learn from, and the loss is 0, not NaN.
    Case 19: such groups are counted."""
    masked = (
        "grpo.mask_truncated_completions=true", "grpo.beta=0.1", "run.max_steps=1", "data.holdout_select=0",
        "reward.min_thinking.mode=none",
    )  # fmt: skip
    run = Folder(tmp_path / "run")
    assert arcslim("grpo", "--preset", write_preset(tmp_path, *masked), "--run-dir", run.path) == 0
    values = run.values("train", 1)
    assert (values["loss"], values["optim/grad_norm"]) == (0.0, 0.0)
    assert values["group/no_spread_rate"] == 1.0 and values["policy/kl"] == 0.0
    assert run.checkpoints() == ["checkpoint-1"] and run.adapter("final")


def test_case_18_the_longest_prompts_come_first(halves: Folder) -> None:
    """Case 18: grpo.longest_first: the first rollout takes the longest prompts, also those that come later are all
    used."""
    from arcslim.policy.load import load_tokenizer
    from arcslim.recipes.prepare import prepare

    config = load_config(str(halves.path / "resolved.toml"), [], {}).config
    loaded = load_tokenizer(config.model.name)
    assert loaded is not None
    lengths = {asked.prompt.prompt_id: len(asked.prompt.token_ids) for asked in prepare(config, loaded.tokenizer).train}
    longest = sorted(lengths.values())[-2:]
    first = {row["prompt_id"] for row in halves.rows("samples") if row["step"] == 1}
    assert sorted(lengths[name] for name in first) == longest and longest[0] > min(lengths.values())
    assert len({row["prompt_id"] for row in halves.rows("samples")}) == 6


def test_after_an_adapter_the_reference_is_that_adapter(halves: Folder, tmp_path: Path) -> None:
    """Must show 6: with beta > 0 the KL is 0 at the first step and not after it, so the reference is the adapter that
    was started from and not the base model; `final/` holds no reference. A resumed run has the same reference."""
    started = halves.adapter("final")
    assert any(bool(tensor.any()) for name, tensor in started.items() if "lora_B" in name)
    sets = (*CHANCE, "grpo.beta=0.05", "run.max_steps=3", "data.holdout_select=0", f"model.name={halves.path}/final")
    run = Folder(tmp_path / "run")
    assert arcslim("grpo", "--preset", write_preset(tmp_path, *sets), "--run-dir", run.path) == 0
    kl = [run.values("train", step)["policy/kl"] for step in (1, 2, 3)]
    assert kl[0] == pytest.approx(0.0, abs=1e-9) and kl[1] > 1e-6 and kl[2] > 1e-6

    assert run.adapter("final").keys() == started.keys()
    assert not [path for path in (run.path / "final").rglob("*") if "ref" in path.name.split(".")]
    assert "ref" not in {path.name for path in run.path.rglob("*")}
    again = run.copy_to(tmp_path / "again")
    assert arcslim("grpo", "--run-dir", again.path, "--resume", "checkpoint-2") == 0
    assert again.values("train", 3)["policy/kl"] == pytest.approx(kl[2], abs=1e-6)


def test_case_10_nan_rewards(stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 10: one NaN among eight leaves a finite loss, and is counted. A whole rollout of NaN ends the run with exit
    code 1, and the steps before it are saved, though no checkpoint was due."""
    sets = (*CHANCE[:2], "run.save_steps=50", "run.eval_steps=50")
    extra = 'reward.extra=["tests.recipes.made:NanLater"]'
    run = Folder(tmp_path / "run")
    assert arcslim("grpo", "--preset", write_preset(tmp_path, *sets, extra), "--run-dir", run.path) == 1
    assert "none of the 8 rollouts got a finite reward (counted)" in capsys.readouterr().err
    assert [run.values("train", step)["reward/nan_rows"] for step in (1, 2)] == [1.0, 0.0]
    assert math.isfinite(run.values("train", 1)["loss"]) and run.values("train", 1)["optim/grad_norm"] > 0
    assert run.rows("samples")[0]["advantage"] == 0.0
    assert run.checkpoints() == ["checkpoint-2"] and run.adapter("final") and run.state(2)["evaluated_step"] == 0
    assert "finite reward" in run.events("end")[0]
