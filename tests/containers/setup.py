"""Puts Podman, runc and the C libraries where the tests find them.

    python tests/containers/setup.py

Podman and runc are installed with apt-get where that may be done (root on Debian or Ubuntu) and
they are not there. Packages with C libraries are fetched into the cache and never installed. Exit
code 0 also where something cannot be had: then the tests say so and are skipped.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.native import cache_dir

RUNTIMES: Final = ("podman", "runc")
OLD_SUITE: Final = "bullseye"
"""the oldest Debian that is still among the current ones; its glibc is 2.31"""
FETCH_S: Final = 300
OPTIONS: Final = ("-o", "APT::Sandbox::User=root", "-o", "DPkg::Lock::Timeout=120")
"""Of each call: as root all the way, and another call is waited for, in seconds."""
SOURCES: Final = Path("/etc/apt")
MIRROR: Final = re.compile(
    r"(?:^URIs:|^deb\b(?:\s+\[[^]]*\])?)\s+(\S+/debian)/?(?:\s|$)", re.MULTILINE
)


class CannotBeHadError(Exception):
    """Something is not to be had here."""


def missing_runtimes() -> list[str]:
    """The programs that are not there."""
    return [name for name in RUNTIMES if shutil.which(name) is None]


def install_runtimes() -> None:
    """Install what is missing, where that may be done.

    Raises:
        CannotBeHadError: it may not, or the packages are not there.
    """
    missing = missing_runtimes()
    if not missing:
        return
    named = " and ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotBeHadError(
            f"{named} must be installed first: only root on Debian installs them"
        )
    print(f"setting up: {named}, by apt-get", flush=True)
    with contextlib.suppress(CannotBeHadError):  # one source of many that does not answer, say
        apt("update")
    apt("install", "-y", "--no-install-recommends", *missing)


def packages() -> Path:
    """The folder for what was fetched."""
    return cache_dir() / "containers"


def package(name: str, suite: str = "") -> Path | None:
    """A package that was fetched, if it was."""
    found = sorted((packages() / (suite or "own")).glob(f"{name}_*.deb"))
    return found[-1] if found else None


def fetch(name: str, suite: str = "") -> None:
    """Fetch a package of this machine's suite or another one.

    Raises:
        CannotBeHadError: it is not there.
    """
    if package(name, suite):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise CannotBeHadError(f"{name}: there is no apt-get here")
    folder = packages() / (suite or "own")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"setting up: {name} {suite}".rstrip(), flush=True)
    if not suite:
        apt("download", name, cwd=folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        options = foreign(Path(scratch), suite)
        apt(*options, "update")
        apt(*options, "download", f"{name}/{suite}", cwd=folder)


def foreign(scratch: Path, suite: str) -> list[str]:
    """Options with which apt-get looks into another suite and leaves our lists alone."""
    (scratch / "lists" / "partial").mkdir(parents=True)
    (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
    (scratch / "sources.list").write_text(f"deb {mirror()} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def mirror() -> str:
    """Where this machine gets Debian from.

    Raises:
        CannotBeHadError: it is no Debian.
    """
    files = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))]
    for file in files:
        if file.is_file() and (found := MIRROR.search(file.read_text(errors="replace"))):
            return found[1]
    raise CannotBeHadError("this machine gets no packages from Debian")


def apt(*arguments: str, cwd: Path | None = None) -> None:
    """Run apt-get, which asks nothing and says little.

    Raises:
        CannotBeHadError: it failed; the message is its last line.
    """
    done = subprocess.run(
        ["apt-get", "-q", *OPTIONS, *arguments],
        cwd=cwd,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        check=False,
    )
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise CannotBeHadError(said[-1] if said else f"apt-get ended with {done.returncode}")


def main() -> int:
    """Set up all that can be had."""
    steps = (
        install_runtimes,
        lambda: fetch("musl"),
        lambda: fetch("libc6", OLD_SUITE),
    )
    for step in steps:
        try:
            step()
        except (CannotBeHadError, subprocess.TimeoutExpired) as error:
            print(f"setting up: {error}; the tests that need it are skipped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
