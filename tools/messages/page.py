"""Writes docs/reference-messages.md anew: page.py, or page.py --check to compare it only.

The page has every message of a kind in a chapter of its own; CHAPTERS names what makes them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from tools.messages import doctor, passed_on, terminal
from tools.messages.texts import said_by_class
from tools.site.reference import attribute_docs, escaped, table

from moiety.agent.core.journal_events import REASONS
from moiety.agent.shim.wait_messages import NOTICES
from moiety.model import errors
from moiety.model.errors import ExitCode, MoietyError
from moiety.wire.layout import Refusal

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "reference-messages.md"
HEAD: Final = """\
# Messages

This page lists what moiety says when something goes wrong, or has to wait. Each message stands
with its cause and with what to do. Words in CAPITALS stand for what differs from case to case.
`python tools/messages/page.py` makes this page from the code.

## Errors

An error is two lines on stderr: what happened, and after `try:` what to do. Its exit code tells a
script what can be done; the numbers are those of `sysexits.h` and of env(1). With
`MOIETY_ERRORS=json` it is one line of JSON, which also names the error's class:

<!-- exit: 64 -->
```console
$ MOIETY_ERRORS=json moiety run --gpu 2 -- true
{"error": "InvalidFraction", "exit_code": 64, "what": "--gpu: '2' is more than a whole GPU", ...
```
"""


def exit_codes() -> Iterator[str]:
    """The numbers, each with a link to its errors."""
    yield "## Exit codes\n"
    rows = [(f"[{code.value}](#{_anchor(code)})", meaning) for code, meaning in _meanings().items()]
    yield table(["exit code", "meaning"], rows)


def of_commands() -> Iterator[str]:
    """Every error that a command can end with, by exit code."""
    said = said_by_class()
    for code, meaning in _meanings().items():
        yield f"## {_title(code)}\n"
        yield f"{meaning[0].upper()}{meaning[1:]}.\n"
        for error in sorted(_errors(MoietyError, code), key=lambda each: each.__name__):
            yield f"### {error.__name__}\n"
            yield f"{escaped(inspect.getdoc(error) or '')}\n"
            usual = "the command's `--help`" if issubclass(error, errors.InvalidValue) else ""
            told = passed_on.in_full(error.__name__, said[error.__name__])
            rows = [(_code(what), escaped(hint or usual)) for what, hint in told]
            yield table(["message", "try"], rows)


def events() -> Iterator[str]:
    """Every reason that an event can have."""
    yield "## Events\n"
    yield (
        "The agent records these [events](events.md). `moiety events` shows them, each with a "
        "message that names the process, the GPU or the file.\n"
    )
    rows = [
        (f"`{name}`", told.severity, escaped(told.meaning), escaped(told.advice) or "nothing")
        for name, told in REASONS.items()
    ]
    yield table(["reason", "severity", "meaning", "what to do"], rows)


def on_terminals() -> Iterator[str]:
    """Every line that a program's stderr can have from moiety."""
    yield "## Messages of programs\n"
    yield (
        "These lines stand on the stderr of a program that shares GPUs, after `moiety:`. "
        "`MOIETY_QUIET=1` turns them off.\n"
    )
    yield "### Notices while a program waits\n"
    yield (
        "Nothing has to be done. `moiety ps` shows the programs that have the GPU. Only "
        "[a terminal](howto-terminal.md) shows these notices, unless `MOIETY_SAY=always` is set.\n"
    )
    rows = [(_code(_capitals(each.text)), each.meaning) for each in NOTICES]
    yield table(["notice", "meaning"], rows)
    yield "### Refused requests\n"
    yield (
        "The agent refused what the program asked for. The program's call returns an error of "
        "CUDA, and `moiety events` has a `Refused` or `BadMessage` event. `moiety ps` "
        "shows which programs use the GPU, and how much memory each has.\n"
    )
    told = attribute_docs(Refusal)
    causes = [(_code(text), escaped(told[code.upper()])) for code, text in terminal.refusals()]
    yield table(["message", "cause"], causes)
    yield "### Warnings\n"
    yield ("The agent sends these about [gangs](howto-gangs.md) and for [the watch](watch.md).\n")
    warnings = [
        (_code(text), escaped(REASONS[reason].meaning), escaped(REASONS[reason].advice))
        for reason, text in terminal.warnings()
    ]
    yield table(["message", "cause", "what to do"], warnings)
    yield "### Messages of the shim\n"
    yield "The library that moiety loads into each program prints these messages itself.\n"
    yield table(["message", "try"], [(_code(a), escaped(b)) for a, b in terminal.of_shim()])


def of_doctor() -> Iterator[str]:
    """Every finding of the doctor that is not ok."""
    yield "## Findings of moiety doctor\n"
    yield (
        "`moiety doctor` prints what it looked at, a level, what it found, and below that what "
        "to do. `bad` keeps programs from sharing; `warn` does not. WHAT and ERROR "
        "stand for an error's own words, which often are [of moiety](#errors).\n"
    )
    rows = [
        (each.about, each.level, _code(each.text), escaped(each.hint)) for each in doctor.findings()
    ]
    yield table(["about", "level", "finding", "what to do"], rows)


CHAPTERS: Final[tuple[Callable[[], Iterator[str]], ...]] = (
    exit_codes,
    of_commands,
    events,
    on_terminals,
    of_doctor,
)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(part for chapter in CHAPTERS for part in chapter())])


def _meanings() -> dict[ExitCode, str]:
    told = attribute_docs(ExitCode)
    return {code: told[code.name] for code in sorted(ExitCode)}


def _title(code: ExitCode) -> str:
    return f"Exit code {code.value}"


def _anchor(code: ExitCode) -> str:
    return _title(code).lower().replace(" ", "-")


def _errors(base: type[MoietyError], code: ExitCode) -> Iterator[type[MoietyError]]:
    """The classes with an exit code; those that only group others have none."""
    for error in base.__subclasses__():
        if not error.__module__.startswith(f"{errors.__name__}."):
            continue
        if error.exit_code == code and (
            code != MoietyError.exit_code or not error.__subclasses__()
        ):
            yield error
        yield from _errors(error, code)


def _capitals(pattern: str) -> str:
    """A pattern of str.format, with its names as PLACEHOLDERS."""
    return re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), pattern)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
