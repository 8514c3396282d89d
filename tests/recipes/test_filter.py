"""The difficulty filter: what it rolls out, what it keeps, and that it goes on where it was stopped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import arcslim.recipes.filter as module
from arcslim.errors import Stopped
from arcslim.policy.load import Policy
from arcslim.prompts.nouns import Completion
from arcslim.recipes.filter import try_tasks
from arcslim.recipes.filter_report import Bounds, Filtered, Tried
from arcslim.recipes.prepare import Asked
from arcslim.recipes.rollout_cache import RolloutCache, Tally, task_key
from arcslim.tasks.built import read_built
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task
from tests.recipes.made import arcslim, prepared_with_tiny, small_config, write_preset

PNG = b"\x89PNG\r\n\x1a\n"


class Never:
    """Nobody asks for a stop."""

    requested = False

    def check(self) -> None:
        pass


class After(Never):
    """A stop is asked for at the n-th look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def check(self) -> None:
        self.looks -= 1
        if self.looks <= 0:
            raise Stopped("stopped by a test")


def completion(asked: Asked, right: bool) -> Completion:
    output = asked.task.test[0].output
    assert output is not None
    grid = "\n".join("".join(map(str, row)) for row in output.rows()) if right else "0"
    return Completion(f"so it is\n</think>\n\n<answer>\n{grid}\n</answer>", (7,) * 9, not right)


@pytest.fixture
def drawing(stack: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Asked, ...], Policy, list[dict[str, Any]]]:
    """Tasks, the policy, and each call of ``generate``, which answers the n-th task right in n of its draws."""
    prepared, policy = prepared_with_tiny()
    asked = prepared.train[:6]
    by_ids = {one.prompt.token_ids: (number, one) for number, one in enumerate(asked)}
    calls: list[dict[str, Any]] = []

    def generate(_: Any, prompts: Sequence[Any], __: Any, *, samples: int, **named: Any) -> list[list[Completion]]:
        calls.append(named | {"prompts": list(prompts), "samples": samples})
        return [[completion(one, draw < number) for draw in range(samples)] for number, one in map(by_ids.get, prompts)]  # type: ignore[misc]

    monkeypatch.setattr(module, "generate", generate)
    return asked, policy, calls


