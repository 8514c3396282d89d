"""Case 25's signals: the first one is a wish, a second Ctrl-C ends at once, and handlers come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from arcslim.errors import Stopped
from arcslim.runs.signals import ECHO, StopRequest

# Stands for each phase: a plain loop (load), one long blocking call (generation), a loop of its own (evaluation), and
# a file being written (saving). All say `ready`, then wait for signals; `saved` is what must not be lost.
PROGRAM = """
import sys, time
from arcslim.errors import Stopped
from arcslim.runs.signals import StopRequest
phase = sys.argv[1]
with StopRequest() as stop:
    print("ready", flush=True)
    try:
        if phase == "loading":
            while True:
                stop.check()
                time.sleep(0.01)
        while not stop.requested:
            if phase == "generation":
                time.sleep(0.3)  # returns at its own end, not at the signal's
            elif phase == "evaluation":
                sum(range(10000))
            else:
                with open(sys.argv[2], "w") as file:
                    file.write("x" * 1000)
        if len(sys.argv) > 3:
            print("saving", flush=True)
            time.sleep(60)
        print("saved", flush=True)
        stop.check()
    except Stopped as error:
        print(error, flush=True)
        sys.exit(error.exit_code)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("phase", ["loading", "generation", "evaluation", "saving"])
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_case_25_the_first_signal_waits_for_a_safe_point(
    phase: str, signum: signal.Signals, code: int, tmp_path: object
) -> None:
    """Case 25: what was learned is kept, in every phase; while loading there is nothing to save."""
    process = start(phase, f"{tmp_path}/checkpoint")
    process.send_signal(signum)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert ("saved" in out) == (phase != "loading")
    assert "stopped by" in out
    assert "safe point" in err
    assert "Traceback" not in err


def test_case_25_a_second_ctrl_c_ends_at_once(tmp_path: object) -> None:
    """Case 25: while it is saving for the first one; the echo that a wrapper makes of the first is no second one."""
    process = start("evaluation", f"{tmp_path}/x", "slow")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    time.sleep(ECHO + 0.1)
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - begun < 2
    assert process.returncode == 130
    assert "saved" not in out
    assert "Traceback" not in err


def test_case_25_a_second_ctrl_c_ends_a_call_that_never_comes_back_to_python() -> None:
    """Case 25: a backward pass or a hanging kernel, which Python's own handlers wait for."""
    code = """
import hashlib
from arcslim.runs.signals import StopRequest
with StopRequest():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 300_000_000)  # minutes
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(ECHO + 0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130


def test_case_25_a_second_sigterm_still_saves(tmp_path: object) -> None:
    """Case 25: a spot machine's warning may come twice."""
    process = start("evaluation", f"{tmp_path}/x")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, "saved" in out) == (143, True)


def test_handlers_come_back_and_an_ignored_hang_up_stays_ignored() -> None:
    before = signal.getsignal(signal.SIGINT)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with StopRequest(notify=lambda text: None) as stop:
            assert signal.getsignal(signal.SIGINT) != before
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
            stop.check()
    finally:
        signal.signal(signal.SIGHUP, hang_up)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_notice_names_the_signal_and_check_raises_until_the_end() -> None:
    told: list[str] = []
    with StopRequest(notify=told.append) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(Stopped) as caught:
                stop.check()
            assert caught.value.exit_code == 143
    assert len(told) == 1
    assert "SIGTERM" in told[0]


def test_only_the_main_thread_may_enter() -> None:
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            StopRequest().__enter__()
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert len(errors) == 1
