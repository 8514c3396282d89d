"""From data specs to token ids and labels: what exactly SFT trains on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arcslim.config import Config
from arcslim.errors import DataError, InputError
from arcslim.presets import load_config
from arcslim.prompts.parse import parse
from arcslim.prompts.render import Renderer, answer_text, completion_text
from arcslim.recipes.prepare import Asked, prepare
from arcslim.recipes.sft_prepare import SftData, prepare_sft
from arcslim.recipes.sft_rows import IGNORED, TrainingRow, Truncation, to_dataset, truncation_lines
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task
from tests.policy.made import byte_tokenizer
from tests.real_tokenizers import NAMES, real_tokenizer
from tests.recipes.made import arcslim
from tests.recipes.sft_made import PRESET

QUESTION, THOUGHT, ANSWER = "What is 2 + 2?", "Two and two.\n\nThat is four.", "It is 4."
INSIDE = f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def row_of(number: int) -> dict[str, str]:
    return {"question": f"What is {number} + 2?", "reasoning": f"{number} and 2.", "answer": f"It is {number + 2}."}


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    """Rows as JSONL; a text among them is written as it stands."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def config_of(folder: Path, *sources: object, sets: Sequence[str] = ()) -> Config:
    """The small SFT settings on ``sources``, long rows allowed and nothing held out unless ``sets`` ask for it."""
    preset = folder / "preset.toml"
    preset.write_text(PRESET, encoding="utf-8")
    names = json.dumps([str(source) for source in sources])
    some = [f"data.sources={names}", "data.holdout_select=0", "model.max_seq_length=2048", *sets]
    return load_config(str(preset), some, {}).config


def bytes_tokenizer() -> Any:
    """One token a byte: lengths are easy to count."""
    return byte_tokenizer(eos_token="<|im_end|>", pad_token="<|fim_pad|>")


def rows_of(folder: Path, rows: Sequence[Any], *sets: str, tokenizer: Any = None) -> SftData:
    path = write_rows(folder / "rows.jsonl", rows)
    return prepare_sft(config_of(folder, path, sets=sets), tokenizer or bytes_tokenizer())


def trained_text(row: TrainingRow, tokenizer: Any) -> str:
    return str(tokenizer.decode(row.completion_ids))


def counts_add_up(data: SftData) -> bool:
    return all(
        counts["read"] == sum(number for name, number in counts.items() if name != "read")
        for counts in data.counts.values()
    )


# The tokens of a row -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["chat", "base"])
@pytest.mark.parametrize("name", NAMES)
def test_case_4_the_first_trained_token_is_the_first_of_the_completion(name: str, style: str, tmp_path: Path) -> None:
    """Case 4: the prompt's ids are those of inference, prefill included; training begins right behind them."""
    tokenizer = real_tokenizer(name)
    system = {"role": "system", "content": "Be brief."}
    turns = [system, user(QUESTION), assistant("4"), user("Are you sure?"), assistant(INSIDE)]
    spaced = {"prompt": "Count.", "completion": f"<think> \n \n  1 2  3\n\n</think>\n{ANSWER}"}
    data = rows_of(tmp_path, [{"messages": turns}, spaced], f"prompt.style={style}", tokenizer=tokenizer)
    renderer = Renderer(tokenizer, config_of(tmp_path, "x.jsonl", sets=[f"prompt.style={style}"]).prompt)
    asked = [turns[:-1], [user("Count.")]]
    said = [completion_text(THOUGHT, ANSWER), completion_text("1 2  3", ANSWER)]
    assert len(data.train) == 2
    for row, messages, completion in zip(data.train, asked, said, strict=True):
        prompt = renderer.render_messages(messages, "")
        assert row.input_ids[: row.prompt_length] == list(prompt.token_ids)
        assert list(prompt.token_ids) == tokenizer(prompt.text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(row.input_ids[: row.prompt_length]).endswith("<think>\n")
        first = next(index for index, label in enumerate(row.labels) if label != IGNORED)
        ids = tokenizer(completion, add_special_tokens=False)["input_ids"]
        assert first == row.prompt_length and row.labels[first] == ids[0]
        assert row.completion_ids == [*ids, tokenizer.eos_token_id] == row.labels[first:]
        assert set(row.labels[:first]) == {IGNORED} and row.trained == len(ids) + 1
        after = trained_text(row, tokenizer)
        assert after == completion + tokenizer.eos_token
        assert "<think>" not in after and after.count("</think>") == 1


def test_every_form_gives_the_same_tokens(tmp_path: Path) -> None:
    """Also in one file: a row's columns are looked for anew where they change."""
    forms = [
        {"messages": [user(QUESTION), assistant(INSIDE)]},
        {"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": INSIDE}]},
        {"messages": [user(QUESTION), assistant(ANSWER) | {"reasoning_content": THOUGHT}]},
        {"prompt": QUESTION, "completion": INSIDE},
        {"prompt": f"{QUESTION}\n<think>\n", "completion": f"{THOUGHT}</think>{ANSWER}"},
        {"question": QUESTION, "reasoning": THOUGHT, "answer": ANSWER},
        {"question": QUESTION, "thinking": THOUGHT, "answer": ANSWER},
        {"question": QUESTION, "answer": INSIDE},
        {"unknown": QUESTION},
    ]
    data = rows_of(tmp_path, forms)
    (counts,) = data.counts.values()
    assert counts == {"read": 9, "kept": 1, "duplicate": 7, "missing_column": 1}
    assert any("rows.jsonl:9" in note and "unknown" in note for note in data.notes)
    (row,) = data.train
    assert trained_text(row, bytes_tokenizer()) == f"{THOUGHT}\n</think>\n\n{ANSWER}<|im_end|>"