def test_rates_are_counted_in_batches_longest_prompts_first(drawing: Any, tmp_path: Path) -> None:
    asked, policy, calls = drawing
    seen: list[tuple[int, int]] = []
    tried = try_tasks(
        asked, small_config("run.eval_batch=8"), 4, RolloutCache(tmp_path / "c.jsonl"), lambda: policy, Never(),
        lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert [one.tally for one in tried] == [Tally(4, min(number, 4), 4 - min(number, 4)) for number in range(6)]
    assert [one.task for one in tried] == [one.task for one in asked]
    assert seen == [(2, 6), (4, 6), (6, 6)], "8 completions a batch are 2 tasks of 4"
    lengths = [len(prompt) for call in calls for prompt in call["prompts"]]
    assert lengths == sorted(lengths, reverse=True)
    assert len({call["seed"] for call in calls}) == 3


def test_what_is_known_is_not_drawn_again_and_no_weights_are_loaded_for_it(drawing: Any, tmp_path: Path) -> None:
    asked, policy, calls = drawing
    config, file = small_config("run.eval_batch=8"), tmp_path / "c.jsonl"
    first = try_tasks(asked[:4], config, 4, RolloutCache(file), lambda: policy, Never())
    calls.clear()

    def load() -> Policy:
        raise AssertionError("nothing is to be drawn")

    assert try_tasks(asked[:4], config, 4, RolloutCache(file), load, Never()) == first
    more = try_tasks(asked, config, 6, RolloutCache(file), lambda: policy, Never())
    assert sum(call["samples"] * len(call["prompts"]) for call in calls) == 4 * 2 + 2 * 6
    assert [one.tally.samples for one in more] == [6] * 6
    fewer = try_tasks(asked, config, 2, RolloutCache(file), load, Never())
    assert [one.tally.samples for one in fewer] == [6] * 6, "more is known than was asked for: all of it counts"


def test_a_stop_keeps_whole_batches_and_the_next_run_goes_on(drawing: Any, tmp_path: Path) -> None:
    asked, policy, calls = drawing
    config, file = small_config("run.eval_batch=8"), tmp_path / "c.jsonl"
    with pytest.raises(Stopped):
        try_tasks(asked, config, 4, RolloutCache(file), lambda: policy, After(2))
    known = RolloutCache(file)
    assert [known.known(task_key(one)).samples for one in asked].count(4) == 4
    whole = try_tasks(asked, config, 4, RolloutCache(file), lambda: policy, Never())
    undisturbed = try_tasks(asked, config, 4, RolloutCache(tmp_path / "d.jsonl"), lambda: policy, Never())
    assert whole == undisturbed and len(calls) == 3 + 3


def test_the_real_model_draws_the_same_twice(stack: Path, tmp_path: Path) -> None:
    prepared, policy = prepared_with_tiny()
    config = small_config("generation.max_completion_length=88", "run.eval_batch=8")
    runs = [
        try_tasks(prepared.train[:4], config, 4, RolloutCache(tmp_path / name), lambda: policy, Never())
        for name in ("a.jsonl", "b.jsonl")
    ]
    assert runs[0] == runs[1]
    assert 0 < sum(one.tally.right for one in runs[0]) < 16, "half known to the tiny model"


def test_tasks_are_rolled_out_and_the_second_time_taken_from_the_cache(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--preset", write_preset(tmp_path, "generation.max_completion_length=88"), "--tasks", "4",
             "--samples", "2", "--keep", "0:1", "--cache", tmp_path / "cache")  # fmt: skip
    assert arcslim("data", "filter", *words, "--png", tmp_path / "pictures") == 0
    first = capsys.readouterr().out
    assert "loading tiny" in first and "pass rates: 4 tasks, tiny, 2 rollouts each" in first
    assert "kept 4 of 4 tasks" in first
    assert (tmp_path / "pictures" / "pass_rates.png").read_bytes().startswith(PNG)
    assert arcslim("data", "filter", *words, "--out", tmp_path / "kept") == 0
    second = capsys.readouterr().out
    assert "loading tiny" not in second
    bars = [re.findall(r"^ *[\d.]+%.*$", said, re.MULTILINE) for said in (first, second)]
    assert bars[0] == bars[1] and len(bars[0]) == 3
    said = read_built(tmp_path / "kept").manifest["filter"]
    assert said["samples"] == 2 and said["keep"] == [0.0, 1.0] and said["model"]["name"] == "tiny"
    assert sum(number for _, number in said["histogram"]) == 4
    assert arcslim("data", "filter", *words[:-4], "--keep", "0.3:0.4", *words[-2:]) == 2, "none of 2 can be a third"
    assert "no task is left" in capsys.readouterr().err


def task(number: int, right: int = 0, answer: int = 3) -> Tried:
    pairs = tuple(Pair(Grid([[number % 10, cell]]), Grid([[cell, number % 10], [0, answer]])) for cell in (1, 2))
    return Tried(Task(f"t{number}", f"s{number % 2}", "f", pairs[:1], pairs[1:]), Tally(8, right, 0))


def test_bounds_hold_both_ends() -> None:
    bounds = Bounds(0.25, 0.75)
    verdicts = [bounds.verdict(right / 8) for right in range(9)]
    assert verdicts == ["too_hard"] * 2 + ["kept"] * 5 + ["too_easy"] * 2


def test_every_task_is_accounted_for() -> None:
    copied = Task("same", "s0", "f", (Pair(Grid([[1]]), Grid([[1]])),), (Pair(Grid([[2]]), Grid([[2]])),))
    tried = [task(number, right) for number, right in enumerate([0, 0, 1, 4, 7, 8])]
    filtered = Filtered((copied, *(one.task for one in tried)))
    filtered.drop_trivial()
    assert filtered.kept == filtered.sound == filtered.tasks[1:]
    filtered.tried, filtered.bounds, filtered.samples = tried, Bounds(0.05, 0.9), 8
    assert filtered.counts() == {
        "read": 7, "kept": 3, "trivial_output_is_input": 1, "too_hard": 2, "too_easy": 1,
    }  # fmt: skip
    assert [one.task_id for one in filtered.kept] == ["t2", "t3", "t4"]
    assert filtered.histogram() == [(i / 8, n) for i, n in enumerate([2, 1, 0, 0, 1, 0, 0, 1, 1])]
    assert [(row["task_id"], row["verdict"]) for row in filtered.rows()] == [
        ("same", "trivial_output_is_input"), ("t0", "too_hard"), ("t1", "too_hard"), ("t2", "kept"), ("t3", "kept"),
        ("t4", "kept"), ("t5", "too_easy"),
    ]  # fmt: skip


def test_a_histogram_of_many_samples_has_no_more_than_20_bins_and_loses_no_task() -> None:
    tried = [Tried(task(number).task, Tally(64, number, 0)) for number in range(65)]
    filtered = Filtered(tuple(one.task for one in tried), tried=tried, bounds=Bounds(0, 1), samples=64)
    histogram = filtered.histogram()
    assert len(histogram) == 21 and sum(number for _, number in histogram) == 65
    assert (histogram[0][0], histogram[-1][0]) == (0.0, 1.0)
