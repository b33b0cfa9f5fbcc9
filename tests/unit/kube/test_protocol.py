"""Kubernetes' protocols: what is committed is what the compiler makes of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_modules_are_what_the_compiler_makes_of_the_definitions(tmp_path: Path) -> None:
    described = importlib.util.spec_from_file_location("protocol", ROOT / "tools" / "protocol.py")
    assert described is not None
    assert described.loader is not None
    protocol = importlib.util.module_from_spec(described)
    described.loader.exec_module(protocol)
    made = protocol.generate(tmp_path)
    assert len(made) == 2 * len(list(protocol.SOURCE.glob("*.proto")))
    for file in made:
        assert file.read_text() == (protocol.SOURCE / file.name).read_text(), file.name
