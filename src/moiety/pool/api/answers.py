"""How requests are read and answered: JSON, and errors in the parts that a command shows."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import BadArgument, ExitCode, MoietyError
from moiety.pool.model.records import Problem
from moiety.pool.model.states import WorkState

T = TypeVar("T")
BODY_MAX: Final = 4 << 20
NUMBER_MAX: Final = 10**18
STATUS: Final = {
    ExitCode.USAGE: 400,
    ExitCode.BAD_DATA: 400,
    ExitCode.NO_INPUT: 404,
    ExitCode.TEMPORARY: 409,
    ExitCode.NO_PERMISSION: 403,
    ExitCode.UNAVAILABLE: 503,
}
"""By exit code: the status of an answer; 500 for all others."""


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refusal(error: MoietyError, status: int | None = None) -> Response:
    """An error as JSON, with this status, or the one that fits its exit code."""
    code = int(error.exit_code)
    problem = Problem(type(error).__name__, error.what, error.hint, code)
    return answer(problem, status or STATUS.get(ExitCode(code), 500))


async def body_of(request: Request, kind: type[T]) -> T:
    """The body of a request; raises BadArgument for one that makes no sense or is too large."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > BODY_MAX:
            raise BadArgument("the request has more than 4 MiB", "a file for large scripts")
    try:
        return msgspec.json.decode(bytes(found), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadArgument(f"the request makes no sense: {error}", "`moiety --help`") from None


def number(text: str) -> int:
    """A number that a client says; raises BadArgument."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadArgument(f"{text[:40]!r} is no number of an event", "the id of the last event")
    return int(text)


def query_of(request: Request, kind: type[T]) -> T:
    """The parameters of a request; raises BadArgument for values that make no sense.

    Parameters that the struct does not have are left out.
    """
    try:
        found: T = msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadArgument(f"the query makes no sense: {error}", "docs/reference-api.md") from None
    numbers = (value for value in msgspec.structs.asdict(found).values() if type(value) is int)  # type: ignore[arg-type]
    if any(not 0 <= value <= NUMBER_MAX for value in numbers):
        raise BadArgument("a number of the query is too small or too large", "from 0 to 10^18")
    return found


def states_of(text: str) -> list[str]:
    """The states that a query names, with commas between them; raises BadArgument."""
    states = [state for state in text.split(",") if state]
    if unknown := set(states) - set(map(str, WorkState)):
        raise BadArgument(f"{min(unknown)[:40]} is no state", ", ".join(map(str, WorkState)))
    return states
