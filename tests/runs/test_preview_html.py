"""The HTML of a preview is one file that loads and runs nothing, whatever the rows hold."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from arcslim.prompts.pieces import Example, Piece
from arcslim.runs.grid_view import PALETTE
from arcslim.runs.preview_html import to_html
from arcslim.tasks.grid import Grid
from arcslim.tasks.task import Pair, Task

VOID = {"meta", "rect", "br"}
TASK = Task("t", "made", "t", (Pair(Grid([[1, 2, 3]]), Grid([[3], [2]])),), (Pair(Grid([[0] * 30] * 30), None),))


class Reader(HTMLParser):
    """Holds that every tag is closed, and collects the tags, the attributes and the text of ``pre``."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rendered = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.rendered += data


def read(example: Example, *notes: str) -> Reader:
    reader = Reader()
    reader.feed(to_html([example], example.name, notes))
    reader.close()
    assert reader.open == []
    return reader


def example(text: str, name: str = "row") -> Example:
    pieces = (Piece(text, (1, 2), "prompt"), Piece("<think>\n", (3,), "prefill"), Piece("so", (4,), "trained"))
    return Example(name, "made", pieces, TASK, ("4 tokens",), "the policy writes on")


def test_tokens_grids_and_counts_are_there() -> None:
    reader = read(example("Solve"))
    titles = [value for name, value in reader.attributes if name == "title"]
    assert titles == ["1 2", "3", "4"]
    assert reader.tags.count("rect") == 3 + 2 + 900
    fills = {value for name, value in reader.attributes if name == "fill"}
    assert fills == {PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[3]}
    assert reader.rendered == "Solve<think>⏎\nsothe policy writes on"
    page = to_html([example("Solve")], "title", ())
    assert "1 tokens: gets loss" in page and "not known" in page


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=60))
def test_hostile_text_stays_text(text: str) -> None:
    hostile = f"{text}<script>alert(1)</script><img src=x onerror=y>&lt;\x1b[31m\u202e"
    reader = read(example(hostile, name=hostile), hostile)
    assert not {"script", "img", "link", "iframe"} & set(reader.tags)
    assert not {"src", "href", "onerror"} & {name for name, _ in reader.attributes}
    assert "<script>alert(1)</script>" in reader.rendered
    assert "\x1b" not in reader.rendered and "\u202e" not in reader.rendered
