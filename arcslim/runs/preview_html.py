"""A preview as one HTML file that needs nothing beside itself: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from arcslim.prompts.pieces import Example, Piece, Role
from arcslim.runs.grid_view import PALETTE
from arcslim.runs.visible import visible
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Task

SAID: dict[Role, str] = {"prompt": "read, no loss", "prefill": "prefill: ends the prompt", "trained": "gets loss"}
SIDE, LARGEST = 14, 260  # pixels of a cell, and of a grid's longer side
_STYLE = """
:root{--ink:#222;--faint:#777;--line:#ddd;--page:#fff;--prefill:#ffd27f;--trained:#b5e3c8}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1100px;margin:2em auto;
padding:0 1em;overflow-wrap:anywhere}
h1{font-size:1.4em}h2{font-size:1.1em;margin:2.2em 0 .2em;border-top:1px solid var(--line);padding-top:1em}
.facts,.notes{color:var(--faint);margin:.2em 0}
.task{display:flex;flex-wrap:wrap;gap:18px;margin:.8em 0}
.task figure{margin:0}figcaption{font-size:12px;color:var(--faint)}
.task svg{display:block;margin-bottom:6px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--line);padding:.8em;font:12.5px/1.6 monospace}
pre span{border-bottom:1px solid transparent}pre span:hover{border-color:var(--ink)}
.t:nth-child(even){background:#f4f4f4}
.prefill,.t.prefill{background:var(--prefill)}.trained,.t.trained{background:var(--trained)}
.t.trained:nth-child(even){background:#cdeedb}
.key span{padding:0 .5em;margin-right:.8em;border:1px solid var(--line)}
.follows{color:var(--faint);font-style:italic}
.ids{font:12px/1.6 monospace;overflow-wrap:anywhere}
"""


def to_html(examples: Sequence[Example], title: str, notes: Sequence[str]) -> str:
    """The whole document. Every text in it is escaped; characters that cannot be seen are written out."""
    key = " ".join(f'<span class="{role}">{words}</span>' for role, words in SAID.items())
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        # Whatever a row holds: this page loads nothing and runs nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><h1>{_text(title)}</h1>",
        f'<p class="key">{key} Point at a token for its id.</p>',
        *(f'<p class="notes">{_text(note)}</p>' for note in notes),
        *(part for example in examples for part in _example(example)),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _example(example: Example) -> Iterator[str]:
    counts = [f"{number} tokens: {SAID[role]}" for role in SAID if (number := example.count(role))]
    yield f'<section><h2>{_text(example.name)} <span class="facts">{_text(example.source)}</span></h2>'
    yield f'<p class="facts">{_text(" · ".join((*example.facts, *counts)))}</p>'
    if example.task is not None:
        yield _task(example.task)
    follows = f'<span class="follows">{_text(example.follows)}</span>' if example.follows else ""
    yield f"<pre>{''.join(map(_piece, example.pieces))}{follows}</pre>"
    yield f'<details><summary>{len(example.ids)} token ids</summary><p class="ids">'
    yield " ".join(f'<span class="{piece.role}">{" ".join(map(str, piece.ids))}</span>' for piece in example.pieces)
    yield "</p></details></section>"


def _piece(piece: Piece) -> str:
    ids = " ".join(map(str, piece.ids))
    shown = _text(piece.text, lines=True).replace("\n", "⏎\n" if piece.role != "prompt" else "\n")
    return f'<span class="t {piece.role}" title="{ids}">{shown}</span>'


def _task(task: Task) -> str:
    shown = [(f"example {number}", pair) for number, pair in enumerate(task.train, 1)]
    shown += [("test", pair) for pair in task.test]
    figures = [
        f"<figure><figcaption>{label}</figcaption>{_grid(pair.input, f'{label}, input')}"
        + (_grid(pair.output, f"{label}, output") if pair.output is not None else "<i>not known</i>")
        + "</figure>"
        for label, pair in shown
    ]
    return f'<div class="task">{"".join(figures)}</div>'


def _grid(grid: Grid, label: str) -> str:
    side = min(SIDE, LARGEST // max(grid.shape))
    width, height = grid.width * side, grid.height * side
    squares = "".join(
        f'<rect x="{column * side}" y="{row * side}" width="{side}" height="{side}" fill="{PALETTE[cell]}"/>'
        for row, cells in enumerate(grid.rows())
        for column, cell in enumerate(cells)
    )
    return (
        f'<svg role="img" aria-label="{label}, {grid.height} by {grid.width}" stroke="#777" stroke-width="0.5" '
        f'width="{width + 1}" height="{height + 1}" viewBox="-0.5 -0.5 {width + 1} {height + 1}">{squares}</svg>'
    )


def _text(text: str, *, lines: bool = False) -> str:
    return escape(visible(text, lines=lines))
