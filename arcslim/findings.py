"""What checks over several knobs find: refusals and doubts, each with the place of the knobs that say so."""

from __future__ import annotations

from collections.abc import Mapping

from arcslim.errors import Problem


class Findings:
    """Collects; ``origins`` is where each knob was set, by its dotted name."""

    def __init__(self, origins: Mapping[str, str]) -> None:
        self.origins = origins
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def _problem(self, keys: tuple[str, ...], what: str, hint: str) -> Problem:
        # Where a knob has its default there is no place to point at; the message names it all the same.
        places = dict.fromkeys(self.origins[key] for key in keys if self.origins[key] != "default")
        return Problem(", ".join(places) or "defaults", what, hint)

    def refuse(self, wrong: bool, keys: tuple[str, ...], what: str, hint: str) -> None:
        if wrong:
            self.problems.append(self._problem(keys, what, hint))

    def warn(self, doubtful: bool, keys: tuple[str, ...], what: str, hint: str) -> None:
        if doubtful:
            self.warnings.append(self._problem(keys, what, hint))
