"""Rejection sampling: which of a GRPO run's rollouts become rows of SFT. The folder is written as GRPO writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from arcslim.errors import DataError, InputError
from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.prompts.render import answer_text
from arcslim.recipes.prepare import Asked, prepare
from arcslim.recipes.rollouts import Reader, sample_row
from arcslim.recipes.sft_prepare import SftData, prepare_sft
from arcslim.rewards.base import Score
from arcslim.runs.folder import RunFolder
from arcslim.tasks.augment import Change
from arcslim.tasks.content import canonical_key
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task
from arcslim.tasks.thinking import explain
from tests.real_tokenizers import real_tokenizer
from tests.recipes.made import small_config
from tests.recipes.test_sft_rows import config_of, counts_add_up, write_rows

TASKS = 40


@cache
def tokenizer() -> Any:
    return real_tokenizer("tiny")


@cache
def asked() -> tuple[Asked, ...]:
    sources = '["rearc:67a3c6ac,d511f180"]'
    config = small_config(f"data.sources={sources}", f"data.tasks={TASKS}", "data.holdout_select=0")
    return prepare(config, tokenizer()).train


def solved(one: Asked, *, more: str = "", answer: Grid | None = None) -> str:
    """Honest thinking and the answer, the right one unless another is given."""
    thinking, truth = explain(one.task), one.task.test[0].output
    assert thinking is not None and truth is not None
    return answer_text(thinking + more, answer or truth, "compact")


def wrong(one: Asked) -> str:
    truth = one.task.test[0].output
    assert truth is not None
    rows = truth.rows()
    return solved(one, answer=Grid([[(rows[0][0] + 1) % 10, *rows[0][1:]], *rows[1:]]))


def write_run(path: Path, *rollouts: tuple[int, str], cut_off: Sequence[int] = (), right: float = 1.0) -> Path:
    """A run folder whose rollouts are pairs of a task's number and a completion; each row says that it was right."""
    with RunFolder.create(path) as folder:
        folder.task_rows([one.row for one in asked()])
        for number, (task, text) in enumerate(rollouts):
            completion = Completion(text, (1, 2, 3), number in cut_off)
            (rollout,) = Reader(tokenizer()).read([asked()[task]], [completion])
            score = Score(right, {"grid": right}, {"grid": 1.0})
            folder.samples([sample_row(1, 0, rollout, score, 0.5)])
    return path


def samples_of(folder: Path, run: Path, *sets: str) -> SftData:
    return prepare_sft(config_of(folder, f"samples:{run}", sets=sets), tokenizer())


def counts_of(data: SftData) -> dict[str, int]:
    (counts,) = data.counts.values()
    assert counts_add_up(data)
    return counts


def completion_of(row: Any) -> str:
    return str(tokenizer().decode(row.completion_ids)).removesuffix(tokenizer().eos_token)


def question_of(row: Any) -> str:
    """The user's turn without its blanks."""
    prompt = "".join(tokenizer().decode(row.input_ids[: row.prompt_length]).split())
    return prompt.rpartition("<|im_start|>user")[2]


def test_right_rollouts_are_trained_on_as_they_were_written(tmp_path: Path) -> None:
    """The prompt is that of inference, the completion is the model's own, token for token."""
    texts = [solved(asked()[number]) for number in range(3)]
    run = write_run(tmp_path / "run", *enumerate(texts))
    data = samples_of(tmp_path, run)
    assert counts_of(data) == {"read": 3, "kept": 3}
    for one, row, text in zip(asked(), data.train, texts, strict=False):
        assert row.input_ids[: row.prompt_length] == list(one.prompt.token_ids)
        assert completion_of(row) == text
        assert row.task is not None and parse(text).answer == row.task.test[0].output
    names = (f"samples:{run / 'samples.jsonl'}", str(run))
    for name in names:
        same = prepare_sft(config_of(tmp_path, name), tokenizer())
        assert [row.input_ids for row in same.train] == [row.input_ids for row in data.train], name


def test_what_is_not_right_thought_about_or_whole_is_left_out(tmp_path: Path) -> None:
    """Each under its own reason. A row's own word that it was right is not taken."""
    one = asked()[0]
    truth = one.task.test[0].output
    assert truth is not None
    rollouts = [
        solved(one),
        wrong(one),
        answer_text("...", truth, "compact"),
        answer_text("row " * 500, truth, "compact"),
        answer_text(one.prompt.messages[0]["content"], truth, "compact"),
        solved(one, more=" Sure."),  # cut off
        solved(one).partition("</think>")[0],
        solved(one, more="</think>\n<think>Again."),
        "<think>" + solved(one),
        solved(one).partition("<answer>")[0] + "No idea.",
    ]
    run = write_run(tmp_path / "run", *((0, text) for text in rollouts), cut_off=[5])
    data = samples_of(tmp_path, run)
    assert counts_of(data) == {
        "read": 10, "kept": 1, "not_right": 3, "no_thinking": 3, "cut_off": 1, "several_blocks": 2
    }  # fmt: skip
    assert completion_of(data.train[0]) == solved(one)


