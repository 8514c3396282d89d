"""What was rolled out is kept by task and by model, and a torn line costs only itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcslim.config import PromptSection
from arcslim.errors import InputError
from arcslim.prompts.render import Renderer
from arcslim.recipes.prepare import Asked
from arcslim.recipes.rollout_cache import RolloutCache, Tally, cache_file, task_key
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task
from tests.recipes.made import small_config, tiny_tokenizer

A, B = Grid([[1, 2]]), Grid([[2, 1]])


def asked(answer: Grid = B, prompt_id: str = "p", **section: str) -> Asked:
    task = Task(f"task-{prompt_id}", "made", "f", (Pair(A, B),), (Pair(A, answer),))
    return Asked(Renderer(tiny_tokenizer(), PromptSection(**section)).render(task, prompt_id), task)  # type: ignore[arg-type]


def test_a_task_is_what_is_shown_and_what_is_right() -> None:
    assert task_key(asked()) == task_key(asked(prompt_id="other"))
    assert len({task_key(asked()), task_key(asked(answer=A)), task_key(asked(grid="spaced"))}) == 3


def test_tallies_add_up_and_outlive_the_process(tmp_path: Path) -> None:
    file = tmp_path / "new" / "cache.jsonl"
    cache = RolloutCache(file)
    assert cache.known("a") == Tally(0, 0, 0)
    cache.add([("a", "task-a", Tally(4, 1, 2)), ("b", "task-b", Tally(4, 4, 0))])
    cache.add([("a", "task-a", Tally(4, 2, 0))])
    again = RolloutCache(file)
    for known in (cache, again):
        assert known.known("a") == Tally(8, 3, 2) and known.known("a").rate == 3 / 8
        assert known.known("b") == Tally(4, 4, 0)


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": "b", "samples": 4, "ri',
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"key": "b", "samples": 1, "right": 2, "cut_off": 0}',
    ],
)
def test_a_torn_or_false_line_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "cache.jsonl"
    RolloutCache(file).add([("a", "task-a", Tally(4, 1, 0))])
    file.write_bytes(file.read_bytes() + line)
    cache = RolloutCache(file)
    assert cache.known("a") == Tally(4, 1, 0) and cache.known("b") == Tally()
    cache.add([("b", "task-b", Tally(4, 2, 0))])
    assert RolloutCache(file).known("b") == Tally(4, 2, 0), "the next row is not glued to it"


def test_a_file_for_each_way_of_drawing(tmp_path: Path) -> None:
    config = small_config()
    files = {
        cache_file(tmp_path, config, "weights"),
        cache_file(tmp_path, config, "other weights"),
        cache_file(tmp_path, small_config("generation.temperature=0.7"), "weights"),
        cache_file(tmp_path, small_config("generation.max_completion_length=17"), "weights"),
    }
    assert len(files) == 4 and all(file.name.startswith("tiny-") for file in files)
    assert cache_file(tmp_path, small_config("generation.rollout_batch=3"), "weights") in files, "speed alone"
    odd = config.model_copy(update={"model": config.model.model_copy(update={"name": "../a b/é:c"})})
    assert cache_file(tmp_path, odd, "w").parent == tmp_path


def test_a_cache_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        RolloutCache(tmp_path / "file" / "cache.jsonl")