def test_case_12_the_end_token_is_trained_although_the_pad_equals_it(tmp_path: Path) -> None:
    """Case 12: the collator masks by position, not by the pad's id."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    tokenizer = byte_tokenizer(eos_token="<|im_end|>", pad_token="<|im_end|>")
    data = rows_of(tmp_path, [row_of(1), row_of(1000)], tokenizer=tokenizer)
    dataset = to_dataset(data.train)
    assert dataset.column_names == ["input_ids", "labels"]
    batch = DataCollatorForLanguageModeling(pad_token_id=tokenizer.eos_token_id)([dataset[0], dataset[1]])
    for labels, row in zip(batch["labels"].tolist(), data.train, strict=True):
        assert labels[: len(row)] == row.labels and labels[len(row) - 1] == tokenizer.eos_token_id
        assert set(labels[len(row) :]) <= {IGNORED}
    assert len(data.train[0]) != len(data.train[1]), "or nothing was padded"


def test_a_text_that_ends_in_end_tokens_gets_one_and_one_inside_is_refused(tmp_path: Path) -> None:
    end = "<|im_end|>"
    rows = [
        {"prompt": "a", "completion": f"{INSIDE}{end}"},
        {"prompt": "b", "completion": f"{INSIDE}{end}\n{end} \n"},
        {"prompt": "c", "completion": f"<think>{THOUGHT}{end}</think>{ANSWER}"},
        {"prompt": "d", "completion": f"{INSIDE}{end}\n<|im_start|>user\nAnd now?"},
    ]
    data = rows_of(tmp_path, rows)
    end_id = bytes_tokenizer().eos_token_id
    assert [row.completion_ids.count(end_id) for row in data.train] == [1, 1]
    (counts,) = data.counts.values()
    assert counts["special_token_inside"] == 2 and counts_add_up(data)


def test_a_template_that_changes_between_two_runs_retokenises(tmp_path: Path) -> None:
    """Nothing is kept by a fingerprint that the template is no part of."""
    from datasets import Dataset

    rows = [row_of(number) for number in range(3)]
    tokenizer = bytes_tokenizer()
    before = to_dataset(rows_of(tmp_path, rows, tokenizer=tokenizer).train)
    assert "<|im_start|>" in tokenizer.decode(before[0]["input_ids"])
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_start|>", "<|endoftext|>")
    after = to_dataset(rows_of(tmp_path, rows, tokenizer=tokenizer).train)
    assert isinstance(after, Dataset) and not after.cache_files
    assert [len(row) for row in before["labels"]] == [len(row) for row in after["labels"]]
    for old, new in zip(before, after, strict=True):
        assert old["input_ids"] != new["input_ids"] and "<|im_start|>" not in tokenizer.decode(new["input_ids"])


def test_case_23_a_template_that_marks_nothing_costs_no_label(tmp_path: Path) -> None:
    """Case 23: labels go by position. A template without `{% generation %}` marks no token as the assistant's."""
    tokenizer = real_tokenizer("tiny")
    turns = [user(QUESTION), assistant(INSIDE)]
    marked = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    assert sum(marked["assistant_masks"]) == 0
    (row,) = rows_of(tmp_path, [{"messages": turns}], tokenizer=tokenizer).train
    assert row.trained == len([label for label in row.labels if label != IGNORED]) > 10


