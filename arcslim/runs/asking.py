"""Asking another program: its output, or in words why there is none."""

from __future__ import annotations

import subprocess

TIMEOUT = 10.0  # seconds: a hung driver must not hang the start of a run


def output_of(command: list[str], timeout: float | None = None) -> tuple[str | None, str | None]:
    """A command's standard output, or None and why there is none. It gets no standard input, and never a prompt."""
    limit = TIMEOUT if timeout is None else timeout
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False)
    except FileNotFoundError:
        return None, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return None, f"{command[0]} gave no answer in {limit:g} s"
    except OSError as problem:
        return None, f"{command[0]}: {problem.strerror or problem}"
    output, error = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode != 0:
        reason = (error or output).strip().splitlines()
        return None, f"{command[0]} failed: {reason[0][:200] if reason else done.returncode}"
    return output, None
