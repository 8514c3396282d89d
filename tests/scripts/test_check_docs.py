"""The check of the documents' links."""

from __future__ import annotations

from pathlib import Path

from scripts.check_docs import ROOT, broken_links


def test_broken_links_are_found_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "log.md").write_text("# The `log`: first, second\n## Twice\n## Twice\n")
    (tmp_path / "README.md").write_text(
        "# Top\n[good](docs/log.md) [web](https://example.org/x)\n"
        "[heading](docs/log.md#the-log-first-second) [again](docs/log.md#twice-1) [own](#top)\n"
        "```\n[in code](nowhere.md)\n```\n"
        "[gone](docs/nowhere.md)\n[no heading](docs/log.md#three)\n"
    )
    assert broken_links(tmp_path) == [
        "README.md:7: docs/nowhere.md: there is no such file",
        "README.md:8: docs/log.md#three: there is no such heading",
    ]


def test_the_documents_of_this_project_have_no_broken_link() -> None:
    assert broken_links(ROOT) == []
