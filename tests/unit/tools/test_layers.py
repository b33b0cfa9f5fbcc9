"""tools/layers.py: includes that go up or in a circle are found, whatever way they take."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "layers.py"
GUARD = "#include <stdint.h>\n"


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, for a tree of two layers in an empty checkout."""
    spec = importlib.util.spec_from_file_location("layers", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "layers", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PACKAGES", tmp_path)
    monkeypatch.setattr(module, "IN_CIRCLES", {})
    (tmp_path / "native" / "a").mkdir(parents=True)
    (tmp_path / "native" / "a" / "LAYERS").write_text("# top to bottom\ntop  above\nlow  below\n")
    write(tmp_path, "top/one.h", "void one(void);\n")
    write(
        tmp_path,
        "top/one.c",
        '#include "a/top/one.h"\n#include "a/low/two.h"\nvoid one(void)\n{\n}\n',
    )
    write(tmp_path, "low/two.h", "int two(int of);\n")
    write(tmp_path, "low/two.c", '#include "a/low/two.h"\nint two(int of) { return of; }\n')
    return module


def write(root: Path, name: str, text: str) -> None:
    file = root / "native" / "a" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(GUARD + text)


def said(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code: int = module.main()
    return code, capsys.readouterr().out.splitlines()


def test_the_layers_are_told(layers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(layers, capsys) == (0, ["native/a: top > low", "0 circles"])


def test_an_include_upward(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path,
        "low/two.c",
        '#include "a/low/two.h"\n#include "../top/../top/one.h"\n#include "a/top/one.h"\n',
    )
    code, lines = said(layers, capsys)
    assert code == 1
    assert lines[1] == "native/a/low/two.c:4: low includes native/a/top/one.h, which is above it"
    assert "a circle of 2 files:" in lines
    assert "native/a: a circle of folders: low, top" in lines


def test_a_circle_inside_a_layer(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "low/three.h", '#include "a/low/two.h"\n')
    write(tmp_path, "low/two.c", '#include "three.h"\nint two(int of) { return of; }\n')
    code, lines = said(layers, capsys)
    assert code == 1
    assert lines[1:] == [
        "a circle of 2 files:",
        "  native/a/low/three.h:2: includes native/a/low/two.h",
        "  native/a/low/two.c:2: includes native/a/low/three.h",
    ]


def test_a_call_upward_without_an_include(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path,
        "low/two.c",
        "extern void one(void);\nint two(int of)\n{\n    one();\n    return of;\n}\n",
    )
    assert said(layers, capsys)[1][1:] == [
        "native/a/low/two.c:2: declares one, which native/a/top/one.c defines"
    ]


def test_a_file_outside_of_all_layers(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "side/four.c", "")
    assert said(layers, capsys)[1][1:] == ["native/a/side/four.c:1: its folder is no layer"]


def test_a_tree_without_layers(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "native" / "b").mkdir()
    assert said(layers, capsys) == (
        1,
        [
            "native/a: top > low",
            "native/b: it has no file LAYERS, so nothing checks its includes",
        ],
    )
