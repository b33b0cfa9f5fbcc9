"""Which modules get mistakes, and which tests are nearest to them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools import mirror

ROOT: Final = Path(__file__).resolve().parents[2]


class Area(NamedTuple):
    """A part of the product, and the tests of all of it."""

    modules: tuple[str, ...]
    """Patterns below src/moiety."""
    tests: tuple[str, ...]
    """Arguments of pytest; they run after those of the module itself."""


def _unit(folder: str, *left_out: str) -> tuple[str, ...]:
    return f"tests/unit/{folder}", *(f"--ignore=tests/unit/{folder}/{name}" for name in left_out)


AREAS: Final = {
    "arbiter": Area(
        ("arbiter/ledger.py", "arbiter/*/*.py"),
        _unit("arbiter", "test_shares.py", "test_shares_converge.py"),  # they take minutes
    ),
    "policy": Area(("policy/*.py", "policy/*/*.py"), _unit("policy")),
    "agent": Area(
        (
            "agent/control/limits.py",
            "agent/control/shares.py",
            "agent/control/workloads.py",
            "agent/core/clients.py",
            "agent/core/executor.py",
            "agent/core/orphans.py",
            "agent/core/recovery.py",
            "agent/shim/handlers.py",
            "agent/shim/session.py",
        ),
        _unit("agent", "test_heap_warmup.py", "test_permissions.py"),
    ),
    "kube": Area(
        (
            "kube/allocation_result.py",
            "kube/checkpoint.py",
            "kube/device_accounting.py",
            "kube/inventory.py",
            "kube/resize.py",
            "kube/share_manager.py",
            "kube/units.py",
        ),
        _unit("kube", "test_admission.py", "test_deploy.py"),
    ),
}


def files(area: str) -> list[Path]:
    """The modules of an area, without the charters of packages."""
    source = ROOT / "src" / "moiety"
    found = {file for pattern in AREAS[area].modules for file in source.glob(pattern)}
    return sorted(file for file in found if file.name != "__init__.py")


def nearest(area: str, file: Path) -> list[tuple[str, ...]]:
    """What pytest is asked to run for a mistake in a module, one after the other."""
    module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
    own, whole = str(own_tests(module).relative_to(ROOT)), AREAS[area].tests
    return [whole] if f"--ignore={own}" in whole else [(own,), whole]


def own_tests(module: str) -> Path:
    """The test file of a module, as tools/mirror.py knows it."""
    table = tomllib.loads(mirror.TABLE.read_text())
    if named := table["imported"].get(module):
        return ROOT / str(named)
    if named := table["driven"].get(module):
        return ROOT / str(named["by"])
    found: Sequence[Path] = [file for file in mirror.own_tests(module) if file.exists()]
    return found[0]
