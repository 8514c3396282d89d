"""``arcslim presets``: list, show, copy and validate presets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from arcslim.errors import ConfigError, InputError, Problem
from arcslim.presets import find_preset, list_presets, load_config, to_toml

app = typer.Typer(help="Presets are TOML files that explain themselves.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="a preset's name, or a path to a .toml file")]


@app.command("list")
def list_() -> None:
    """What presets there are, for which model, and how much memory they want."""
    table = Table("preset", "what it is", "model", "memory", box=None, pad_edge=False, collapse_padding=True)
    for preset in list_presets():
        model = load_config(preset.name).config.model.name
        table.add_row(preset.name, preset.summary, model, " ".join(preset.entry("Memory").split()[:3]))
    Console().print(table)
    typer.echo("\nRun one with `arcslim grpo --preset NAME` or `arcslim sft --preset NAME`;")
    typer.echo("change a value with `--set section.key=value`.")


@app.command()
def show(
    name: Name,
    resolved: Annotated[bool, typer.Option("--resolved", help="every knob with its value, defaults included")] = False,
) -> None:
    """Print a preset, with what each value is for."""
    if resolved:
        found = load_config(name)
        typer.echo(to_toml(found.config, found.origins), nl=False)
    else:
        typer.echo(find_preset(name).text, nl=False)


@app.command()
def copy(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write")],
    force: Annotated[bool, typer.Option("--force", help="overwrite FILE")] = False,
) -> None:
    """Copy a preset to a file of your own; run it with `--preset FILE`."""
    text = find_preset(name).text
    if file.suffix != ".toml":
        raise InputError(f"{file} must end in .toml", "`--preset` knows a file by that ending")
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise InputError(f"{file} is there already", "another name, or --force to overwrite it") from error
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {file}; run it with `arcslim grpo --preset {file}`")


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="preset files, or names of presets")],
) -> None:
    """Check presets: every problem of every file, each with its line. Exit code 2 if there is one."""
    problems: list[Problem] = []
    for name in files:
        try:
            resolved = load_config(name)
        except ConfigError as error:
            problems += error.problems
        except InputError as error:
            problems.append(Problem(name, error.message, error.hint))
        else:
            typer.echo(f"{name}: valid")
            for warning in resolved.warnings:
                typer.echo(f"  warning: {warning}")
    if problems:
        raise ConfigError(problems)
