"""Mistakes in Python modules: the operators are cosmic-ray's, the choice follows a seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from tools.mutants.areas import AREAS, ROOT, files, nearest
from tools.mutants.mutant import Mutant

SAME: Final = ("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq")


class Site(NamedTuple):
    """One place where one operator can make one change."""

    line: int
    operator: str
    occurrence: int


def sample(seed: int, count: int) -> list[Mutant]:
    """`count` mistakes, from all areas in turn, at most one in a line of code."""
    dice = Random(seed)
    streams = [_of(area, dice) for area in AREAS]
    return list(islice(chain.from_iterable(zip(*streams, strict=False)), count))


def _of(area: str, dice: Random) -> Iterator[Mutant]:
    """Mistakes of one area, without end; a long module has more of them than a short one."""
    texts = {file: file.read_text() for file in files(area)}
    lengths = [text.count("\n") for text in texts.values()]
    known: dict[Path, list[Site]] = {}
    seen: set[tuple[Path, int]] = set()
    while True:
        (file,) = dice.choices(list(texts), lengths)
        if file not in known:
            known[file] = list(sites(texts[file]))
        site = dice.choice(known[file])
        if (file, site.line) in seen:
            continue
        seen.add((file, site.line))
        wrong = changed(texts[file], site)
        if wrong is not None:
            path = str(file.relative_to(ROOT))
            name = f"{path}:{site.line} {site.operator.partition('/')[2]}"
            yield Mutant(name, path, wrong, nearest(area, file))


def sites(text: str) -> Iterator[Site]:
    """Every change that any operator can make; `==` and `is` mostly mean the same."""
    nodes = list(ast_nodes(get_ast(text)))
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if kind.arguments() or name.endswith(SAME):
            continue
        operator, occurrence = kind(), 0
        for node in nodes:
            for (line, _), _ in operator.mutation_positions(node):
                yield Site(line, name, occurrence)
                occurrence += 1


def changed(text: str, site: Site) -> str | None:
    """The module with the mistake; None if it is none: Python refuses it, or nothing changes."""
    found: str | None = mutate_code(text, get_operator(site.operator)(), site.occurrence)
    try:
        return None if found is None or is_only_typing(text, found) else found
    except SyntaxError:
        return None


def is_only_typing(one: str, other: str) -> bool:
    """Whether two modules differ only in annotations, and in what a dataclass forbids."""
    return _without_types(one) == _without_types(other)


def _without_types(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.arg():
                node.annotation = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(value=None)
            case ast.ClassDef():
                for each in node.decorator_list:
                    if isinstance(each, ast.Call):
                        each.keywords = []
    return ast.dump(tree)