# Too long ------------------------------------------------------------------------------------------------------------


def long_row(tokens: int, *, prompt: int) -> dict[str, str]:
    """A row that is ``tokens`` long for the tokenizer of bytes, end token and all; ``prompt`` bytes of question."""
    frame = len("_user\n") + len("_\n") + len("_assistant\n") + len("_\n")  # _ a special token; the last opens
    rest = tokens - frame - prompt - len("\n_\n\n") - len(ANSWER) - 1
    return {"question": "q" * prompt, "reasoning": "r" * rest, "answer": ANSWER}


@pytest.mark.parametrize("limit", ["sft.max_length=8192", "model.max_seq_length=8192"])
@pytest.mark.parametrize("prompt", [10, 3900])
def test_case_20_a_row_of_4000_tokens_is_trained_whole_under_8192(prompt: int, limit: str, tmp_path: Path) -> None:
    """Case 20: whichever name sets the limit, and wherever the row's tokens lie; ``prompt.max_tokens`` is GRPO's."""
    sets = ["model.max_seq_length=8192", limit, "prompt.max_tokens=224"]
    data = rows_of(tmp_path, [long_row(4000, prompt=prompt)], *sets)
    (row,) = data.train
    assert len(row) == 4000
    (stored,) = to_dataset(data.train)
    assert stored["input_ids"] == row.input_ids and stored["labels"] == row.labels
    assert trained_text(row, bytes_tokenizer()).endswith(f"{ANSWER}<|im_end|>")
    assert [over.limit for over in data.truncation.over] == [8192, 12288, 16384]
    assert [over.rows for over in data.truncation.over] == [0, 0, 0]

    from arcslim.recipes.sft import trainer_arguments

    config = config_of(tmp_path, "x.jsonl", sets=sets)
    arguments = trainer_arguments(config, tmp_path, on_gpu=False)
    assert arguments["max_length"] == 8192 and arguments["dataset_kwargs"] == {"skip_prepare_dataset": True}


def test_the_truncation_report_counts_rows_and_tokens_at_three_limits(tmp_path: Path) -> None:
    lengths = (100, 200, 201, 300, 301, 450)
    rows = [long_row(length, prompt=index + 1) for index, length in enumerate(lengths)]
    data = rows_of(tmp_path, rows, "sft.max_length=200")
    report = data.truncation
    assert [len(row) for row in data.train] == [100, 200], "at the limit is not over it"
    assert (report.rows, report.tokens, report.longest) == (6, sum(lengths), 450)
    assert [(over.limit, over.rows, over.tokens) for over in report.over] == [
        (200, 4, 1 + 100 + 101 + 250), (300, 2, 1 + 150), (400, 1, 50),
    ]  # fmt: skip
    lines = truncation_lines(report)
    assert len(lines) == 3 and "4 of 6 rows (66.7%) are over 200 tokens" in lines[0] and "left out" in lines[0]
    assert f"{452 / sum(lengths):.1%} of all" in lines[0] and "left out" not in lines[1]
    (counts,) = data.counts.values()
    assert counts == {"read": 6, "kept": 2, "too_long": 4}


