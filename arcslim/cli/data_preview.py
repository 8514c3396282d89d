"""``arcslim data preview``: exactly what will be trained on, in the terminal, as HTML and as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from arcslim.cli.data_options import Specs, resolve
from arcslim.cli.options import Model, Preset, Seed, Sets
from arcslim.errors import InputError
from arcslim.prompts.pieces import Example, Piece, Role
from arcslim.runs.grid_picture import Strip, draw_strips
from arcslim.runs.grid_view import GAP, Panel, draw_panels
from arcslim.runs.preview_html import to_html
from arcslim.runs.visible import visible
from arcslim.runs.writing import write_text_atomic

STYLES: dict[Role, str] = {"prompt": "", "prefill": "black on #ffd27f", "trained": "black on #b5e3c8"}
BRACKETS: dict[Role, tuple[str, str]] = {"prompt": ("", ""), "prefill": ("⟦", "⟧"), "trained": ("⟪", "⟫")}
SAID: dict[Role, str] = {"prompt": "read, no loss", "prefill": "the prefill", "trained": "gets loss"}
SOME_IDS = 12  # shown from either end, unless all are asked for
GRID_LINES = 31  # a caption, and the largest grid
NARROWEST = 13  # columns of a grid: `test in 30×30` fits


def preview(
    specs: Specs = None,
    recipe: Annotated[Literal["grpo", "sft"], typer.Option("--recipe", help="whose training")] = "grpo",
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="how many prompts or rows")] = 3,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write them to one HTML file")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="DIR", help="draw each to a picture there")] = None,
    all_ids: Annotated[bool, typer.Option("--ids", help="print every token id, not the first and last few")] = False,
    preset: Preset = None,
    model: Model = None,
    seed: Seed = None,
    sets: Sets = None,
) -> None:
    """Show exactly what will be trained on: rendered prompts, their prefill, what gets loss, the token ids."""
    from arcslim.cli.dry_run import count_lines, tokenizer_or_stand_in
    from arcslim.recipes.preview import preview as of_training

    config = resolve(specs, preset, model, seed, sets, recipe=recipe).config
    tokenizer, notes = tokenizer_or_stand_in(config)
    made = of_training(config, tokenizer, recipe, number)
    said = [*count_lines(made.counts), *made.notes, *notes]
    console = Console(highlight=False, emoji=False)
    for example in made.examples:
        for line in _shown(example, console, all_ids):
            console.print(line)
    for line_said in said:
        console.print(line_said, style="dim", markup=False, soft_wrap=True)
    title = f"arcslim {recipe}: {', '.join(config.data.sources)}"
    if html is not None:
        _in_folder(html)
        write_text_atomic(html, to_html(made.examples, title, said))
        console.print(f"wrote {html}", markup=False, soft_wrap=True)
    if png is not None:
        _draw(made.examples, png)
        console.print(f"drew {len(made.examples)} pictures into {png}", markup=False, soft_wrap=True)


def _draw(examples: Sequence[Example], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}") from error
    for number, example in enumerate(examples, 1):
        name = re.sub(r"[^\w.-]+", "_", example.name)[-60:]
        caption = " · ".join((example.name, example.source, *example.facts))
        draw_strips([Strip(caption, example.task, example.pieces)], folder / f"{number:02}-{name}.png")


def _in_folder(file: Path) -> None:
    if not file.resolve().parent.is_dir():
        raise InputError(f"{file} cannot be written: there is no folder {file.parent}", "make it first")


def _shown(example: Example, console: Console, all_ids: bool) -> Iterator[Text]:
    facts = " · ".join((example.source, *example.facts))
    yield Text.assemble((f"\n{visible(example.name)}", "bold"), f"  {visible(facts)}")
    yield from _grids(example, console)
    yield _text(example.pieces, colour=console.color_system is not None)
    if example.follows:
        yield Text(example.follows, style="italic dim")
    yield _ids(example, all_ids)


def _grids(example: Example, console: Console) -> list[Text]:
    task = example.task
    if task is None:
        return []
    panels = []
    pairs = [(f"{number}", pair) for number, pair in enumerate(task.train, 1)] + [("test", task.test[0])]
    for label, pair in pairs:
        panels.append(Panel(f"{label} in", pair.input.rows()))
        panels.append(Panel("out", None if pair.output is None else pair.output.rows(), "not known"))
    colour = console.color_system is not None
    room = max(NARROWEST, *(panel.width for panel in panels)) + GAP
    side_by_side = max((console.width + GAP) // room // 2 * 2, 2)  # an output stays beside its input
    lines: list[Text] = []
    for start in range(0, len(panels), side_by_side):
        lines += draw_panels(panels[start : start + side_by_side], console.width, GRID_LINES, colour=colour)
    return lines


def _text(pieces: Sequence[Piece], *, colour: bool) -> Text:
    """The text as it is trained on; without colours the parts stand in brackets."""
    text = Text()
    before: Role = "prompt"
    for piece in pieces:
        if not colour and piece.role != before:
            text.append(BRACKETS[before][1] + BRACKETS[piece.role][0])
        before = piece.role
        shown = visible(piece.text, lines=True)
        text.append(shown if piece.role == "prompt" else shown.replace("\n", "⏎\n"), style=STYLES[piece.role])
    return text if colour else text.append(BRACKETS[before][1])


def _ids(example: Example, all_ids: bool) -> Text:
    text = Text(f"{len(example.ids)} token ids")
    for role, words in SAID.items():
        ids = [token for piece in example.pieces if piece.role == role for token in piece.ids]
        if not ids:
            continue
        some = ids
        if not all_ids and len(ids) > 2 * SOME_IDS:
            some = [*ids[:SOME_IDS], *ids[-SOME_IDS:]]
        words_of_ids = [str(token) for token in some]
        if len(some) < len(ids):
            words_of_ids.insert(SOME_IDS, "…")
        text.append(f"\n  {words}: {len(ids)}", style=STYLES[role]).append("  " + " ".join(words_of_ids))
    return text
