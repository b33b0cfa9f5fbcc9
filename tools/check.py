"""Runs every check of the sources, and says which failed: check.py [NAME]...

$NATIVE is the native build; all tools are those of pyproject.toml's `check`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = "_pb2.py"
"""files that protoc made: a test compares them with what it makes, and nobody reads them"""
FOLDERS = ("native", "src", "tests", "demo", "bench", "tools")


def sources(*suffixes: str) -> list[str]:
    """Our files with these suffixes, by folder."""
    return [
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in suffixes and not file.name.endswith(MADE)
    ]


def checks() -> dict[str, list[str]]:
    """What is run, in order; each must end with 0 and without a word of warning."""
    python = sys.executable
    native = os.environ["NATIVE"]
    modules = sources(".py")
    c = sources(".c", ".h")
    return {
        "lint": ["ruff", "check", "--quiet", *modules],
        "format": ["ruff", "format", "--check", "--quiet", *modules],
        "types": ["mypy", "--no-error-summary", *modules],
        "layers": ["lint-imports", "--no-cache"],
        "native-layers": [python, "tools/layers.py"],
        "charters": [python, "tools/charters.py"],
        "glossary": [python, "tools/glossary.py"],
        "wire": [python, "tools/wire.py", "--check"],
        "mirror": [python, "tools/mirror.py"],
        "wording": [python, "tools/wording.py"],
        "quarantine": [python, "tools/quarantine.py"],
        "c-format": ["clang-format", "--dry-run", "-Werror", *c],
        "c-lint": [python, "tools/tidy.py", native],
        "symbols": [python, "tools/symbols.py", native],
    }


def main() -> int:
    chosen = sys.argv[1:]
    failed = []
    for name, command in checks().items():
        if chosen and name not in chosen:
            continue
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},  # and not what is installed
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        took = time.monotonic() - began
        print(
            f"{'ok    ' if done.returncode == 0 else 'FAILED'} {name:10} {took:5.1f} s", flush=True
        )
        if done.returncode:
            failed.append(name)
            print(done.stdout)
    if failed:
        print(f"check: {', '.join(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
