"""The command line as a user meets it: start-up, messages, exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import arcslim
from arcslim.cli import main as cli
from arcslim.errors import DoesNotFitError, InputError, Stopped

ROOT = Path(arcslim.__file__).parent.parent


def arcslim_command(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arcslim", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_case_29_help_comes_in_under_a_second_without_torch() -> None:
    """Case 29: `--help` in under a second (of processor time: the machine may be busy), torch not loaded."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "from arcslim.cli.main import main\n"
        "main(['--help'])\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "grpo" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_case_15_a_misspelt_key_exits_2_before_any_weight_loads() -> None:
    """Case 15: exit code 2, one screen, names `learning_rate`'s place; nothing heavy was imported."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "from arcslim.cli.main import main\n"
        "main(['grpo', '--preset', 'cpu', '--set', 'grpo.learnign_rate=1'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean `optim.learning_rate`?" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) < 24
    assert done.stdout.strip() == "False"


def test_case_28_closed_standard_input_is_no_prompt() -> None:
    """Case 28: with standard input closed nothing waits for an answer."""
    done = arcslim_command("presets", "list", stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0
    assert "4090-14b" in done.stdout


def test_the_bare_entry_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"arcslim {arcslim.__version__}\n")


def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "arcslim", "presets", "show", "4090"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("no such thing", "do that"), 2, "error: no such thing\n  do that\n"),
        (DoesNotFitError("24 GB are too few"), 3, "error: 24 GB are too few\n"),
        (Stopped("saved at step 3", "go on with --resume newest"), 130, "stopped: saved at step 3\n  go on with"),
        (Stopped("saved at step 3", signum=15), 143, "stopped: saved at step 3\n"),
        (
            ZeroDivisionError("division by zero\nmore"),
            1,
            "error: ZeroDivisionError: division by zero\n  run again with",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_becomes_a_message_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    failing = typer.Typer(pretty_exceptions_enable=False)

    @failing.callback(invoke_without_command=True)
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", failing)
    for words in ([], ["--debug"]):
        with pytest.raises(SystemExit) as exit_:
            cli.main(words)
        assert exit_.value.code == code
        shown = capsys.readouterr().err
        assert said in shown
        if not isinstance(error, KeyboardInterrupt):
            assert ("Traceback" in shown) == bool(words)


def test_a_word_that_is_no_option_exits_2() -> None:
    done = arcslim_command("grpo", "--pre-set", "cpu")
    assert done.returncode == 2
    assert "No such option" in done.stderr
