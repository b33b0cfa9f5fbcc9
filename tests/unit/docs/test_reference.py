"""The reference pages have all that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.site import build, reference

from moiety.cli.main import COMMANDS
from moiety.model.errors import ExitCode
from moiety.pool.model.states import ENDS, FOLLOWS, WorkState

DOCS = Path(__file__).resolve().parents[3] / "docs"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")


def test_every_command_is_there_with_its_options() -> None:
    text = reference.commands()
    for name in COMMANDS:
        assert f"## moiety {name}\n" in text
    assert "### moiety container spec\n" in text
    assert "`--memory-limit SIZE`" in text
    assert "moiety container hook" not in text, "what only runtimes call is not for people"


def test_lists_in_a_help_text_are_blocks() -> None:
    lines = "  in the environment       MOIETY_RUN_GPU=0.5\n"
    _, _, after = reference.commands().partition("\n```text\nSettings stand, ")
    assert lines in after.partition("```")[0]


def test_every_exit_code_is_there_once() -> None:
    codes = [int(line.split("|")[1]) for line in reference.exit_codes().splitlines()[2:]]
    assert codes == sorted(ExitCode)


def test_every_state_of_the_pool_is_there_with_those_that_follow() -> None:
    section = (DOCS / "reference-pool.md").read_text().partition("## States")[2].partition("## ")[0]
    rows = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("| `")]
    assert [row[0].strip(" `") for row in rows] == [str(state) for state in WorkState]
    for state, (_, _, after) in zip(WorkState, rows, strict=True):
        named = {WorkState(name) for name in re.findall("`([^`]+)`", after)}
        ends = ENDS if "an end" in after else frozenset()
        assert named | ends == FOLLOWS.get(state, frozenset()), state


def test_pages_that_no_list_names_are_found() -> None:
    index = "```{toctree}\n:glob:\n\nhowto-*\ndesign\n```\n"
    pages = ["howto-limits", "design", "security", "decisions/0001-a"]
    assert build.listed(index, pages) == {"howto-limits", "design"}


def test_links_out_of_the_pages_become_names() -> None:
    text = build.complete("[errors](../src/moiety/model/errors/base.py#L3), [why](../design.md)")
    assert text == "errors (`src/moiety/model/errors/base.py`), [why](../design.md)"


@pytest.mark.parametrize(
    "page", sorted([*DOCS.rglob("*.md"), DOCS.parent / "README.md"]), ids=lambda page: page.stem
)
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
