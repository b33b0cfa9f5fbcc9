"""The page about messages has them all, as the code does."""

from __future__ import annotations

import ast
import re

import pytest
from tools.messages import page, passed_on, texts

from moiety.agent.core.journal_events import REASONS
from moiety.model import errors
from moiety.model.errors import ExitCode, MoietyError

HEADING = re.compile(r"^### (\w+)$", re.MULTILINE)


def raised(base: type[MoietyError]) -> set[str]:
    found = set()
    for error in base.__subclasses__():
        if error.__module__.startswith(f"{errors.__name__}."):
            if error.exit_code != MoietyError.exit_code or error is errors.InternalError:
                found.add(error.__name__)
            found |= raised(error)
    return found


def said_by(source: str) -> list[tuple[str, str]]:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return texts.made(call.func.id, call, {})


def test_the_page_is_what_the_code_says() -> None:
    same = page.PAGE.read_text() == page.page()
    assert same, "python tools/messages/page.py writes it anew"


def test_every_error_has_a_chapter_below_its_exit_code_and_says_something() -> None:
    chapters = [each for each in page.page().split("\n## ") if each.startswith("Exit code ")]
    assert [chapter.split("\n")[0] for chapter in chapters] == [
        f"Exit code {code.value}" for code in sorted(ExitCode)
    ]
    told = {name for chapter in chapters for name in HEADING.findall(chapter)}
    assert told == raised(MoietyError)
    for chapter in chapters:
        code = int(chapter.split("\n")[0].rpartition(" ")[2])
        for part in chapter.split("\n### ")[1:]:
            assert getattr(errors, part.split("\n")[0]).exit_code == code
            assert "\n|---|---|\n| `" in part, part


def test_every_event_stands_with_what_to_do() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| .+ \| (.+) \|$", "".join(page.events()), re.MULTILINE
    )
    assert [(name, severity) for name, severity, _ in rows] == [
        (name, told.severity) for name, told in REASONS.items()
    ]
    assert all(advice != "nothing" for _, severity, advice in rows if severity == "warning")


@pytest.mark.parametrize(
    ("source", "what", "hint"),
    [
        ("InvalidSize(text)", "'TEXT' is not a size", "a number with a unit"),
        ("InvalidSize(text, 'is empty')", "'TEXT' is empty", "a number with a unit"),
        ("AgentSilent(problem=f'{x} is gone')", "the agent did not answer: X is gone", "doctor"),
        ("TraceInvalid(path, 0, 'it is empty')", "PATH: it is empty", "--bad report"),
        ("TraceInvalid(path, line, problem, 'x')", "PATH, line LINE: PROBLEM", "x"),
        ("StaticProgram(self.name)", "NAME: it is statically linked", "--no-check"),
        ("PodRefusal(pod, 'it has none', '')", "pod POD: it has none", "moiety explain POD"),
        ("NoAgent(str(at), shared=True)", "no agent of all users runs in AT", "administrator"),
    ],
)
def test_a_call_and_its_constructor_are_read_together(source: str, what: str, hint: str) -> None:
    ((said, tried),) = said_by(source)
    assert said.startswith(what)
    assert hint in tried


def test_what_is_decided_when_it_runs_is_told_either_way() -> None:
    said = [what for what, _ in said_by("NoAgent(folder, shared=is_shared)")]
    assert said == ["no agent of all users runs in FOLDER", "no agent runs in FOLDER"]


def test_a_text_that_is_passed_on_stands_in_full() -> None:
    said = dict(passed_on.in_full("UserLimit", [("PROBLEM (WHERE)", "ask for less")]))
    assert "USER may have no program of the latency class (WHERE)" in said
    assert "PROBLEM" not in "".join(said)
    assert passed_on.in_full("BadArgument", [("PROBLEM", "")]) == [("PROBLEM", "")]
