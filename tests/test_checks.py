"""What is refused before anything loads, and what is warned of."""

from __future__ import annotations

import pytest

from arcslim.errors import ConfigError
from arcslim.presets import load_config


def problems(*sets: str) -> list[str]:
    try:
        load_config(None, sets)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_case_16_a_batch_that_the_generations_do_not_divide_is_refused() -> None:
    """Case 16: batch 8 with 3 generations is refused, with what would work."""
    (said,) = problems(
        "optim.per_device_train_batch_size=8",
        "optim.gradient_accumulation_steps=1",
        "grpo.steps_per_generation=1",
        "grpo.num_generations=3",
    )
    assert "8 x 1 = 8 completions does not divide into groups of 3" in said
    assert "make grpo.steps_per_generation a multiple of 3, or grpo.num_generations a divisor of 8" in said


def test_case_16_a_group_over_several_micro_batches_is_taken() -> None:
    """Case 16: batch 1, accumulation 8, generations 8 is a whole group, and neither refused nor changed."""
    assert not problems(
        "optim.per_device_train_batch_size=1",
        "optim.gradient_accumulation_steps=8",
        "grpo.steps_per_generation=8",
        "grpo.num_generations=8",
    )


def test_case_17_prompt_and_completion_over_the_context_are_refused() -> None:
    """Case 17: a 3,000-token prompt + 2,000 completion against 4,096 is refused before loading."""
    (said,) = problems("prompt.max_tokens=3000", "generation.max_completion_length=2000", "model.max_seq_length=4096")
    assert "3000" in said
    assert "2000 = 5000 > model.max_seq_length 4096" in said
    assert not problems("prompt.max_tokens=2096", "generation.max_completion_length=2000", "model.max_seq_length=4096")


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["lora.use_dora=true", "model.fast_inference=true"], "vLLM cannot serve DoRA"),
        (["model.full_finetuning=true"], "4-bit weights cannot be trained"),
        (["model.standby=true"], "vLLM is off"),
        (["run.save_steps=3"], "a multiple of 2, as 4"),
        (["grpo.num_iterations=3", "run.save_steps=50"], "a multiple of 6, as 48"),
        (["data.min_side=9", "data.max_side=8"], "no grid could pass"),
        (["data.difficulty_min=0.3"], "data.difficulty_min 0.3 is over"),
        (["data.holdout_select=0", "run.early_stop=2"], "run.early_stop needs held-out tasks"),
        (["reward.min_thinking.min_tokens=2048"], "no room for an answer"),
        (["reward.min_thinking.price=0.4", "reward.min_thinking.price_max=0.2"], "price 0.4 is over price_max 0.2"),
        (["data.tasks=7"], "takes 8 different prompts, and data.tasks is 7"),
    ],
)
def test_what_cannot_work_is_refused(sets: list[str], said: str) -> None:
    found = problems(*sets)
    assert len(found) == 1, found
    assert said in found[0]


def test_two_faults_are_said_at_once_each_with_its_flag() -> None:
    found = problems("model.standby=true", "run.save_steps=3")
    assert [line.partition(": ")[0] for line in found] == ["--set run.save_steps", "--set model.standby"]


@pytest.mark.parametrize(
    ("change", "said", "mend"),
    [
        ("grpo.scale_rewards=group", "divides by the spread", "none"),
        ("lora.use_dora=true", "slower", "use_rslora"),
        ("lora.lora_dropout=0.1", "noisy", "lora_dropout=0"),
        ("grpo.mask_truncated_completions=true", "never learn to stop", "=false"),
        ("generation.temperature=0.7", "temperature 0.7", "temperature=1"),
        ("generation.top_p=0.9", "top_p sample from another distribution", "top_p 1"),
        ("generation.top_k=20", "top_k sample from another distribution", "top_k 0"),
        ("reward.grid.variant=format", "even one digit", "graded"),
        ("model.trust_remote_code=true", "will run on this machine", "revision"),
        ("optim.learning_rate=1e-3", "collapses", "1e-5"),
        ("run.max_steps=5", "not over when the run ends", "warmup_steps"),
        ("data.allow_identity=true", "without thought", "=false"),
        ("data.holdout_select=0", "no best checkpoint", "=100"),
        ("model.gpu_memory_utilization=0.9", "no effect", "leave it out"),
        ("optim.gradient_accumulation_steps=5", "reaches over the end of a rollout", "divide"),
        ("grpo.epsilon_high=0.1", "rises are cut before falls", "0.28"),
    ],
)
def test_what_is_doubtful_warns_with_the_mend(change: str, said: str, mend: str) -> None:
    sets = [change, "run.save_steps=40"] if "accumulation" in change else [change]
    (warning,) = load_config(None, sets).warnings
    assert change.partition("=")[0] in warning.where
    assert said in warning.what
    assert warning.hint is not None
    assert mend in warning.hint