def test_rows_may_be_cut_and_the_report_says_what_goes(tmp_path: Path) -> None:
    rows = [long_row(150, prompt=20), long_row(400, prompt=20)]
    data = rows_of(tmp_path, rows, "sft.max_length=200", "sft.over_length=truncate")
    assert [len(row) for row in data.train] == [150, 200]
    assert data.train[1].labels[-1] == ord("r"), "the end token went with the answer"
    assert "answers and all" in truncation_lines(data.truncation)[0]


def test_rows_over_the_limit_may_be_an_error(tmp_path: Path) -> None:
    rows = [long_row(150, prompt=20), long_row(400, prompt=20)]
    with pytest.raises(DataError, match=r"1 of 2 rows.*rows.jsonl:2 with 400"):
        rows_of(tmp_path, rows, "sft.max_length=200", "sft.over_length=error")
    assert len(rows_of(tmp_path, rows, "sft.max_length=400", "sft.over_length=error").train) == 2


def test_case_22_a_row_whose_completion_is_cut_off_whole_is_counted_and_all_of_them_is_an_error(tmp_path: Path) -> None:
    """Case 22: nothing trained is no loss of 0, but a row that is left out; nothing at all stops the run."""
    hopeless = [long_row(400, prompt=195), long_row(900, prompt=300)]
    data = rows_of(tmp_path, [*hopeless, row_of(1)], "sft.max_length=200", "sft.over_length=truncate")
    (counts,) = data.counts.values()
    assert counts == {"read": 3, "kept": 1, "nothing_trained": 2}
    for policy, reason in (("truncate", "nothing_trained 2"), ("drop", "too_long 2")):
        with pytest.raises(DataError) as caught:
            rows_of(tmp_path, hopeless, "sft.max_length=200", f"sft.over_length={policy}")
        assert reason in str(caught.value) and "sft.max_length" in str(caught.value) and "900" in str(caught.value)


def test_nothing_left_names_the_way_out_of_what_was_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        rows_of(tmp_path, [{"question": "a", "answer": "b"}] * 3)
    assert "no_reasoning 3" in str(caught.value) and "data.columns.reasoning" in str(caught.value)


def test_a_report_of_no_rows_divides_by_nothing() -> None:
    assert truncation_lines(Truncation.of([], 100, "drop")) == ["none of 0 rows is over 100 tokens; the longest has 0"]


# Rows that cannot be used --------------------------------------------------------------------------------------------


def test_a_bad_row_is_data(tmp_path: Path) -> None:
    """Counted under its reason, shown with its place, and the rest is trained on."""
    rows = [
        row_of(1),
        "{not json",
        "[1, 2]",
        {"question": "a", "reasoning": None, "answer": "b"},
        {"question": "a", "reasoning": "b", "answer": "<think>"},
        {"question": "\ud83d", "reasoning": "half a character", "answer": "b"},
        row_of(2),
        row_of(1),
    ]
    data = rows_of(tmp_path, rows)
    (counts,) = data.counts.values()
    assert counts == {
        "read": 8, "kept": 2, "not_json": 1, "not_an_object": 1, "no_reasoning": 1, "cut_off": 1, "encoding": 1,
        "duplicate": 1,
    }  # fmt: skip
    for place, reason in ((2, "not_json"), (4, "no_reasoning"), (6, "encoding")):
        assert any(f"rows.jsonl:{place}" in note and reason in note for note in data.notes)


def test_a_template_may_refuse_a_row(tmp_path: Path) -> None:
    """Gemma's knows no system message; others want the turns to alternate."""
    tokenizer = bytes_tokenizer()
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    tokenizer.chat_template = refusing + tokenizer.chat_template
    turns = [user(QUESTION), assistant(INSIDE)]
    rows = [{"messages": turns}, {"messages": [{"role": "system", "content": "Be brief."}, *turns]}]
    data = rows_of(tmp_path, rows, tokenizer=tokenizer)
    assert len(data.train) == 1 and counts_add_up(data)
    assert any("template_refuses" in note and "no system here" in note for note in data.notes)


