"""The page about settings has them all, as the code does; and the code reads no others."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from moiety.config.files import read
from moiety.config.load import problems
from moiety.config.places import Kind
from moiety.config.table import SETTINGS

SPEC = importlib.util.spec_from_file_location(
    "settings_page", Path(__file__).resolve().parents[3] / "tools" / "settings_page.py"
)
assert SPEC is not None
assert SPEC.loader is not None
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)
row = page.row
ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "configuration.md"
INTERNAL = {
    "MOIETY_SOCKET": "moiety run tells the shim with it where its agent is",
    "MOIETY_SIMGPU_POISON": "for simgpu's own tests",
    "MOIETY_SIMGPU_ALIASES": "for simgpu's own tests",
    "MOIETY_SYSTEM_DIR": "where the agent of all users serves, for tests",
}


def test_the_table_is_the_code() -> None:
    rows = PAGE.read_text().partition(page.HEAD)[2].splitlines(keepends=True)
    told = [row(setting) for setting in SETTINGS]
    assert rows == told, "PYTHONPATH=src python tools/settings_page.py writes it anew"


def test_the_examples_can_be_used(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    for number, example in enumerate(examples):
        file = tmp_path / f"{number}.toml"
        file.write_text(example)
        found = read(file, Kind.SYSTEM)
        assert found is not None
        assert problems(found) == []


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("native", r'getenv\(\s*"(MOIETY_\w+)"'),
        ("src", r'environ(?:\.get\(|\[)\s*"(MOIETY_\w+)"'),
    ],
)
def test_every_variable_that_is_read_is_in_the_table(folder: str, pattern: str) -> None:
    files = [f for f in (ROOT / folder).rglob("*") if f.suffix in (".c", ".h", ".py")]
    used = {name for file in files for name in re.findall(pattern, file.read_text())}
    known = {setting.variable for setting in SETTINGS}
    assert used
    assert used - known - set(INTERNAL) == set()
