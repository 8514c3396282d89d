"""The benchmark compares like with like."""

from __future__ import annotations

import numpy as np

from arcslim.tasks.drawing_parse import parse_program
from benchmarks.drawing import SIDE, hostile, made_programs, refuse, run_apart


def test_a_subprocess_draws_the_same() -> None:
    for program in made_programs()[:2]:
        source = program.to_source()
        rows = parse_program(source).run(np.zeros((SIDE, SIDE), dtype=np.int8)).tolist()
        assert run_apart(source) == "/".join("".join(map(str, row)) for row in rows)


def test_what_is_timed_as_refused_is_refused() -> None:
    for source in hostile().values():
        refuse(source)
