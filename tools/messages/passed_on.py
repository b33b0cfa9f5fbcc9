"""Texts that one function puts together and another one says: each function, and who says them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tools.messages import flow
from tools.messages.texts import is_a_sentence

from moiety.agent.core import rate_limits
from moiety.arbiter.admission import guarantees, user_limits

OF_ERRORS: Final[dict[str, tuple[tuple[ModuleType, str], ...]]] = {
    "ShareTaken": ((guarantees, "refuse_share"),),
    "TooMany": ((rate_limits, "refuse"),),
    "UserLimit": ((user_limits, "refuse"), (user_limits, "_refuse_memory")),
}
"""By class of an error."""
OF_REFUSALS: Final[dict[str, tuple[tuple[ModuleType, str], ...]]] = {
    "full": ((rate_limits, "refuse"),),
    "limit": ((user_limits, "refuse_user_bytes"),),
}
"""By code of a refused request."""


HINTS: Final = {"ShareTaken": "the options of the largest share that can be promised"}
"""By class of an error: what its hint says, where that is put together too."""


def in_full(error: str, said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What an error says, with every text that another function puts together."""
    if error not in OF_ERRORS:
        return said
    found = [each for each in said if "PROBLEM" not in each[0]]
    patterns = [each for each in said if each not in found] or [("PROBLEM", "")]
    found += [
        (what.replace("PROBLEM", text), HINTS.get(error, hint))
        for what, hint in patterns
        for text in texts(OF_ERRORS[error])
    ]
    return list(dict.fromkeys(found))


def texts(sources: tuple[tuple[ModuleType, str], ...]) -> Iterator[str]:
    """Every text that these functions return, alone or as the first of several values."""
    for module, name in sources:
        (function,) = (
            each
            for each in flow.functions(ast.parse(inspect.getsource(module)))
            if each.name == name
        )
        said = {id(told): told for told in map(_told, _returns(function)) if told is not None}
        for node, names in flow.reached(function, {}, lambda each, said=said: id(each) in said):  # type: ignore[misc]
            assert isinstance(node, ast.expr)
            if flow.is_text(node, names):
                yield from (text for text in flow.variants(node, names) if is_a_sentence(text))


def _returns(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def _told(returned: ast.expr) -> ast.expr | None:
    told = returned.elts[0] if isinstance(returned, ast.Tuple) else returned
    return None if isinstance(told, ast.Constant) and not told.value else told
