"""The commands of the pool load nothing that only its server needs."""

from __future__ import annotations

import subprocess
import sys

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
