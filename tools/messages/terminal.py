"""What a program's terminal shows, read from the code of the agent and of the shim."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from tools.messages import flow, passed_on
from tools.messages.texts import PACKAGE, Names, is_a_sentence, trees

from moiety.agent.monitor import enforcer
from moiety.agent.shim import gang_detection
from moiety.enforcement import usage
from moiety.enforcement.policy import Offence
from moiety.wire.layout import Refusal

NATIVE: Final = Path(__file__).resolve().parents[2] / "native"
CALL: Final = re.compile(r"message_(?:print|once)\((?:&\w+,\s*)?(.*?)\);", re.DOTALL)
PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[(),?:]|[^"(),?:]+', re.DOTALL)
CONVERSION: Final = re.compile(r"%(?:\.\*)?[a-z]+")
CODES: Final = {each.name.lower(): each for each in Refusal}
SENT: Final = ("agent/shim", "arbiter")
"""The folders in which a request of a program is refused."""
SENDERS: Final = ("_hang_up", "RefusedMessage", "refuse", "Refused")


def of_shim() -> list[tuple[str, str]]:
    """What the shim itself prints, and what to try; not what it passes on from the agent."""
    said: set[tuple[str, str]] = set()
    for file in sorted((NATIVE / "shim").rglob("*.c")):
        for found in CALL.finditer(_released(file.read_text())):
            hint, form, *values = _arguments(found.group(1))
            for text in _filled(_string(form), values):
                if is_a_sentence(text):
                    said.add((text, _string(hint)))
    return sorted(said)


def _released(source: str) -> str:
    """A source without what only a debug build has, and without comments."""
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    return re.sub(r"#ifdef MOIETY_DEBUG\n.*?#endif", "", source, flags=re.DOTALL)


def _arguments(call: str) -> list[str]:
    """The arguments of a call in C."""
    parts, depth = [""], 0
    for piece in PART.findall(call):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def _string(argument: str) -> str:
    """The literals of an argument, one after the other."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', argument))


def _filled(form: str, values: list[str]) -> list[str]:
    """A format with what its values say: a choice of two literals, or a PLACEHOLDER."""
    texts = [form]
    if "%.*s" in form:
        values = values[1:]
    for each in values:
        chosen = re.findall(r'"([^"]*)"', each) if "?" in each else []
        name = "ERROR" if "strerror" in each else re.findall(r"[a-z_]+", each)[-1].upper()
        texts = [
            CONVERSION.sub(lambda _, told=told: told, text, count=1)  # type: ignore[misc]
            for text in texts
            for told in chosen or [name]
        ]
    return [text.replace("GPU GPU", "GPU N") for text in texts]


def refusals() -> list[tuple[str, str]]:
    """What the agent answers that refuses a request: the code, and the text."""
    said: set[tuple[str, str]] = set()
    for path, tree in trees(PACKAGE):
        if path.startswith(SENT):
            _Helpers(tree).visit(tree)
            for function in flow.functions(tree):
                for node, names in flow.reached(function, {}, _refuses):
                    said |= {each for each in _told(node, names) if is_a_sentence(each[1])}
    for code, sources in passed_on.OF_REFUSALS.items():
        said |= {(code, text) for text in passed_on.texts(sources)}
    order = list(CODES)
    return sorted(said, key=lambda each: (order.index(each[0]), each[1]))


def _refuses(node: ast.AST) -> bool:
    if isinstance(node, ast.Tuple):
        return len(node.elts) == 2 and _code(node.elts[0]) in CODES
    return isinstance(node, ast.Call) and _called(node) in SENDERS


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _code(node: ast.expr) -> str:
    """The code that an expression names, as a text or as a member of Refusal."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return node.attr.lower() if own and node.value.id == "Refusal" else ""  # type: ignore[attr-defined]


def _told(node: ast.AST, names: Names) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Tuple):
        arguments = node.elts
    else:
        assert isinstance(node, ast.Call)
        arguments = [*node.args, *(key.value for key in node.keywords)]
    code = next((found for each in arguments if (found := _code(each)) in CODES), "")
    if code and flow.is_text(arguments[-1], names):
        for text in flow.variants(arguments[-1], names):
            yield code, text


def warnings() -> list[tuple[str, str]]:
    """What the agent tells a program that goes on: the reason of the event, and the text."""
    said: list[tuple[str, str]] = []
    for function in flow.functions(_tree(gang_detection)):
        for node, names in flow.reached(function, {}, _tells):
            assert isinstance(node, ast.Call)
            said += [("Gang", text) for text in flow.variants(node.args[-1], names)]
    for function in flow.functions(_tree(usage)):
        for node, names in flow.reached(function, {}, _is_offence):
            assert isinstance(node, ast.Tuple)
            offence = Offence[str(getattr(node.elts[0], "attr", ""))]
            if offence is not Offence.UNREGISTERED:  # such a process has no connection
                texts = flow.variants(node.elts[1], names)
                said += [(enforcer.REASONS[offence], f"this program {text}") for text in texts]
    return said


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _tells(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node) == "_tell"


def _is_offence(node: ast.AST) -> bool:
    first = node.elts[0] if isinstance(node, ast.Tuple) and len(node.elts) > 1 else None
    return isinstance(first, ast.Attribute) and getattr(first.value, "id", "") == "Offence"


class _Helpers(ast.NodeTransformer):
    """Writes out calls of a module's own functions that only choose a text."""

    def __init__(self, tree: ast.Module) -> None:
        self._texts: dict[str, list[ast.expr]] = {}
        for function in flow.functions(tree):
            returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
            texts = [each for each in returned if each is not None and flow.is_text(each, {})]
            if texts and len(texts) == len(returned):
                self._texts[function.name] = texts

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        texts = self._texts.get(getattr(node.func, "id", ""))
        if not texts:
            return node
        whole = texts[0]
        for each in texts[1:]:
            whole = ast.IfExp(ast.Name("either", ast.Load()), whole, each)
        return whole