def test_a_right_answer_of_low_reward_is_right(tmp_path: Path) -> None:
    """The truth decides, not the figures of a run whose reward may have been another."""
    run = write_run(tmp_path / "run", (0, solved(asked()[0])), right=0.0)
    assert counts_of(samples_of(tmp_path, run))["kept"] == 1


@pytest.mark.parametrize(("most", "kept"), [(4, 4), (1, 1), (0, 6)])
def test_a_task_gives_so_many_different_rollouts_at_most(tmp_path: Path, most: int, kept: int) -> None:
    """The first ones of the run; the same text twice is one."""
    texts = [solved(asked()[0], more=f" Way {way}.") for way in range(6)]
    other = solved(asked()[1])
    run = write_run(tmp_path / "run", *((0, text) for text in [texts[0], *texts]), (1, other), (1, other))
    data = samples_of(tmp_path, run, f"sft.samples_per_task={most}")
    assert [completion_of(row) for row in data.train] == [*texts[:kept], other]
    assert counts_of(data) == {
        name: number
        for name, number in {
            "read": 9, "kept": kept + 1, "duplicate": 2, "enough_of_this_task": 6 - kept
        }.items()
        if number
    }  # fmt: skip


def test_what_is_wrong_is_no_news_and_a_run_without_a_right_one_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (0, solved(asked()[0])), (1, wrong(asked()[1])))
    assert not samples_of(tmp_path, run).notes
    hopeless = write_run(tmp_path / "hopeless", (0, wrong(asked()[0])))
    with pytest.raises(DataError, match="not_right 1") as caught:
        samples_of(tmp_path, hopeless)
    assert "larger model" in str(caught.value.hint)


