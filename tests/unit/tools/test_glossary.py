"""tools/glossary.py: a line of the log that has another name than its act is found."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def glossary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("glossary", ROOT / "tools" / "glossary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["glossary"] = module
    spec.loader.exec_module(module)
    return module


def found(glossary: ModuleType, file: str, text: str) -> list[str]:
    """What is wrong with the lines of the log in this function."""
    node = ast.parse(text).body[0]
    return list(glossary.act_lines(ROOT / file, node, {"overdue", "refused"}))


def test_the_line_of_a_handler_has_its_name(glossary: ModuleType) -> None:
    text = "def on_pinned(self):\n self.log.info('{}')\n self.feed(ev.Pinned(1))"
    assert found(glossary, "a.py", text.format("pinned")) == []
    assert "its act is pinned" in found(glossary, "a.py", text.format("fixed"))[0]


def test_the_line_of_an_instruction_has_its_name(glossary: ModuleType) -> None:
    text = "def overdue(self):\n self._runtime.log.warning('late')"
    assert "its act is overdue" in found(glossary, "agent/core/executor.py", text)[0]
    assert found(glossary, "agent/core/other.py", text) == []


def test_an_act_that_is_written_otherwise_is_listed(glossary: ModuleType) -> None:
    text = "def tell(self):\n log.warning('{}')\n feed(ev.GpuLost(0))"
    assert found(glossary, "a.py", text.format("xid_error")) == []
    assert found(glossary, "a.py", text.format("gpu_lost")) != []


def test_the_whole_tree_is_right(glossary: ModuleType) -> None:
    assert list(glossary.lines()) == []
    assert list(glossary.acts()) == []
