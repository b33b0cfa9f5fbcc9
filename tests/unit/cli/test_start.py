"""What a command loads before it does anything: each module is waited for at every start."""

from __future__ import annotations

import subprocess
import sys

import pytest

AGENTS: frozenset[str] = frozenset({"moiety.arbiter.settings", "moiety.enforcement.policy"})
"""What only the agent decides with."""


def loaded(module: str) -> set[str]:
    """What a command loads beside what Python itself, or its environment, has loaded."""
    code = (
        "import sys; before = set(sys.modules); "
        f"import moiety.cli.main, {module}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("moiety.cli.version", {"shutil", "fractions", "decimal", "subprocess", "msgspec"}),
        ("moiety.cli.run", {"fractions", "subprocess", "shlex"}),
        ("moiety.cli.ps", {"fractions", "subprocess", "shlex", "shutil", "yaml"}),
    ],
)
def test_a_command_loads_nothing_in_vain(module: str, unused: set[str]) -> None:
    assert not loaded(module) & (unused | AGENTS)
