"""What the pages tell people to type works, and prints what they show."""

from __future__ import annotations

import contextlib
import grp
import re
from pathlib import Path

import pytest

from moiety.config.files import read
from moiety.config.load import problems
from moiety.config.places import Kind
from moiety.testing.waiting import until
from tests.docs.pages import ROOT, Command, all_pages, blocks, missing
from tests.docs.session import Session
from tests.support.native import native_dir

PAGES = all_pages()
TYPED = [
    page
    for page in PAGES
    if any(b.language == "console" and "not run" not in b.special for b in blocks(page))
]
SET = [
    page
    for page in sorted((ROOT / "docs").glob("*.md"))
    if any(b.language in ("toml", "ini") for b in blocks(page))
]
"""Pages with files of settings."""

LOOKS = re.compile(r"moiety (queue|ps|status|explain)\b[^|;&]*")
"""Commands that show what is so now: what was begun before may take a moment."""


def typed(session: Session, command: Command) -> tuple[int, str]:
    """A command's exit code and what it printed; one that looks is typed until it shows all."""
    found = [session.type(command.text)]

    def shows() -> bool:
        if missing(command.shown, found[-1][1]) is not None:
            found.append(session.type(command.text))
        return missing(command.shown, found[-1][1]) is None

    if LOOKS.fullmatch(command.text):
        with contextlib.suppress(AssertionError):  # the caller says what is missing
            until(shows, "it shows what the page shows")
    return found[-1]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_what_a_page_says_works(page: Path, tmp_path: Path) -> None:
    if native_dir() is None:
        pytest.skip("the native libraries are not built: make test builds them")
    with Session(tmp_path) as session:
        for block in blocks(page):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            if name := block.special.get("file"):
                (session.folder / name).write_text("\n".join(block.content) + "\n")
            if block.language != "console" or "not run" in block.special:
                continue
            for command in block.commands():
                code, printed = typed(session, command)
                assert code == command.exit_code, f"{where}: {command.text}\n{printed}"
                lost = missing(command.shown, printed)
                assert lost is None, f"{where}: {command.text}\nno line {lost!r} in\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_marked_as_such(page: Path) -> None:
    for block in blocks(page):
        if block.language == "console":
            assert block.commands(), f"{page.name}:{block.line}: no line begins with `$ `"
            assert block.content[0].startswith("$ "), f"{page.name}:{block.line}"


@pytest.mark.parametrize("page", SET, ids=lambda page: page.stem)
def test_settings_on_a_page_can_be_read(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grp, "getgrnam", lambda _: grp.getgrgid(0))  # each group is there
    for block in blocks(page):
        assert block.language != "ini", f"{page.name}:{block.line}: files of settings are TOML"
        if block.language == "toml":
            file = tmp_path / f"line-{block.line}.toml"
            file.write_text("\n".join(block.content) + "\n")
            found = read(file, Kind.NAMED)
            assert found is not None
            assert [problem.what for problem in problems(found)] == []


def test_a_page_that_shows_what_is_not_printed_is_found() -> None:
    printed = "TENANT   PID  PROGRAM\n     1  4711  first\n"
    assert missing(["TENANT ... PROGRAM", "... first"], printed) is None
    assert missing(["TENANT PID PROGRAM", "...", "1 4711 first"], printed) is None
    assert missing(["... second"], printed) == "... second"
    assert missing(["... first", "TENANT ..."], printed) == "TENANT ..."


def test_blocks_are_read_with_their_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- exit: 3 -->\n```console\n$ for i in 1; do\n>   true\n> done\n$ false\nsaid\n```\n"
        "<!-- file: a.py -->\n\n```python\nx\n```\n"
    )
    first, second = blocks(page)
    one, two = first.commands()
    assert one.text == "for i in 1; do\n  true\ndone"
    assert (two.text, two.shown, two.exit_code, one.exit_code) == ("false", ["said"], 3, 0)
    assert second.special == {}, "a comment is of the block directly below"
