"""What functions say is read from each path through them, and from the formats of the shim."""

from __future__ import annotations

import ast
import textwrap

import pytest
from tools.messages import doctor, flow, page, terminal

from moiety.agent.shim.wait_messages import NOTICES


def said(source: str) -> list[str]:
    (function,) = flow.functions(ast.parse(source))
    found = []
    for call, names in flow.reached(function, {}, lambda node: isinstance(node, ast.Call)):
        assert isinstance(call, ast.Call)
        found += [text for each in call.args for text in flow.variants(each, names)]
    return found


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("say('one')", ["one"]),
        ("t = 'a' if x else 'b'\nsay(t)", ["a", "b"]),
        ("t = 'a'\nif x:\n    t = 'b'\nsay(t)", ["b", "a"]),
        ("t = 'a'\nif x:\n    t += f' and {y}'\nsay(t)", ["a and Y", "a"]),
        ("t = 'a'\nif x:\n    t = 'b'\n    return\nsay(t)", ["a"]),
        ("t = read\nsay(f'{t} is gone')", ["T is gone"]),
        ("t = 'a'\nfor x in y:\n    t = 'b'\nsay(t)", ["a", "b"]),
        ("t = 'a'\ntry:\n    t = 'b'\nexcept E:\n    t = 'c'\nsay(t)", ["b", "c"]),
        ("say(f'GPU {gpu}')", ["GPU N"]),
    ],
)
def test_every_path_to_a_call_gives_its_text(body: str, texts: list[str]) -> None:
    assert said("def f(x, y):\n" + textwrap.indent(body, "    ")) == texts


def test_a_format_of_the_shim_has_its_values_or_names() -> None:
    assert terminal._filled("at %s: %d", ["path", "(int)result"]) == ["at PATH: RESULT"]
    assert terminal._filled("GPU %u", ["device->gpu"]) == ["GPU N"]
    assert terminal._filled("it %s", ['path ? "is empty" : "is not set"']) == [
        "it is empty",
        "it is not set",
    ]
    assert terminal._filled("%.*s", ["(int)BYTES", "refused.text"]) == ["TEXT"]


def test_messages_of_every_kind_are_found() -> None:
    shim = dict(terminal.of_shim())
    unset = "this program shares no GPU: MOIETY_SOCKET is not set"
    assert shim[unset] == "start it with moiety run"
    assert not any("chunk cannot go from state" in text for text in shim), "a debug build's"
    assert {code for code, _ in terminal.refusals()} >= {"limit", "capacity", "gpu", "full"}
    assert {reason for reason, _ in terminal.warnings()} == {"Gang", "OverLimit", "WithoutLease"}
    found = doctor.findings()
    assert {row.level for row in found} == {"bad", "warn"}
    assert {"driver", "shim", "GPU N", "agent", "other agents", "MPS"} <= {r.about for r in found}
    assert all(row.hint for row in found), "each says what to do"


def test_every_notice_of_a_wait_stands_on_the_page() -> None:
    text = "".join(page.on_terminals())
    assert all(notice.meaning in text for notice in NOTICES)
