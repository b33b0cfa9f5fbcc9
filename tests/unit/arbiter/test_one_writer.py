"""Each fact about a tenant has one writer: the source of the arbiter is read for others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import moiety.arbiter

ROOT = Path(moiety.arbiter.__file__).parent


def writers(is_fact: Callable[[str], bool]) -> Iterator[tuple[str, str, str]]:
    """The file, the function and the attribute of each assignment to an attribute of this name."""
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        yield from _writers(ast.parse(path.read_text()), is_fact, file, "")


def _writers(
    node: ast.AST, is_fact: Callable[[str], bool], file: str, function: str
) -> Iterator[tuple[str, str, str]]:
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if (
        isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and is_fact(node.attr)
    ):
        yield file, function, node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        yield file, function, "setattr"
    for child in ast.iter_child_nodes(node):
        yield from _writers(child, is_fact, file, function)


def test_only_transition_writes_a_state() -> None:
    found = list(writers(lambda name: name == "state"))
    assert found == [("ledger.py", "transition", "state")]


def test_only_the_ledger_writes_bytes() -> None:
    found = {(file, function) for file, function, _ in writers(lambda n: n.endswith("_bytes"))}
    assert {file for file, _ in found} == {"ledger.py", "state/balance.py"}
    assert {function for file, function in found if file != "ledger.py"} == {"add"}


def test_only_the_ledger_changes_the_sums() -> None:
    callers = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "balance.add(" in path.read_text() or "_balances[gpu].add(" in path.read_text()
    }
    assert callers == {"ledger.py"}


def test_only_the_ledger_writes_what_is_ordered_out() -> None:
    changes = {"append", "pop", "clear", "extend", "insert", "remove"}
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or node.attr not in changes:
                continue
            if ast.unparse(node.value).endswith(".orders"):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == {"ledger.py"}
