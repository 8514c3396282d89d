"""Which line of a TOML file a key stands on: the standard library's parser does not say."""

from __future__ import annotations

Path = tuple[str, ...]


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every key and table header of ``text``, which should be valid TOML.

    On other text it ends all the same, and means nothing.
    Keys of an inline table have no entry of their own: they stand on their parent's line. One pass, linear time.
    """
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.lines: dict[Path, int] = {}

    def run(self) -> dict[Path, int]:
        table: Path = ()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\n":
                self._step()
            elif char == "#":
                self._skip_comment()
            elif char == "[":
                while self._peek() == "[":
                    self._step()
                table = self._key(until="]")
                self._note(table)
                while self._peek() == "]":
                    self._step()
            else:
                path = table + self._key(until="=")
                self._note(path)
                self._step()
                self._skip_value()
        return self.lines

    def _note(self, path: Path) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self.line)

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _step(self) -> None:
        self.line += self._peek() == "\n"
        self.at += 1

    def _skip_comment(self) -> None:
        while self.at < len(self.text) and self.text[self.at] != "\n":
            self.at += 1

    def _key(self, until: str) -> Path:
        """The parts of a dotted key, bare or quoted, up to ``until`` (which stays)."""
        parts: list[str] = []
        bare = ""
        while self.at < len(self.text) and (char := self.text[self.at]) != until:
            if char in "\"'":
                parts.append(self._string())
            elif char == ".":
                parts.extend([bare] if bare else [])
                bare = ""
                self._step()
            else:
                bare += "" if char in " \t" else char
                self._step()
        return tuple([*parts, bare] if bare else parts)

    def _string(self) -> str:
        """Step over a string of any of the four kinds; its text, with escapes left as they are."""
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        for _ in mark:
            self._step()
        start = self.at
        while self.at < len(self.text) and not self.text.startswith(mark, self.at):
            if quote == '"' and self.text[self.at] == "\\":
                self._step()
            self._step()
        inside = self.text[start : self.at]
        for _ in mark:
            self._step()
        # A multi-line string may end in one or two quotes of its own: """"quoted"""" closes at the last three.
        while len(mark) == 3 and self._peek() == quote:
            self._step()
        return inside

    def _skip_value(self) -> None:
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n" and depth == 0:
                return
            if char in "\"'":
                self._string()
            elif char == "#":
                self._skip_comment()
            else:
                depth += (char in "[{") - (char in "]}")
                self._step()
