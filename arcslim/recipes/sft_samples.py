"""Rejection sampling: of a GRPO run's rollouts, those that are right and thought about."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from arcslim.errors import InputError, TaskError
from arcslim.prompts.parse import parse
from arcslim.rewards.degenerate import why_degenerate
from arcslim.tasks.arc import parse_task
from arcslim.tasks.lines import Unreadable
from arcslim.tasks.rows import Row, read_rows
from arcslim.tasks.spec import ROWS, Spec
from arcslim.tasks.task import Task


class Counting(Protocol):
    """Where rows are counted."""

    read: int

    def drop(self, reason: str, words: str) -> None: ...


@dataclass(frozen=True)
class Sample:
    """A right rollout: what it thought, and its answer, which is the task's truth."""

    place: str
    task: Task
    thinking: str


def right_samples(spec: Spec, a_task: int, held_families: Container[str], counts: Counting) -> Iterator[Sample]:
    """Right rollouts in the run's order, at most ``a_task`` different ones a task (0: all); the rest is counted.

    Rollouts on generators that are held out (``held_families``) are left out too. The answer is held against the task
    again: a row that says that it was right is not believed.

    Raises:
        InputError: there is no such run, or it lacks its ``tasks.jsonl``.
    """
    tasks = _tasks(spec)
    seen: set[bytes] = set()
    taken: Counter[str] = Counter()
    for row in read_rows(spec):
        counts.read += 1
        if isinstance(row, Unreadable):
            counts.drop(row.reason, f"{row.place}: {row.words}")
            continue
        found = _judge(row, tasks)
        if isinstance(found, str):
            counts.drop(found, row.place)
            continue
        task, thinking = found
        mark = hashlib.sha256(f"{row.values['prompt_id']}/{thinking}".encode()).digest()
        if task.family in held_families:
            counts.drop("held_out", row.place)
        elif mark in seen:
            counts.drop("duplicate", row.place)
        elif a_task and taken[row.values["prompt_id"]] >= a_task:
            counts.drop("enough_of_this_task", row.place)
        else:
            seen.add(mark)
            taken[row.values["prompt_id"]] += 1
            yield Sample(row.place, task, thinking)


def _judge(row: Row, tasks: dict[str, Task]) -> tuple[Task, str] | str:
    """The task and the thinking, or why it is left out."""
    values = row.values
    task, completion = tasks.get(str(values.get("prompt_id"))), values.get("completion")
    if task is None or not isinstance(completion, str):
        return "no_task"
    if values.get("cut_off"):
        return "cut_off"
    parsed = parse(completion)
    if parsed.answer is None or parsed.answer != task.test[0].output:
        return "not_right"
    if why_degenerate(parsed.thinking, task) is not None:
        return "no_thinking"
    if completion.count("</think>") != 1 or "<think>" in completion:
        return "several_blocks"
    return task, parsed.thinking


def _tasks(spec: Spec) -> dict[str, Task]:
    """The run's tasks by prompt; a row that a crash tore costs its own rollouts alone."""
    path = Path(spec.argument).expanduser()
    folder = path if path.is_dir() else path.parent
    file = folder / "tasks.jsonl"
    if not file.is_file():
        raise InputError(f"{spec.name}: no tasks.jsonl beside its samples", "give a GRPO run's folder, as samples:RUN")
    tasks: dict[str, Task] = {}
    wrong = ""
    for row in read_rows(Spec(ROWS, str(file), 1.0)):
        try:
            if isinstance(row, Unreadable):
                raise TaskError(row.reason, row.words)
            values = row.values
            task = parse_task(values["task"], values["task_id"], values["source"])
            tasks[values["prompt_id"]] = replace(task, family=str(values["family"]))
        except (KeyError, TypeError, TaskError) as error:
            wrong = wrong or f"{row.place}: {error}"
    if not tasks:
        raise InputError(f"{file} holds no task: {wrong}", "give the folder as the run left it")
    return tasks
