"""The texts that a function can put together: each path through it, read as syntax.

A local name has the text that was last assigned to it on a path. `a if b else c` is read both ways.
Anything that is no text becomes a PLACEHOLDER, as in texts.py.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tools.messages.texts import Names, value

Wanted = Callable[[ast.AST], bool]
Found = tuple[ast.AST, Names]
ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Every function and method of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def reached(function: ast.FunctionDef, names: Names, is_wanted: Wanted) -> list[Found]:
    """The nodes that are wanted, each with the texts that its function may know there."""
    found: list[Found] = []
    _walk(function.body, [names], is_wanted, found)
    return found


def variants(node: ast.expr, names: Names) -> list[str]:
    """Every text that an expression can be."""
    return [_tidy(str(value(each, names) or "")) for each in _decided(node)]


def _tidy(text: str) -> str:
    """GPU GPU and GPU INDEX say the same: the number of a GPU."""
    return text.replace("GPU GPU", "GPU N").replace("GPU INDEX", "GPU N")


def _decided(node: ast.expr) -> Iterator[ast.expr]:
    """An expression without conditions: once for each way in which they can be decided."""
    condition = next((each for each in ast.walk(node) if isinstance(each, ast.IfExp)), None)
    if condition is None:
        yield node
        return
    for branch in (condition.body, condition.orelse):
        yield from _decided(copy.deepcopy(node, {id(condition): branch}))


def is_text(node: ast.expr, names: Names) -> bool:
    """Whether an expression is put together from texts that are known."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.IfExp():
            return is_text(node.body, names) and is_text(node.orelse, names)
        case ast.BinOp(op=ast.Add()):
            return is_text(node.left, names) and is_text(node.right, names)
    return False


def _assigned(name: str, told: ast.expr, states: Iterable[Names]) -> list[Names]:
    after: list[Names] = []
    for names in states:
        rest = {key: text for key, text in names.items() if key != name}
        if is_text(told, names):
            after += [rest | {name: text} for text in variants(told, names)]
        else:
            after.append(rest)
    return after


def _different(states: Iterable[Names]) -> list[Names]:
    return list({frozenset(names.items()): names for names in states}.values())


def _walk(
    body: list[ast.stmt], states: list[Names], is_wanted: Wanted, found: list[Found]
) -> list[Names]:
    """What may be known after a body; what is wanted in it is added to `found`."""

    def inside(part: list[ast.stmt], before: list[Names]) -> list[Names]:
        return _walk(part, before, is_wanted, found)

    for statement in body:
        states = _different(states)
        for node in _own(statement):
            if is_wanted(node):
                found += [(node, names) for names in states]
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=told):
                states = _assigned(name, told, states)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=ast.Add(), value=more):
                whole = ast.BinOp(ast.Name(target.id, ast.Load()), ast.Add(), more)
                states = _assigned(name, whole, states)
            case ast.If():
                states = inside(statement.body, states) + inside(statement.orelse, states)
            case ast.For() | ast.While():
                states = states + inside(statement.body, states)
            case ast.With():
                states = inside(statement.body, states)
            case ast.Match():
                states = states + [
                    names for case in statement.cases for names in inside(case.body, states)
                ]
            case ast.Try():
                failed = [n for each in statement.handlers for n in inside(each.body, states)]
                done = inside(statement.orelse, inside(statement.body, states))
                states = inside(statement.finalbody, done + failed)
        if isinstance(statement, ENDS):
            return []
    return states


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement without those of the statements inside."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from ast.walk(child)
        elif isinstance(child, ast.withitem):
            yield from ast.walk(child.context_expr)
