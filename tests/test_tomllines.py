"""Which line a key stands on, in TOML of every shape."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from arcslim.tomllines import key_lines

DOCUMENT = '''# a comment with [brackets] and = signs
top = "a # b"  # [no.table]
[model]
name = """two
lines = here
"""
list = [
    1, # ]
    "x]",
]
dotted.inner = 3
[ reward . grid ]  # spaced
weight = 1.0
inline = { a = 1, b = "}" }
[reward."quoted key"]
'a.b' = \'\'\'raw \\ text
[not.a.table]\'\'\'
last = """"quoted""""
end = 1
'''


def test_every_shape_of_key_is_found_on_its_line() -> None:
    assert key_lines(DOCUMENT) == {
        ("top",): 2,
        ("model",): 3,
        ("model", "name"): 4,
        ("model", "list"): 7,
        ("model", "dotted"): 11,
        ("model", "dotted", "inner"): 11,
        ("reward",): 12,
        ("reward", "grid"): 12,
        ("reward", "grid", "weight"): 13,
        ("reward", "grid", "inline"): 14,
        ("reward", "quoted key"): 15,
        ("reward", "quoted key", "a.b"): 16,
        ("reward", "quoted key", "last"): 18,
        ("reward", "quoted key", "end"): 19,
    }


@given(st.text())
def test_whatever_is_valid_toml_is_scanned_and_every_top_level_key_has_a_line(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        data = {}
    lines = key_lines(text)  # must end on any text
    bare = {key for key in data if key.replace("_", "").replace("-", "").isalnum()}
    assert {(key,) for key in bare} <= set(lines)
