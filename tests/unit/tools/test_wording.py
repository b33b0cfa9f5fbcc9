"""tools/wording.py: vague words are found where there may be none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location(
    "wording", Path(__file__).resolve().parents[3] / "tools" / "wording.py"
)
assert SPEC is not None
assert SPEC.loader is not None
wording = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wording)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody waits.\n", [(1, "Nobody")]),
        ("It has so\nmany GPUs.\n", [(1, "so many")]),
        ("ok\none of those, for whom\n", [(2, "of those"), (2, "whom")]),
        ("test_that_leaves_nobody_behind\n", []),
        ("the whomever of it\n", []),
    ],
)
def test_vague_words_are_found_as_whole_words_with_their_lines(
    text: str, found: list[tuple[int, str]]
) -> None:
    assert wording.vague_words(text) == found


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "src/moiety/x.py", "native/x.c"])
def test_pages_and_code_may_contain_none(name: str) -> None:
    assert wording.vague_complaints(name, "ok\nwhoever\n") == [
        f'{name}:2: "whoever": name the thing instead'
    ]


@pytest.mark.parametrize("name", ["docs/decisions/0001-x.md", "tests/unit/test_x.py", "Makefile"])
def test_decisions_and_tests_are_exempt(name: str) -> None:
    assert wording.vague_complaints(name, "nobody\n") == []


def test_an_account_is_no_vague_word() -> None:
    assert wording.vague_complaints("src/x.py", 'if user == "nobody":\n') == []
