"""The commands of the pool load nothing that only its server needs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from moiety.cli.up import NEEDED, up
from moiety.model.errors import PoolMissing

COMMANDS = ("apply", "cancel", "down", "explain", "history", "hold", "logs", "queue", "submit")
HEAVY = ("anyio", "asyncio", "httptools", "numpy", "sqlite3", "starlette", "uvicorn")


def test_commands_of_the_pool_load_no_server() -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {COMMANDS!r}: importlib.import_module('moiety.cli.' + name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stdout + done.stderr


@pytest.mark.parametrize("lacking", NEEDED)
def test_a_pool_without_its_extra_says_what_to_install(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == lacking else found(name)
    )
    with pytest.raises(PoolMissing, match=f"{lacking} is not installed") as caught:
        up.main([], standalone_mode=False)
    assert "moiety[pool]" in caught.value.hint