def test_case_3_turns_that_are_not_trained_are_said(tmp_path: Path) -> None:
    """Case 3: how many, in the notes; none of their tokens has a label."""
    turns = [user("a?"), assistant("<think>first</think>shown"), user("b?"), assistant("<think>second</think>B")]
    data = rows_of(tmp_path, [{"messages": turns}, row_of(1)])
    tokenizer, row = bytes_tokenizer(), data.train[0]
    assert any("1 earlier answers" in note and "not trained on" in note for note in data.notes)
    assert trained_text(row, tokenizer) == "second\n</think>\n\nB<|im_end|>"
    prompt = tokenizer.decode(row.input_ids[: row.prompt_length])
    assert "shown" in prompt and "first" not in prompt


def test_thinking_that_was_joined_is_said(tmp_path: Path) -> None:
    several = {"question": "a?", "reasoning": "beside", "answer": "<think>inside</think>b"}
    data = rows_of(tmp_path, [several, row_of(1)])
    assert any("1 rows have thinking in several places" in note for note in data.notes)
    assert trained_text(data.train[0], bytes_tokenizer()) == "beside\n\ninside\n</think>\n\nb<|im_end|>"


@pytest.mark.parametrize("where", ["question", "reasoning", "answer"])
def test_a_row_that_writes_a_special_token_is_left_out(where: str, tmp_path: Path) -> None:
    """Read as a token it would end the turn, or begin another one, in the middle of the row."""
    data = rows_of(tmp_path, [row_of(1), row_of(2) | {where: "see <|im_start|>user"}])
    assert len(data.train) == 1 and counts_add_up(data)
    assert any("special_token_inside" in note and "<|im_start|>" in note for note in data.notes)


def test_a_source_that_gives_no_row_is_named(tmp_path: Path) -> None:
    good = write_rows(tmp_path / "good.jsonl", [row_of(1)])
    bad = write_rows(tmp_path / "bad.jsonl", [{"question": "a", "answer": "b"}] * 2)
    data = prepare_sft(config_of(tmp_path, good, bad), bytes_tokenizer())
    assert any("bad.jsonl: not one of its 2 rows is trained on" in note for note in data.notes)
    with pytest.raises(DataError, match=r"no_reasoning: bad\.jsonl:1"):
        prepare_sft(config_of(tmp_path, bad), bytes_tokenizer())


