"""Checks that every relative link and anchor in the Markdown files leads somewhere: `python scripts/check_docs.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def documents(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("benchmarks/**/*.md")])


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", LINK.sub("", heading).lower() if heading.startswith("[") else heading.lower())
        slug = plain.replace(" ", "-")
        times = found.get(slug, 0)
        found[slug] = times + 1
        names.add(slug if times == 0 else f"{slug}-{times}")
    return names


def broken_links(root: Path) -> list[str]:
    """``FILE:LINE: TARGET: what is wrong`` for each link within ``root`` that leads nowhere."""
    found = []
    for document in documents(root):
        text = document.read_text(encoding="utf-8")
        blanked = FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        for link in LINK.finditer(blanked):
            target = link[1]
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (document.parent / name).resolve() if name else document
            place = f"{document.relative_to(root)}:{blanked.count(chr(10), 0, link.start()) + 1}: {target}"
            if not file.exists():
                found.append(f"{place}: there is no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                found.append(f"{place}: there is no such heading")
    return found


def main() -> int:
    found = broken_links(ROOT)
    print("\n".join(found) or f"{len(documents(ROOT))} documents, every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
