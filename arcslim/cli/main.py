"""The command line's entry: commands, and how an error becomes a message and an exit code.

Imports here are light: torch and everything that needs it are imported inside a command's body.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from arcslim import __version__
from arcslim.cli import bench, data, doctor, grpo, her, plan, prefetch, presets, sft
from arcslim.errors import ArcslimError

app = typer.Typer(
    name="arcslim",
    help="Reinforcement learning and fine-tuning of reasoning models on ARC, on one GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors are shown here, once, without a traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("grpo")(grpo.grpo)
app.command("sft")(sft.sft)
app.command("plan")(plan.plan)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.command("prefetch")(prefetch.prefetch)
app.add_typer(her.app, name="her")
app.add_typer(data.app, name="data")
app.add_typer(presets.app, name="presets")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arcslim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error; may stand anywhere")] = False,
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line (``sys.argv`` if None) and exit.

    Exit codes: 0 done, 2 bad input or configuration, 3 does not fit, 130/143 stopped, 1 anything else.
    """
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a character gets `?` for it, not an error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    # `--debug` may stand anywhere, so that it can be added to the end of the line that went wrong.
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        typer.main.get_command(app).main(args=words, prog_name="arcslim")
    except ArcslimError as error:
        sys.exit(_report(error.message, error.hint, error.exit_code, debug))
    except Exception as error:  # noqa: BLE001 - the outermost place: everything becomes one line and exit code 1
        said = str(error).strip().partition("\n")[0]
        sys.exit(_report(f"{type(error).__name__}: {said}", "run again with --debug for the traceback", 1, debug))


def _report(message: str, hint: str | None, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    stopped = code > 128  # 128 + the signal that asked for it
    typer.secho("stopped: " if stopped else "error: ", fg="yellow" if stopped else "red", bold=True, nl=False, err=True)
    typer.echo(message, err=True)
    if hint is not None:
        typer.echo(f"  {hint}", err=True)
    return code