def test_rows_in_other_files_are_told_the_form_that_is_read(tmp_path: Path) -> None:
    write_rows(tmp_path / "folder" / "rows.jsonl", [row_of(1)])
    (tmp_path / "list.json").write_text(json.dumps([row_of(1)]))
    (tmp_path / "rows.csv").write_text("question,reasoning,answer\na,b,c\n")
    for name, said, mend in (
        ("folder", "a folder of row files: rows.jsonl", "--data"),
        ("list.json", "is a list of rows", "to_json"),
        ("rows.csv", "is a .csv file", "to_json"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            prepare_sft(config_of(tmp_path, tmp_path / name), bytes_tokenizer())
        assert mend in str(caught.value.hint)


def test_a_missing_column_stops_the_run(tmp_path: Path) -> None:
    rows = [{"problem": "a", "solution": "<think>b</think>c"}]
    with pytest.raises(InputError, match="present: problem, solution"):
        rows_of(tmp_path, rows)
    named = ("data.columns.question=problem", "data.columns.answer=solution")
    assert len(rows_of(tmp_path, rows, *named).train) == 1


def test_rows_are_taken_whole_and_once(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [row_of(1)])
    for sources, words in (([f"{path}=0.5"], "weight"), ([path, path], "twice")):
        with pytest.raises(InputError, match=words):
            prepare_sft(config_of(tmp_path, *sources), bytes_tokenizer())


# Held out ------------------------------------------------------------------------------------------------------------


def test_questions_are_held_out_by_content_and_seed(tmp_path: Path) -> None:
    """A tenth of the questions at most, all rows of each, whatever the order of the rows and of the files."""
    rows = [row_of(number) for number in range(60)]
    again = [row | {"reasoning": "Another way."} for row in rows]
    data = rows_of(tmp_path, [*rows, *again], "data.holdout_select=100")
    assert len(data.held) == 12 and len(data.train) == 108
    assert any("asks for 100" in note and "6 are held out" in note for note in data.notes)
    (counts,) = data.counts.values()
    assert counts["held_out"] == 12 and counts_add_up(data)
    assert not {row.key for row in data.held} & {row.key for row in data.train}

    files = [write_rows(tmp_path / "b.jsonl", again[::-1]), write_rows(tmp_path / "a.jsonl", rows[::-1])]
    other = prepare_sft(config_of(tmp_path, *files, sets=["data.holdout_select=100"]), bytes_tokenizer())
    assert {row.key for row in other.held} == {row.key for row in data.held}
    assert len(other.held) == 12 and counts_add_up(other)
    seed = rows_of(tmp_path, rows, "data.holdout_select=4", "run.seed=1")
    assert len(seed.held) == 4 and {row.key for row in seed.held} != {row.key for row in data.held}
    assert data.asked == {} and data.split is None, "rows without tasks are not solved, only their loss is measured"


def test_held_rows_over_the_limit_are_said(tmp_path: Path) -> None:
    rows = [*(row_of(number) for number in range(40)), *(long_row(999, prompt=n + 1) for n in range(40))]
    data = rows_of(tmp_path, rows, "data.holdout_select=8", "sft.max_length=400")
    left_out = 8 - len(data.held)
    assert 0 < left_out < 8, "else this shows nothing"
    assert any(note.startswith(f"{left_out} of 8 held-out rows are over 400") for note in data.notes)


# ARC -----------------------------------------------------------------------------------------------------------------


def test_rows_of_arc_tasks_think_honestly_and_answer_right(tmp_path: Path) -> None:
    tokenizer = real_tokenizer("tiny")
    config = config_of(tmp_path, "rearc:67a3c6ac,d511f180", sets=["data.tasks=24", "data.holdout_select=6"])
    data = prepare_sft(config, tokenizer)
    prepared = prepare(config, tokenizer)
    assert set(data.asked) == {"select"} and len(data.held) == len(data.asked["select"]) == 6
    assert len(data.train) == 24
    prompts = {one.prompt.token_ids: one.task for some in (prepared.train, *data.asked.values()) for one in some}
    for row in (*data.train, *data.held):
        task = prompts[tuple(row.input_ids[: row.prompt_length])]
        parsed = parse(trained_text(row, tokenizer).removesuffix(tokenizer.eos_token))
        assert parsed.answer == task.test[0].output and parsed.thinking.startswith("Rule: ")
    assert not {row.key for row in data.train} & {row.key for row in data.held}


def test_a_task_that_no_rule_explains_is_left_out_and_counted(tmp_path: Path) -> None:
    puzzle = {
        "train": [{"input": [[1, 2], [3, 4]], "output": [[5, 1, 7]]}, {"input": [[2, 2], [3, 1]], "output": [[9]]}],
        "test": [{"input": [[1, 0], [0, 4]], "output": [[3, 3, 3]]}],
    }
    path = tmp_path / "puzzle.json"
    path.write_text(json.dumps(puzzle), encoding="utf-8")
    sets = ["data.tasks=9"]
    data = prepare_sft(config_of(tmp_path, "rearc:67a3c6ac", path, sets=sets), real_tokenizer("tiny"))
    assert data.counts["honest thinking"]["no_honest_thinking"] == 1 and counts_add_up(data)
    with pytest.raises(DataError, match="no_honest_thinking 1"):
        prepare_sft(config_of(tmp_path, path, sets=["data.tasks=8"]), real_tokenizer("tiny"))


def test_tasks_and_rows_mix_and_no_row_asks_for_a_held_out_task(tmp_path: Path) -> None:
    tokenizer = real_tokenizer("tiny")
    sets = ["data.tasks=8", "data.holdout_select=4", "data.holdout_test=4"]
    alone = prepare_sft(config_of(tmp_path, "rearc:67a3c6ac", sets=sets), tokenizer)
    leaks = [
        {"question": one.prompt.messages[0]["content"].strip(), "reasoning": "I have seen it.", "answer": "So I know."}
        for one in (*alone.asked["select"], *alone.asked["test"])
    ]
    path = write_rows(tmp_path / "rows.jsonl", [*leaks, *(row_of(number) for number in range(20))])
    mixed = prepare_sft(config_of(tmp_path, "rearc:67a3c6ac", path, sets=sets), tokenizer)
    assert mixed.counts[str(path)] == {"read": 28, "kept": 20, "held_out": 8} and counts_add_up(mixed)
    assert len(mixed.train) == 28 and mixed.asked == alone.asked
    assert [row.input_ids for row in mixed.held] == [row.input_ids for row in alone.held]


def recoloured(task: Task, by: int) -> Task:
    """The same content in other colours; the background stays."""

    def paint(grid: Grid | None) -> Grid:
        assert grid is not None
        return Grid([[cell and (cell - 1 + by) % 9 + 1 for cell in row] for row in grid.rows()])

    def pairs(some: Sequence[Pair]) -> tuple[Pair, ...]:
        return tuple(Pair(paint(pair.input), paint(pair.output)) for pair in some)

    return Task(f"{task.task_id}-{by}", task.source, task.family, pairs(task.train), pairs(task.test))


def test_rollouts_of_a_task_and_its_recoloured_twin_keep_their_own_prompts(tmp_path: Path) -> None:
    """For a holdout they are one content; a right answer in other colours than the prompt's would be a wrong one."""
    tokenizer = real_tokenizer("tiny")
    config = config_of(tmp_path, "rearc:67a3c6ac", sets=["data.tasks=8"])
    renderer, first = Renderer(tokenizer, config.prompt), prepare(config, tokenizer).train[0].task
    tasks = [recoloured(first, by) for by in range(3)]
    rows, samples, wanted = [], [], []
    for number, task in enumerate(tasks):
        truth, prompt = task.test[0].output, renderer.render(task, f"train-{number}")
        assert truth is not None
        completion = answer_text("Rule: mirror left to right. I turn every row of the test input.", truth, "compact")
        rows.append(Asked(prompt, task).row)
        samples.append({"prompt_id": prompt.prompt_id, "completion": completion, "cut_off": False})
        wanted.append((list(prompt.token_ids), completion + tokenizer.eos_token))
    write_rows(tmp_path / "run" / "tasks.jsonl", rows)
    write_rows(tmp_path / "run" / "samples.jsonl", samples)
    data = prepare_sft(config_of(tmp_path, f"samples:{tmp_path / 'run'}"), tokenizer)
    assert len({row.key for row in data.train}) == 1
    assert [(row.input_ids[: row.prompt_length], trained_text(row, tokenizer)) for row in data.train] == wanted


def test_the_dry_run_shows_what_is_left_out_and_how_long_the_rows_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*(row_of(number) for number in range(20)), {"question": "a", "answer": "b"}, long_row(3000, prompt=10)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    (tmp_path / "preset.toml").write_text(PRESET, encoding="utf-8")
    words = ("sft", "--preset", tmp_path / "preset.toml", "--data", path, "--dry-run", "--set", "data.holdout_select=0")
    assert arcslim(*words) == 0
    shown = capsys.readouterr()
    said = " ".join(shown.out.split())
    assert "indexing errors" not in shown.err, "transformers' warning of a row that is left out anyway"
    for part in ("no_reasoning", "too_long", "1 of 21 rows", "over 320 tokens", "over 480", "over 640", "left out"):
        assert part in said
    assert arcslim(*words, "--set", "data.columns.answer=solution") == 2
    assert "present: answer, question, reasoning" in " ".join(capsys.readouterr().err.split())


def test_grpo_says_who_takes_rows(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [row_of(1)])
    with pytest.raises(InputError, match="arcslim sft"):
        prepare(config_of(tmp_path, "rearc:67a3c6ac", path), real_tokenizer("tiny"))


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(write_rows(tmp_path / "plain.jsonl", [row_of(1), row_of(2)]).read_bytes()))
    assert len(prepare_sft(config_of(tmp_path, path), bytes_tokenizer()).train) == 2
