"""What `moiety doctor` can find, read from its checks."""

from __future__ import annotations

import ast
import importlib
from typing import Final, NamedTuple

from tools.messages import flow
from tools.messages.texts import PACKAGE, Names, is_a_sentence, trees

FOLDER: Final = PACKAGE / "cli" / "doctor"
ORDER: Final = ("bad", "warn")


class Row(NamedTuple):
    """One finding that is not ok."""

    about: str
    level: str
    text: str
    hint: str


def findings() -> list[Row]:
    """Every finding that needs something done; not those that repeat an error's own words."""
    rows: set[Row] = set()
    for path, tree in trees(FOLDER):
        module = importlib.import_module(f"moiety.{path.removesuffix('.py').replace('/', '.')}")
        known = vars(module)
        _Written(known).visit(tree)
        names = {key: told for key, told in known.items() if _is_constant(key, told)}
        for function in flow.functions(tree):
            own = {key: told for key, told in names.items() if key not in _parameters(function)}
            for call, here in flow.reached(function, own, _is_finding):
                assert isinstance(call, ast.Call)
                rows |= {row for row in _rows(call, here) if row.level in ORDER}
    wanted = (row for row in rows if row.hint != "HINT" or is_a_sentence(row.text))
    shown = (row._replace(hint=row.hint.replace("HINT", "as that error says")) for row in wanted)
    return sorted(shown, key=_place)


def _place(row: Row) -> tuple[str, int, str, str]:
    return row.about.lower(), ORDER.index(row.level), row.text, row.hint


def _is_constant(name: str, told: object) -> bool:
    return isinstance(told, str) and name.isupper()


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {each.arg for each in function.args.args}


def _is_finding(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"


def _rows(call: ast.Call, names: Names) -> list[Row]:
    about, level, text, *hint = [flow.variants(each, names) for each in call.args]
    hints = hint[0] if hint else [""]
    return [Row(a, b, c, d) for a in about for b in level for c in text for d in hints]


class _Written(ast.NodeTransformer):
    """Writes out what a call makes of constants: count(n, "GPU"), and numbers of the module."""

    def __init__(self, known: dict[str, object]) -> None:
        self._known = known

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="count"), args=[_, ast.Constant(value=str() as unit)]):
                return ast.Constant(f"N {unit}s")
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int() as number)]):
                if callable(made := self._known.get(name)) and name.islower():
                    return ast.Constant(str(made(number)))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        told = self._known.get(node.id)
        if isinstance(told, int) and node.id.isupper():
            return ast.Constant(told)
        return node