def test_torn_rows_cost_only_themselves(tmp_path: Path) -> None:
    """A run that a crash ended: half a line in its samples and in its tasks, as `JsonLines` leaves it."""
    run = write_run(tmp_path / "run", *((number, solved(asked()[number])) for number in range(3)))
    for name in ("samples", "tasks"):
        file = run / f"{name}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines()
        torn = 1 if name == "tasks" else 0
        lines[torn] = lines[torn][: len(lines[torn]) // 2]
        file.write_text("\n".join([*lines, "[]", '{"prompt_id": 7}', "5", ""]), encoding="utf-8")
    data = samples_of(tmp_path, run)
    assert counts_of(data) == {"read": 6, "kept": 1, "not_json": 1, "no_task": 2, "not_an_object": 2}
    assert completion_of(data.train[0]) == solved(asked()[2])
    assert any("no_task" in note for note in data.notes) and any("not_json" in note for note in data.notes)


def test_a_run_that_is_none(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (0, solved(asked()[0])))
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere", "nowhere/samples.jsonl"):
        with pytest.raises(InputError, match="GRPO run"):
            samples_of(tmp_path, tmp_path / name)
    (run / "tasks.jsonl").write_text("\xff{", encoding="latin-1")
    with pytest.raises(InputError, match="holds no task"):
        samples_of(tmp_path, run)
    write_run(tmp_path / "other", (0, solved(asked()[0])))
    (tmp_path / "other" / "samples.jsonl").unlink()
    with pytest.raises(InputError, match=r"samples\.jsonl"):
        samples_of(tmp_path, tmp_path / "other")


def test_whole_tasks_are_held_out_and_asked(tmp_path: Path) -> None:
    """By content: also a task that the run asked twice, recoloured; what is held out is solved in the evaluation."""
    rollouts = [(number, solved(one, more=f" Way {way}.")) for number, one in enumerate(asked()) for way in range(2)]
    data = samples_of(tmp_path, write_run(tmp_path / "run", *rollouts), "data.holdout_select=3")
    assert counts_of(data) == {"read": 2 * TASKS, "kept": 2 * TASKS - len(data.held), "held_out": len(data.held)}
    held = {row.key for row in data.held}
    assert len(held) == 3 and not held & {row.key for row in data.train}
    assert {canonical_key(one.task) for one in data.asked["select"]} == held
    for one in data.asked["select"]:
        assert list(one.prompt.token_ids) in [row.input_ids[: row.prompt_length] for row in data.held]


def test_no_row_tells_the_answer_of_a_held_out_task_whatever_its_form(tmp_path: Path) -> None:
    """A task that a run's rollout asks for, and a row of a file whose text asks the same, or so after other words."""
    run = write_run(tmp_path / "run", *((number, solved(one)) for number, one in enumerate(asked())))
    questions = [one.prompt.messages[0]["content"].strip() for one in asked()]
    plain = [
        {"question": question, "reasoning": f"I recall {number}.", "answer": "So."}
        for number, question in enumerate(questions)
    ]
    with_system = [
        {
            "messages": [
                {"role": "system", "content": f"Be brief, number {number}."},
                {"role": "user", "content": question},
                {"role": "assistant", "content": f"<think>I recall {number}.</think>So."},
            ]
        }
        for number, question in enumerate(questions)
    ]
    files = [write_rows(tmp_path / f"{n}.jsonl", rows) for n, rows in enumerate((plain, with_system))]
    for sources in ([f"samples:{run}", *files], [*files, f"samples:{run}"]):
        data = prepare_sft(config_of(tmp_path, *sources, sets=("data.holdout_select=8",)), tokenizer())
        assert counts_add_up(data)
        trained, out = ({question_of(row) for row in rows} for rows in (data.train, data.held))
        assert {row.task is None for row in data.held} == {True, False}, "of both forms"
        assert trained and not out & trained


def test_held_out_arc_tasks_stay_held_out(tmp_path: Path) -> None:
    """A run on the same generators as the tasks of SFT: none of the rollouts on held-out tasks is trained on."""
    sets = ("data.tasks=8", "data.holdout_select=4", "prompt.max_tokens=224")
    source = "rearc:67a3c6ac"
    alone = prepare_sft(config_of(tmp_path, source, sets=sets), tokenizer())
    leaks = [
        replace(one, prompt=replace(one.prompt, prompt_id=f"leak-{n}")) for n, one in enumerate(alone.asked["select"])
    ]
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        folder.task_rows([one.row for one in leaks])
        for one in leaks:
            (rollout,) = Reader(tokenizer()).read([one], [Completion(solved(one), (1,), False)])
            folder.samples([sample_row(1, 0, rollout, Score(1.0, {"grid": 1.0}, {"grid": 1.0}), 0.5)])
    mixed = prepare_sft(config_of(tmp_path, source, f"samples:{run}", sets=sets), tokenizer())
    assert mixed.counts[f"samples:{run}"] == {"read": 4, "kept": 0, "held_out": 4}
    assert json.dumps([row.input_ids for row in mixed.train]) == json.dumps([row.input_ids for row in alone.train])


def test_rollouts_of_held_out_generators_are_not_trained_on(tmp_path: Path) -> None:
    """The family decides, and not only the content: the run is tested on other instances of the same generator."""
    run = write_run(tmp_path / "run", *((number, solved(one)) for number, one in enumerate(asked())))
    held = asked()[0].task.family
    others = sum(one.task.family != held for one in asked())
    sets = (f'data.holdout_families=["{held}"]',)
    data = prepare_sft(config_of(tmp_path, f"samples:{run}", sets=sets), tokenizer())
    assert 0 < others < TASKS
    assert {row.task.family for row in data.train if row.task is not None} == {
        one.task.family for one in asked() if one.task.family != held
    }
    assert data.counts[f"samples:{run}"]["held_out"] == TASKS - others


def test_what_is_to_be_tested_on_is_not_trained_on_in_any_disguise(tmp_path: Path) -> None:
    """Must show 3 of the data issue: `data.keep_out` holds for rollouts, and for rows that ask the same."""
    run = write_run(tmp_path / "run", *((number, solved(one)) for number, one in enumerate(asked()[:6])))
    alone, turned = samples_of(tmp_path, run), Change(5, (1, 2, 3, 4, 5, 6, 7, 8, 9, 0), (1, 0))
    secret, asked_as_text = asked()[2].task, asked()[4]
    content = {"a": as_json(turned.apply(secret)), "b": as_json(asked_as_text.task)}
    (tmp_path / "held.json").write_text(json.dumps(content))
    rows = [{"prompt": asked_as_text.prompt.messages[-1]["content"], "completion": solved(asked_as_text)}]
    file = write_rows(tmp_path / "rows.jsonl", [*rows, {"prompt": "7?", "completion": "<think>\nso\n</think>\n7"}])
    sets = ("data.holdout_select=0", f'data.keep_out=["{tmp_path / "held.json"}"]')
    data = prepare_sft(config_of(tmp_path, f"samples:{run}", str(file), sets=sets), tokenizer())
    assert counts_add_up(data)
    assert counts_of(alone)["kept"] == 6
    assert data.counts[f"samples:{run}"] == {"read": 6, "kept": 4, "held_out": 2}
    assert data.counts[str(file)]["held_out"] == 1
    assert "data.keep_out: 2 tasks are never trained on" in data.notes


def as_json(task: Task) -> dict[str, Any]:
    def rows(pairs: tuple[Pair, ...]) -> list[dict[str, Any]]:
        return [{"input": p.input.rows(), "output": p.output.rows() if p.output else None} for p in pairs]

    return {"train": rows(task.train), "test": rows(task.test)}
