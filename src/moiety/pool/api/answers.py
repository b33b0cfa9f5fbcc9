"""How requests are read and answered: JSON, and errors in the parts that a command shows."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from moiety.model.errors import BadArgument, ExitCode, MoietyError
from moiety.pool.model.records import Problem

T = TypeVar("T")
BODY_MAX: Final = 4 << 20
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


def refusal(error: MoietyError) -> Response:
    """An error as JSON, with the status that fits its exit code."""
    code = int(error.exit_code)
    problem = Problem(type(error).__name__, error.what, error.hint, code)
    return answer(problem, STATUS.get(ExitCode(code), 500))


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


def number_of(request: Request, name: str, default: int | None, most: int) -> int | None:
    """A whole number of the query; raises BadArgument."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 18):
        raise BadArgument(f"{name}={text[:40]} is no number", f"{name}=100, say")
    return min(int(text), most)
