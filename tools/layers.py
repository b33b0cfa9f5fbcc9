"""Checks that includes and imports go one way, and prints what it checked and what does not.

Each tree of C, a folder of native/, is cut into layers, one for each folder, top to bottom. A file
includes its own layer and those below. No files include each other in a circle, and no folders do.
A `.c` file and the header of the same name count as one, so a header declares only what its own
`.c` file defines: a call upward cannot hide behind a declaration.

In each package of src/moiety, no modules import each other in a circle, not even for types only.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]


class Tree(NamedTuple):
    """A tree of C, with its layers from top to bottom; `.` is the tree's own folder."""

    folder: str
    layers: tuple[str, ...]


def listed(file: Path) -> tuple[str, ...]:
    """The layers that a file lists: the first word of each line that is no comment."""
    if not file.exists():
        return ()
    lines = (line.split() for line in file.read_text().splitlines())
    return tuple(words[0] for words in lines if words and words[0] != "#")


def trees() -> tuple[Tree, ...]:
    """Each folder of native/, with the layers that its file LAYERS lists."""
    folders = sorted(path for path in (ROOT / "native").iterdir() if path.is_dir())
    return tuple(
        Tree(str(folder.relative_to(ROOT)), listed(folder / "LAYERS")) for folder in folders
    )


PACKAGES: Final = ROOT / "src" / "moiety"
IN_CIRCLES: Final[dict[str, int]] = {}
"""How many modules of a package may still be in a circle: none where it is not named."""


class Include(NamedTuple):
    """One `#include` of a file of the same tree."""

    file: Path
    line: int
    included: Path


Graph = Mapping[str, set[str]]

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
DECLARED = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w \t*\n]*?\b\**(\w+)\(", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
MACRO = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def unit(file: Path) -> str:
    """The name that a `.c` file shares with its header."""
    return str(file.with_suffix(""))


def includes(files: list[Path]) -> Iterator[Include]:
    """The includes among these files, as they are found from native/ or beside the file."""
    known = set(files)
    for file in files:
        for number, text in enumerate((ROOT / file).read_text().splitlines(), 1):
            if found := INCLUDE.match(text):
                for path in (Path("native", found[1]), file.parent / found[1]):
                    if path in known:
                        yield Include(file, number, path)
                        break


def graph(pairs: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    """What each name leads to, without itself."""
    found: dict[str, set[str]] = {}
    for one, other in pairs:
        found.setdefault(one, set())
        found.setdefault(other, set())
        if one != other:
            found[one].add(other)
    return found


def circles(of: Graph) -> list[list[str]]:
    """The groups of names that lead to each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(of[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(of):
        if name not in index:
            visit(name)
    return found


def functions(file: Path) -> dict[str, tuple[int, bool]]:
    """Each function with external linkage: its line, and whether the file defines it."""
    text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), (ROOT / file).read_text())
    text = MACRO.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found: dict[str, tuple[int, bool]] = {}
    for match in DECLARED.finditer(text):
        depth = 0
        for at in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth == 0:
                break
        after = text[at + 1 :].lstrip()
        if "__attribute__" in match[0] or match[1] == "_Static_assert":
            continue
        line = text.count("\n", 0, match.start()) + 1
        defines = after.startswith("{")
        if defines or match[1] not in found:
            found[match[1]] = (line, defines)
    return found


def declarations(files: list[Path]) -> Iterator[str]:
    """Functions that are declared outside the file that defines them and its header."""
    declared = {file: functions(file) for file in files}
    home = {
        name: unit(file)
        for file, names in declared.items()
        for name, (_, defines) in names.items()
        if defines and file.suffix == ".c"
    }
    for file, names in declared.items():
        for name, (line, defines) in names.items():
            if not defines and home.get(name, unit(file)) != unit(file):
                yield f"{file}:{line}: declares {name}, which {home[name]}.c defines"


def layer(tree: Tree, file: Path) -> str:
    """The folder of a file inside its tree."""
    return str(file.parent.relative_to(tree.folder))


def complaints(tree: Tree) -> Iterator[str]:
    """What is wrong with one tree, each with file and line where there is one."""
    files = sorted(
        path.relative_to(ROOT) for path in (ROOT / tree.folder).rglob("*.[ch]") if path.is_file()
    )
    rank = {name: place for place, name in enumerate(tree.layers)}
    for file in files:
        if layer(tree, file) not in rank:
            yield f"{file}:1: its folder is no layer"
    found = [pair for pair in includes(files) if layer(tree, pair.file) in rank]
    for one in found:
        here, there = layer(tree, one.file), layer(tree, one.included)
        if rank.get(there, len(rank)) < rank[here]:
            yield f"{one.file}:{one.line}: {here} includes {one.included}, which is above it"
    for group in circles(graph((unit(i.file), unit(i.included)) for i in found)):
        lines = [
            f"{i.file}:{i.line}: includes {i.included}"
            for i in found
            if unit(i.file) in group
            and unit(i.included) in group
            and unit(i.file) != unit(i.included)
        ]
        yield f"a circle of {len(group)} files:\n  " + "\n  ".join(lines)
    for group in circles(graph((layer(tree, i.file), layer(tree, i.included)) for i in found)):
        yield f"{tree.folder}: a circle of folders: {', '.join(group)}"
    yield from declarations(files)


def imports(package: Path) -> dict[str, set[str]]:
    """The imports among the modules of a package, also those within functions and for types."""
    source = package.parents[1]
    modules = {
        ".".join(file.relative_to(source).with_suffix("").parts): file
        for file in package.rglob("*.py")
        if file.name != "__init__.py"
    }
    found: dict[str, set[str]] = {}
    for name, file in modules.items():
        used: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                used |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        found[name] = used & set(modules) - {name}
    return found


def main() -> int:
    said: list[str] = []
    for tree in trees():
        if tree.layers:
            said += complaints(tree)
            print(f"{tree.folder}: {' > '.join(tree.layers)}")
        else:
            said.append(f"{tree.folder}: it has no file LAYERS, so nothing checks its includes")
    for package in sorted(file.parent for file in PACKAGES.glob("*/__init__.py")):
        groups = circles(imports(package))
        count = sum(map(len, groups))
        allowed = IN_CIRCLES.get(package.name, 0)
        print(f"src/moiety/{package.name}: {count or 'no'} modules in circles")
        if count > allowed:
            said += [f"{package.name}: {' <-> '.join(group)}" for group in groups]
        elif count < allowed:
            said.append(f"{package.name}: {count} modules are in circles now, so write {count}")
    print("\n".join(said) if said else "0 circles")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
