"""``arcslim data check``: malformed files and rows, duplicates, and held-out tasks in the training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from arcslim.cli.data_options import HeldOut, Specs, resolve
from arcslim.cli.options import Preset, Seed, Sets
from arcslim.errors import DataError, InputError
from arcslim.runs.visible import visible

SHOWN = 10  # findings of a kind that are printed, unless all are asked for
KINDS = {"malformed": "malformed", "duplicate": "duplicates", "leak": "leaks"}


def check(
    specs: Specs = None,
    held_out: HeldOut = None,
    every: Annotated[bool, typer.Option("--all", help=f"print every finding, not the first {SHOWN} of a kind")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="exit code 1 where anything is found")] = False,
    preset: Preset = None,
    seed: Seed = None,
    sets: Sets = None,
) -> None:
    """Check data by content: malformed rows with their places, duplicates, held-out tasks in the training data.

    A task is the same under another id, in another order, turned, mirrored or recoloured.
    """
    from arcslim.tasks.audit import Audit, Finding
    from arcslim.tasks.reading import READERS
    from arcslim.tasks.spec import or_hub, parse_spec

    config = resolve(specs, preset, None, seed, sets, {"data.keep_out": held_out or None}).config
    console = Console(highlight=False, emoji=False)
    audit, found = Audit(config.data.pairs), Counter[str]()

    def tell(findings: Iterator[Finding]) -> None:
        for finding in findings:
            found[finding.what] += 1
            if every or found[finding.what] <= SHOWN:
                line = f"{finding.what}: {visible(finding.place)}: {visible(finding.words)}"
                console.print(line, markup=False, soft_wrap=True)

    for text in config.data.keep_out:
        spec = parse_spec(text)
        if spec.kind not in READERS:
            raise InputError(f"--held-out {text}: no tasks that can be read", "give files, folders or ARC-1")
        tell(audit.hold(spec))
    specs_to_look_at = [or_hub(parse_spec(text)) for text in config.data.sources]
    for spec in specs_to_look_at:
        audit.hold_brought(spec)
    for spec in specs_to_look_at:
        tell(audit.look(spec))
    for what, number in found.items():
        if number > SHOWN and not every:
            console.print(f"… and {number - SHOWN} more {KINDS[what]}: --all prints them", style="dim")
    _sum_up(console, audit)
    if not any(looked.usable or looked.drawn for looked in audit.looked):
        raise DataError("nothing usable is left", "mend what is listed, or give another source")
    if strict and found:
        raise typer.Exit(1)


def _sum_up(console: Console, audit: object) -> None:
    from arcslim.cli.dry_run import count_lines
    from arcslim.tasks.audit import Audit

    assert isinstance(audit, Audit)
    counts = {looked.name: looked.as_dict() for looked in audit.looked if not looked.drawn}
    for line in count_lines(counts):
        console.print(line, markup=False, soft_wrap=True)
    for looked in audit.looked:
        if looked.drawn:
            words = "generated: leaks and duplicates are passed over while it is drawn from"
            console.print(f"{looked.name}: {words}", markup=False, soft_wrap=True)
    if len(audit.held):
        leaks = sum(looked.leaks for looked in audit.looked)
        console.print(f"held out: {len(audit.held)} tasks; {leaks} leaks, which training leaves out")
