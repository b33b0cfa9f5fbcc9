"""Checks that each word, act and class has one name: glossary.py

- docs/glossary.md has each word once, and the place in the code that it names exists.
- One act has one stem: the message `MW_ALLOC_REQUEST`, the event `AllocRequest` and the handler
  `on_alloc_request`. Messages that become no event, and events that no message brings, are listed.
- A line of the log has a name in snake_case: that of the act where a handler runs, an instruction
  is carried out or an event is fed. `on_pinned` feeds `Pinned` and logs `pinned`.
- No two public classes of the product have one name.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from tools.wire_header import read, source  # noqa: E402  it needs the path

PACKAGE: Final = ROOT / "src" / "moiety"
PAGE: Final = ROOT / "docs" / "glossary.md"
STEM: Final = re.compile(r"[a-z]+(_[a-z]+)*")
WORD: Final = re.compile(r"^\| \*\*(.+?)\*\* \| .* \| `(.+?)` \|$", re.MULTILINE)

WITHOUT_EVENT: Final = {
    "MW_CONTEXT": "the agent measures the context itself: Measured",
    "MW_LIMIT_QUERY": "the agent answers it from its own account",
    "MW_GPUS_QUERY": "the agent knows which GPUs a workload is a share of",
    "MW_ARENA": "the arena is the agent's",
    "MW_ARENA_BACK": "the arena is the agent's",
    "MW_ARENA_NEED": "the arena is the agent's",
    "MW_EXPORT": "the agent brokers shared memory",
    "MW_IMPORT": "the agent brokers shared memory",
    "MW_UNSHARE": "the agent brokers shared memory",
    "MW_SHARED": "it makes a gang: GangJoined",
    "MW_UNKNOWN": "it is counted, and decides nothing",
}
"""messages to the agent of which the arbiter hears nothing under that name, and why"""
WITHOUT_MESSAGE: Final = {
    "ArenaSet", "ChargeReleased", "ChargeTransferred", "DivisionSet", "GangJoined", "GpuLost",
    "GuaranteesSet", "Left", "Measured", "PromiseSet", "Resume", "Settled", "SettingsSet",
    "ShareSet", "StopChecked", "Suspend", "Tick", "UserLimitsSet",
}  # fmt: skip
"""events that the agent itself observes"""


LOGGED_AS: Final = {
    "gpu_lost": "xid_error",  # most errors of a GPU lose nothing
    "hello": "orphaned",  # the agent says hello for a process that did not come back
    "attach": "orphaned",
}
"""events whose line in the log has the name of what the agent observed"""
LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def words(text: str) -> Iterator[str]:
    """What is wrong with the page."""
    found = WORD.findall(text)
    for word, count in Counter(word for word, _ in found).items():
        if count > 1:
            yield f"{PAGE.name}: {word} stands there {count} times"
    for word, place in found:
        if not (ROOT / place).exists():
            yield f"{PAGE.name}: {word} is decided in {place}, which does not exist"
    if not found:
        yield f"{PAGE.name}: no word was found"


def camel(stem: str) -> str:
    """`ALLOC_REQUEST` as `AllocRequest`."""
    return "".join(part.capitalize() for part in stem.split("_"))


def snake(name: str) -> str:
    """`AllocRequest` as `alloc_request`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def classes(folder: Path) -> dict[str, list[Path]]:
    """The public classes of the product, and where they are; the fakes are no part of it."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for file in sorted(folder.rglob("*.py")):
        if folder / "testing" in file.parents or folder / "kube" / "protocol" in file.parents:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(file.relative_to(ROOT))
    return dict(found)


def functions(*folders: Path) -> set[str]:
    """The names of all functions and methods in these folders."""
    return {
        node.name
        for folder in folders
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def acts() -> Iterator[str]:
    """Messages, events and handlers that do not share their stem."""
    header = read(source(ROOT / "native" / "wire"))
    heard = {t.name for t in header.types if any(">" in arrow for arrow, _ in t.meanings)}
    events = {
        node.name
        for node in ast.parse((PACKAGE / "arbiter" / "events.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    brought = {camel(name.removeprefix("MW_")): name for name in heard - set(WITHOUT_EVENT)}
    for event, name in sorted(brought.items()):
        if event not in events:
            yield f"{name} becomes no event {event}"
    for event in sorted(events - set(brought) - WITHOUT_MESSAGE):
        yield f"the event {event} has no message of its stem"
    for name in sorted({*WITHOUT_EVENT} - heard) + sorted(WITHOUT_MESSAGE - events):
        yield f"{name} is listed in {Path(__file__).name}, and does not exist"
    of_events = functions(PACKAGE / "arbiter" / "handlers")
    for event in sorted(events):
        if f"on_{snake(event)}" not in of_events:
            yield f"the event {event} has no handler on_{snake(event)}"
    of_messages = functions(PACKAGE / "agent" / "shim")
    for name in sorted(heard):
        stem = name.removeprefix("MW_").lower()
        if f"on_{stem}" not in of_messages:
            yield f"the message {name} has no handler on_{stem}"


def logged(node: ast.AST) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls below a node that write a line of the log, each with the name of its line."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr in LEVELS and ast.unparse(call.func.value).endswith("log"):
            yield call, call.args[0]


def fed(node: ast.AST) -> set[str]:
    """The events that a function makes, as stems."""
    return {
        snake(each.func.attr)
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and ast.unparse(each.func.value) == "ev"
    }


def lines() -> Iterator[str]:
    """Lines of the log whose name is no stem, or not that of the act that they tell of."""
    files = [*(PACKAGE / "agent").rglob("*.py"), *(PACKAGE / "kube").rglob("*.py")]
    instructions = {
        snake(node.name)
        for node in ast.parse((PACKAGE / "arbiter" / "instructions.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    for file in sorted(files):
        tree = ast.parse(file.read_text())
        for call, name in logged(tree):
            if not isinstance(name, ast.Constant) or not STEM.fullmatch(str(name.value)):
                where = f"{file.relative_to(ROOT)}:{call.lineno}"
                yield f"{where}: {ast.unparse(name)} is no name in snake_case"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield from act_lines(file, node, instructions)


def act_lines(file: Path, node: ast.FunctionDef, instructions: set[str]) -> Iterator[str]:
    """Lines of one function that do not have the name of its act."""
    stems = {LOGGED_AS.get(event, event) for event in fed(node)}
    if node.name.startswith("on_"):
        stems.add(node.name.removeprefix("on_"))
    if file.stem == "executor" and node.name in instructions:
        stems.add(node.name)
    names = {str(name.value) for _, name in logged(node) if isinstance(name, ast.Constant)}
    if stems and names - stems:
        where = f"{file.relative_to(ROOT)}:{node.lineno}"
        wrong, right = (", ".join(sorted(each)) for each in (names - stems, stems))
        yield f"{where}: {node.name} logs {wrong}, and its act is {right}"


def doubles() -> Iterator[str]:
    """Names that two public classes have."""
    for name, files in sorted(classes(PACKAGE).items()):
        if len(files) > 1:
            yield f"two classes are named {name}: {', '.join(map(str, files))}"


def main() -> int:
    complaints = [*words(PAGE.read_text()), *acts(), *lines(), *doubles()]
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
