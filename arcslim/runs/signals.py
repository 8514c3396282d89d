"""Stopping well: the first Ctrl-C or SIGTERM is a wish, obeyed at the next safe point; a second Ctrl-C ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from arcslim.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Wrappers (make, torchrun, docker --init) pass a Ctrl-C on that the terminal sent to this process already: two signals
# within this many seconds are one wish.
ECHO = 0.25
SHOW_CURSOR = b"\x1b[?25h"


class StopRequest:
    """Catches SIGINT, SIGTERM and SIGHUP while it is entered; the handlers of before come back at the end.

    A signal that was ignored before (``nohup``'s SIGHUP) stays ignored.

    Python calls a handler between two of its own instructions: a backward pass or a hanging kernel would hold the
    second Ctrl-C back, or merge it with the first. So a thread looks out for it, told by the C level at once.

    ``notify`` gets one sentence when the first signal comes. It runs inside the signal handler: it may set an attribute
    or call ``os.write``, and must take no lock. By default the sentence goes to standard error.

    Use it from the main thread: Python allows signal handlers nowhere else.
    """

    def __init__(self, notify: Callable[[str], None] | None = None) -> None:
        self.signum: int | None = None
        self._reason = ""
        self._at = 0.0
        self._notify = _to_stderr if notify is None else notify
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1
        self._wakeup: int | None = None

    @property
    def requested(self) -> bool:
        """True once a stop is asked for."""
        return self.signum is not None

    def check(self) -> None:
        """Raise ``Stopped`` if a stop is asked for. For places where nothing is to be saved, or all is saved.

        Raises:
            Stopped: its ``exit_code`` is 128 + the signal's number: 130 after Ctrl-C, 143 after SIGTERM.
        """
        if self.signum is not None:
            raise Stopped(f"stopped by {self._reason}", signum=self.signum)

    def __enter__(self) -> StopRequest:
        reading, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        self._wakeup_before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        threading.Thread(target=_look_out, args=(reading,), name="second-ctrl-c", daemon=True).start()
        for signum in SIGNALS:
            before = signal.getsignal(signum)
            if before is not signal.SIG_IGN:
                self._before[signum] = before
                signal.signal(signum, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, signal.SIG_DFL if before is None else before)
        self._before.clear()
        signal.set_wakeup_fd(self._wakeup_before)
        if self._wakeup is not None:
            os.close(self._wakeup)  # the thread reads the end and ends too
            self._wakeup = None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum, self._at = signum, time.monotonic()
            self._reason = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
            self._notify(
                f"{self._reason}: stops at the next safe point and keeps what is done; Ctrl-C again ends at once"
            )
        elif signum == signal.SIGINT and time.monotonic() - self._at > ECHO:
            _end_now()


def _to_stderr(text: str) -> None:
    with contextlib.suppress(OSError):  # standard error is closed: the wish counts all the same
        os.write(2, f"\n{text}\n".encode())


def _look_out(reading: int) -> None:
    """Read the numbers of the signals that arrive; end the process at a second SIGINT that is no echo of the first."""
    first: float | None = None
    while byte := os.read(reading, 1):
        now = time.monotonic()
        if byte[0] == signal.SIGINT and first is not None and now - first > ECHO:
            _end_now()
        first = now if first is None else first
    os.close(reading)


def _end_now() -> None:
    """No unwinding and no exit hooks: they are what may hang. A live view hides the cursor, so bring it back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed: there is no cursor to bring back
            if stream is not None and stream.isatty():
                os.write(stream.fileno(), SHOW_CURSOR)
    _to_stderr(
        "ended at once: what came after the last checkpoint is not saved; go on with the same line and --resume auto"
    )
    os._exit(130)
