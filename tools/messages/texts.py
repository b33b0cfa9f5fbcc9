"""What errors say, read from the code: each place that makes one, as a pattern with PLACEHOLDERS.

A constructor puts a message together from its arguments; the call has the arguments. Both are read
as syntax, so that the page about messages has what is said in every place, and nothing is made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from moiety.model import errors

PACKAGE: Final = Path(errors.__file__).resolve().parents[2]
BASE: Final = "MoietyError"
LEFT_OUT: Final = ("model/errors", "testing")
"""The errors themselves, and what is no part of the product."""

Value = str | bool | None
"""A pattern, or a constant that decides which branch is taken."""
Names = Mapping[str, Value]
NOT_NAMES: Final = frozenset(
    "getattr len list map max min round self sorted str tuple type".split()  # noqa: SIM905
)
"""What says nothing about a value."""


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """The modules below a folder, by their path in the package."""
    for file in sorted(folder.rglob("*.py")):
        yield str(file.relative_to(PACKAGE)), ast.parse(file.read_text())


CLASSES: Final = {
    node.name: node
    for _, tree in trees(PACKAGE / "model" / "errors")
    for node in tree.body
    if isinstance(node, ast.ClassDef) and node.name != "ExitCode"
}


def said_by_class() -> dict[str, list[tuple[str, str]]]:
    """By the name of its class, what each error says: what happened, and what to try."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in CLASSES}
    for path, tree in trees(PACKAGE):
        if not path.startswith(LEFT_OUT):
            constants = _constants(tree)
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and (name := _called(call)):
                    found[name] += made(name, call, constants)
    for name, said in found.items():
        usual = [] if name == BASE else constructed(name, [], {})
        found[name] = sorted({each for each in said if is_a_sentence(each[0])}) or usual
    return found


def is_a_sentence(pattern: str) -> bool:
    """Whether a pattern has words of its own beside the placeholders."""
    return re.search(r"\b[a-z]{3,}", pattern) is not None


def _constants(tree: ast.Module) -> Names:
    """The texts and numbers that a module has names for."""
    found: dict[str, Value] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=told)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as told)
            ):
                if isinstance(told, ast.Constant | ast.JoinedStr):
                    found[name] = value(told, found)
    return found


def _called(call: ast.Call) -> str | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if isinstance(call.func, ast.Name):
        name = call.func.id
    plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
    return name if name in CLASSES and plain and all(key.arg for key in call.keywords) else None


def made(name: str, call: ast.Call, names: Names) -> list[tuple[str, str]]:
    """What an error says that one call makes; `names` are those of its module."""
    given = {str(key.arg): value(key.value, names) for key in call.keywords}
    return constructed(name, [value(argument, names) for argument in call.args], given)


def constructed(name: str, given: Sequence[Value], named: Names) -> list[tuple[str, str]]:
    """What an error of a class says, from the arguments of its constructor."""
    if name == BASE:
        told = {"what": "WHAT", "hint": ""} | dict(zip(("what", "hint"), given, strict=False))
        return [(str(told["what"]), str(named.get("hint", told["hint"]) or ""))]
    found = next((n for n in CLASSES[name].body if getattr(n, "name", "") == "__init__"), None)
    if not isinstance(found, ast.FunctionDef):
        return constructed(_base(name), given, named)
    names = bound(found.args, given, named)
    return [
        each
        for arguments, keywords in _supers(found.body, names)
        for each in constructed(_base(name), arguments, keywords)
    ]


def _base(name: str) -> str:
    first = CLASSES[name].bases[0]
    return first.id if isinstance(first, ast.Name) else BASE


def bound(arguments: ast.arguments, given: Sequence[Value], named: Names) -> Names:
    """The parameters of a constructor with what they are: what is given, or their default."""
    plain = [each.arg for each in arguments.args[1:]]
    names: dict[str, Value] = {each: each.upper() for each in plain}
    for each, default in zip(reversed(plain), reversed(arguments.defaults), strict=False):
        names[each] = value(default, {})
    for only, default_of in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        names[only.arg] = None if default_of is None else value(default_of, {})
    return names | dict(zip(plain, given, strict=False)) | dict(named)


def _supers(body: Sequence[ast.stmt], names: Names) -> Iterator[tuple[list[Value], Names]]:
    """The arguments of each super().__init__() that a body can come to."""
    known = dict(names)
    for number, statement in enumerate(body):
        match statement:
            case ast.Return():
                return
            case ast.Assign(targets=[ast.Name(id=target)]):
                known[target] = value(statement.value, known)
            case ast.If():
                for branch in _branches(statement, known):
                    yield from _supers([*branch, *body[number + 1 :]], known)
                return
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__")) as call):
                yield (
                    [value(each, known) for each in call.args],
                    {str(key.arg): value(key.value, known) for key in call.keywords},
                )


def _branches(statement: ast.If, names: Names) -> list[list[ast.stmt]]:
    test = value(statement.test, names)
    if isinstance(test, bool):
        return [statement.body if test else statement.orelse]
    return [statement.body, statement.orelse]


def value(node: ast.expr, names: Names) -> Value:
    """What an expression says; what is not known before it runs is a PLACEHOLDER."""
    match node:
        case ast.Constant(value=bool() | None as told):
            return told
        case ast.Constant(value=told):
            return str(told) if told else ""
        case ast.Name(id=name):
            return names.get(name, name.upper())
        case ast.JoinedStr():
            return "".join(_text(part, names) for part in node.values)
        case ast.BinOp(op=ast.Add()):
            return _text(node.left, names) + _text(node.right, names)
        case ast.BoolOp(op=ast.Or()):
            return value(node.values[0], names) or value(node.values[-1], names)
        case ast.IfExp():
            return value(node.body if value(node.test, names) else node.orelse, names)
        case ast.Compare():
            return "?"  # either
        case ast.Attribute(attr=name):
            return name.strip("_").upper()
        case ast.Call():
            return _of_call(node, names)
    return _named(node)


def _of_call(node: ast.Call, names: Names) -> Value:
    """What a call makes of text: the text itself where it only writes it otherwise."""
    of = node.args[0] if node.args else node.func
    if isinstance(node.func, ast.Name) and isinstance(of, ast.Name):
        return value(of, names)
    if isinstance(of, ast.Attribute) and of is node.func:
        return _named(of.value)
    return _named(of)


def _named(node: ast.AST) -> str:
    """A placeholder: the last name in an expression."""
    words = [
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute | ast.Name)
    ]
    return next((word.strip("_").upper() for word in words if word not in NOT_NAMES), "...")


def _text(part: ast.expr, names: Names) -> str:
    if isinstance(part, ast.FormattedValue):
        told = _text(part.value, names)
        return f"'{told}'" if part.conversion == ord("r") else told
    return str(value(part, names) or "")
