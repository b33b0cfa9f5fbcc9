"""tools/wording.py: vague words are found, and their ceilings only go down."""

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


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_a_page_may_contain_none_even_with_a_ceiling(name: str) -> None:
    (said,) = wording.vague_complaints({name: "ok\nwhoever\n"}, {name: 5})
    assert said.startswith(f"{name}:2: ")


@pytest.mark.parametrize("name", ["docs/decisions/0001-x.md", "tests/unit/test_x.py", "Makefile"])
def test_decisions_and_tests_are_exempt(name: str) -> None:
    assert wording.vague_complaints({name: "nobody\n"}, {}) == []


@pytest.mark.parametrize(
    "name", ["src/moiety/x.py", "native/shim/x.c", "docs/reference-messages.md"]
)
def test_code_has_a_ceiling_and_each_line_is_named_above_it(name: str) -> None:
    text = "nobody\n\nsomebody\n"
    assert wording.vague_complaints({name: text}, {name: 2}) == []
    said = wording.vague_complaints({name: text}, {name: 1})
    assert [line.partition(": ")[0] for line in said] == [f"{name}:1", f"{name}:3"]
    assert "2 in this file, 1 allowed" in said[0]
    assert len(wording.vague_complaints({name: text}, {})) == 2


def test_ceilings_are_lowered_and_follow_a_file_that_moved() -> None:
    texts = {"src/a.py": "nobody\n", "src/new.py": "whom\n", "src/clean.py": "fine\n"}
    before = {"src/a.py": 3, "src/old.py": 1, "src/clean.py": 1}
    assert wording.lowered(texts, before) == {"src/a.py": 1, "src/new.py": 1}


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"src/a.py": "nobody nobody\n"}, "src/a.py"),
        ({"src/a.py": "nobody\n", "src/b.py": "whom\n"}, "src/b.py"),
    ],
)
def test_no_ceiling_is_raised(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        wording.lowered(texts, {"src/a.py": 1})
