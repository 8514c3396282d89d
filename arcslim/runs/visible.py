"""Text that somebody else wrote (a model, a library), made safe to show: nothing in it acts on the terminal."""

from __future__ import annotations


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with each character that is not seen written as an escape: ``\\x1b``, ``\\u200b``, ``\\n``.

    With ``lines`` a newline stays one. Pass the result to Rich as ``Text(…)``, never as markup.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character, lines) for character in text)


def tail(text: str, width: int) -> str:
    """The last ``width`` characters of ``text`` on one line, white space run together, with an ellipsis where cut."""
    # A runaway completion must not cost time: what is cut away beforehand could not have been shown.
    shown = visible(" ".join(text[-10 * max(width, 1) :].split()))
    return shown if len(shown) <= width else "…" + shown[len(shown) - max(width - 1, 0) :]


def _shown(character: str, lines: bool) -> str:
    # Not printable are controls, formats (text direction, zero width), surrogates, and separators but for the space.
    if character.isprintable() or (lines and character == "\n"):
        return character
    return ascii(character)[1:-1]
