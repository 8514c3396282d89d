"""Take out of a text whatever looks like a token or key, before it is written or shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "[hidden]"
_SECRET_NAME = r"(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|credential|auth)"
# `max_tokens`, `min_tokens` and the like count tokens; a secret's name ends in the word.
_NAMED = re.compile(rf"(?i)([\w.-]*{_SECRET_NAME})(\s*[=:]\s*)(?:bearer\s+)?[^\s,;&'\"]+")
_FLAG = re.compile(rf"(?i)--?[\w.-]*{_SECRET_NAME}")
_BEARER = re.compile(r"(?i)\b(bearer)\s+[^\s,;'\"]+")
_URL_LOGIN = re.compile(r"(\w+://)[^\s/@]+@")
_KNOWN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|sk-[\w-]{16,}|"
    r"wandb_v\d+_\w{16,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|"
    r"[0-9a-fA-F]{40})\b"
)
# A git commit has the shape of a W&B key (40 hex digits); its name tells it apart.
_REVISION = re.compile(r"(?i)\b(revision|commit)\b(?:=|\s+)[0-9a-f]{40}$")


def redact(text: str) -> str:
    """``text`` without login parts of URLs, values named like secrets, and strings in a known token's form."""
    if _REVISION.search(text):
        return text
    text = _URL_LOGIN.sub(rf"\1{HIDDEN}@", text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    return _KNOWN.sub(HIDDEN, text)


def redact_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line, argument by argument: the value after a flag named like a secret goes as well."""
    shown: list[str] = []
    hide = False
    for argument in arguments:
        shown.append(HIDDEN if hide else redact(argument))
        hide = _FLAG.fullmatch(argument) is not None
    return shown
