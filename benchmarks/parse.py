"""How many completions are parsed and scored a second, and how long hostile ones take.

    python benchmarks/parse.py [--seconds 2] [--output benchmarks/results/parse.json]

The completions are as a run has them: 200 tokens (Qwen gives a digit one token and English about one a word), closed
thinking on a 10 x 10 task, a spread of right, wrong and missing answers, in groups of 16 with one prompt each. "scored"
is the whole of ``RewardSuite.score``: grid and min_thinking with its degeneracy check, group statistics, metrics.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from arcslim.config import MinThinkingSection, RewardSection
from arcslim.prompts.nouns import Completion
from arcslim.prompts.parse import parse
from arcslim.prompts.render import chat_text
from arcslim.prompts.text import GridFormat, grid_to_text
from arcslim.rewards.base import Rollout
from arcslim.rewards.suite import RewardSuite
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

GROUPS, GROUP_SIZE, SIDE, TOKENS = 32, 16, 10, 200
GOAL_RATE, GOAL_MS, HOSTILE_BYTES, OPENERS = 20_000, 50.0, 200_000, 5_000
VOCABULARY = (
    "the grid is flipped so row column becomes cell colour left right top bottom each example shows that output input "
    "size same rule maybe shift copy fill border because when two not check again"
)
WORDS = VOCABULARY.split()
Job = tuple[str, Task, str, Completion]  # prompt id, task, prompt text, completion


def made_task(rng: random.Random, number: int) -> Task:
    def grid() -> Grid:
        return Grid([[rng.choice((0, 0, 0, 0, 1, 2, 5, 8)) for _ in range(SIDE)] for _ in range(SIDE)])

    pairs = tuple(Pair(grid(), grid()) for _ in range(5))
    return Task(f"bench{number}", "bench", "bench", pairs[:4], pairs[4:])


def made_jobs(style: GridFormat, *, copies_grid: bool) -> list[Job]:
    rng, jobs = random.Random(0), []
    for number in range(GROUPS):
        task = made_task(rng, number)
        prompt = chat_text(task, style)
        copied = grid_to_text(task.test[0].input, style) + "\n" if copies_grid else ""
        for _ in range(GROUP_SIZE):
            text, ids, cut_off = made_completion(rng, task, style)
            jobs.append((f"p{number}", task, prompt, Completion(copied + text, ids, cut_off)))
    return jobs


def made_completion(rng: random.Random, task: Task, style: GridFormat) -> tuple[str, tuple[int, ...], bool]:
    """Text, 200 made token ids, and whether it was cut off."""
    truth = task.test[0].output
    assert truth is not None
    grid_tokens = SIDE * (SIDE + 1) + 8
    words = [rng.choice(WORDS) if rng.random() < 0.85 else str(rng.randrange(10)) for _ in range(TOKENS - grid_tokens)]
    thinking, luck = " ".join(words), rng.random()
    ids = tuple(rng.randrange(1_000) for _ in range(TOKENS))
    if luck < 0.1:
        return thinking + " " + thinking, ids, True
    rows = truth.rows()
    if luck < 0.85:
        rows[0][0] = (rows[0][0] + 1) % 10
    return f"{thinking}\n</think>\n\n<answer>\n{grid_to_text(Grid(rows), style)}\n</answer>", ids, False


def rate(call: Callable[[], object], items: int, seconds: float) -> float:
    """Items a second of one core's time: the best of many calls, since the machine has other work as well."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return items / best


def hostile() -> dict[str, str]:
    filler = "x" * (HOSTILE_BYTES // OPENERS - len("<answer>"))
    return {
        "unclosed <answer>": "</think>" + ("<answer>" + filler) * OPENERS,
        "unclosed <think>": ("<think>" + filler) * OPENERS,
        "unclosed, nothing between": "</think>" + "<answer>" * (HOSTILE_BYTES // len("<answer>")),
        "orphan closers": "</think>" * (HOSTILE_BYTES // len("</think>")),
        "answers and strays": "</think>" * 12_000 + "<answer>7</answer></think>" * 4_000,
        "one endless row": "</think><answer>" + "7" * HOSTILE_BYTES + "</answer>",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "parse.json")
    options = parser.parse_args()

    jobs = made_jobs("compact", copies_grid=False)
    # thinking that repeats grids gets the second, closer look: twice the text, most of it spaced cells
    slow_jobs = made_jobs("spaced", copies_grid=True)
    suite = RewardSuite.from_config(RewardSection(min_thinking=MinThinkingSection(mode="floor", min_tokens=60)))

    def parse_all() -> None:
        for _, _, _, completion in jobs:
            parse(completion.text)

    def score_all(jobs: list[Job]) -> None:
        rollouts = []
        for prompt_id, task, prompt, completion in jobs:
            parsed = parse(completion.text)
            # a run counts tokens while it decodes
            rollouts.append(Rollout(prompt_id, task, completion, parsed, 82 if parsed.thinking else 0, prompt))
        suite.score(rollouts, group_size=GROUP_SIZE, training=True)

    parse_rate = rate(parse_all, len(jobs), options.seconds)
    score_rate = rate(lambda: score_all(jobs), len(jobs), options.seconds)
    slow_rate = rate(lambda: score_all(slow_jobs), len(slow_jobs), options.seconds)
    rows: list[tuple[str, float, float | None, bool]] = []
    rows.append(("parsed a second", parse_rate, GOAL_RATE, parse_rate >= GOAL_RATE))
    rows.append(("parsed and scored a second", score_rate, GOAL_RATE, score_rate >= GOAL_RATE))
    rows.append(("the same, thinking copies a spaced grid", slow_rate, None, True))
    for name, text in hostile().items():
        milliseconds = 1_000 / rate(partial(parse, text), 1, options.seconds / 4)
        # the goal is about 5,000 openers; the rows below are worse still, to see that nothing is quadratic
        goal = GOAL_MS if text.count("<") <= OPENERS + 1 else None
        rows.append((f"200 KB, {name}: ms", milliseconds, goal, goal is None or milliseconds < goal))

    print(f"{'':44}{'measured':>12}{'goal':>10}")
    for name, measured, goal, met in rows:
        verdict = "" if goal is None else f"{goal:10,.0f}  {'met' if met else 'MISSED'}"
        print(f"{name:44}{measured:12,.1f}{verdict}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "completions": len(jobs),
        "tokens_each": TOKENS,
        "rows": [{"name": name, "measured": measured, "goal": goal, "met": met} for name, measured, goal, met in rows],
    }
    options.output.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
