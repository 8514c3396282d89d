"""What TRL is given: completions with their ends, scores, and rows that fit them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arcslim.errors import Stopped
from arcslim.recipes.rollouts import Rollouts, rollout_seed
from arcslim.rewards.suite import RewardSuite
from arcslim.runs.folder import RunFolder
from tests.recipes.made import WHOLE, Folder, StopWhen, prepared_with_tiny, small_config


class Made:
    """Rollouts on the tiny model, with a folder to look into."""

    def __init__(self, path: Path, *sets: str) -> None:
        self.config = small_config(*sets)
        self.prepared, self.policy = prepared_with_tiny()
        self.folder, self.stop = Folder(path), StopWhen()
        suite = RewardSuite.from_config(self.config.reward)
        self.rollouts = Rollouts(
            self.policy, suite, self.prepared.train, self.config, RunFolder.create(path), self.stop
        )

    def score(self, completions: list[list[int]], step: int = 0) -> list[float]:
        """Groups of four, one prompt each."""
        names = [self.prepared.train[number // 4].prompt.prompt_id for number in range(len(completions))]
        return self.rollouts(completions, prompt_id=names, trainer_state=SimpleNamespace(global_step=step))

    def trainer(self, step: int) -> Any:
        state = SimpleNamespace(global_step=step, max_steps=9)
        return SimpleNamespace(state=state, accelerator=SimpleNamespace(process_index=0))


def test_case_13_any_end_token_is_an_end(stack: Path, tmp_path: Path) -> None:
    """Case 13: a completion that ends on the model's second end token is not cut off; one without any is."""
    made = Made(tmp_path / "run")
    first, second = made.policy.end_token_ids[:2]
    assert first != second
    text = list(made.policy.tokenizer("change 6 to 2\n</think>", add_special_tokens=False)["input_ids"])
    made.score([[*text, first], [*text, second], text, [*text, second]])
    rows = made.folder.rows("samples")
    assert [row["cut_off"] for row in rows] == [False, False, True, False]
    assert [row["completion_tokens"] for row in rows] == [len(text) + 1] * 2 + [len(text), len(text) + 1]
    assert len({row["completion"] for row in rows}) == 1, "the end is no part of the text"
    assert made.rollouts.take_pending()["completion/cut_off_rate"] == 1 / 4
    assert made.rollouts.take_pending() == {}, "a rollout's figures belong to one step"
    assert {row["step"] for row in rows} == {1} and {row["group"] for row in rows} == {0}


def test_case_12_the_end_token_is_handed_to_the_loss(stack: Path, tmp_path: Path) -> None:
    """Case 12: each completion that ended holds its end token and nothing behind it, also where pads were drawn; the
    pad is no end token of the policy's own making. The same step draws the same, another step does not."""
    made = Made(tmp_path / "run", *WHOLE)
    texts = [one for one in made.rollouts._by_text for _ in range(4)][:8]
    drawn = made.rollouts.roll_out(texts, made.trainer(3))
    ends = set(made.policy.end_token_ids)
    ended = [ids for ids in drawn["completion_ids"] if len(ids) < 88]
    assert ended and len(drawn["completion_ids"]) == 8
    for ids in ended:
        assert ids[-1] in ends and not ends & set(ids[:-1])
    asked = [made.rollouts._by_text[text].prompt.token_ids for text in texts]
    assert [tuple(ids) for ids in drawn["prompt_ids"]] == asked
    short = Made(tmp_path / "other")
    again = [short.rollouts.roll_out(texts, short.trainer(step))["completion_ids"] for step in (3, 3, 4)]
    assert again[0] == again[1] != again[2]


def test_a_stop_cuts_a_rollout_short(stack: Path, tmp_path: Path) -> None:
    made = Made(tmp_path / "run")
    made.stop.requested = True
    with pytest.raises(Stopped):
        made.rollouts.roll_out([one for one in made.rollouts._by_text for _ in range(4)][:4], made.trainer(0))


def test_samples_are_written_every_so_many_rollouts(stack: Path, tmp_path: Path) -> None:
    made = Made(tmp_path / "run", "run.sample_every=2")
    for step in range(3):
        made.score([[65, 66]] * 4, step)
    assert [row["step"] for row in made.folder.rows("samples")] == [1] * 4 + [3] * 4
    assert len(made.folder.rows("tasks")) == 1


def test_rollout_seeds_are_far_apart() -> None:
    seeds = {rollout_seed(seed, step, process) for seed in (0, 1) for step in range(50) for process in (0, 1)}
    assert len(seeds) == 200
    ordered = sorted(seeds)
    assert min(b - a for a, b in pairwise(ordered)) > 10_000
