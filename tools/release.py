"""Checks what a release consists of: release.py FOLDER [--between]

It builds the sdist from the checkout and the wheel from the sdist, looks at their metadata and at
the change log, and installs each with pip, pipx and uv into an environment that has nothing else.
All of it lies in FOLDER, which is emptied first. With --between, for a checkout between two
releases, changes may belong to no version yet. uv, pipx and twine are those of pyproject.toml's
`release`, beside this Python.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = Path(sys.executable).parent
CONSTRAINTS: Final = ROOT / "tools" / "constraints.txt"
KINDS: Final = ("Breaking", "Added", "Changed", "Fixed")
"""The headings of a version in the change log, in this order; what breaks stands first."""
FIELDS: Final = (
    "summary",
    "description",
    "description_content_type",
    "license_expression",
    "license_files",
    "author",
    "keywords",
    "requires_python",
    "classifiers",
)
GROUPS: Final = (
    "Development Status",
    "Environment",
    "Intended Audience",
    "Operating System",
    "Programming Language",
    "Topic",
    "Typing",
)
"""A release says something of each in its classifiers."""


class ReleaseError(Exception):
    """Something that a release must have is missing; the text says what."""


def must(*command: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What a command prints; raises ReleaseError with that if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        line = " ".join(map(str, command))
        raise ReleaseError(f"{line} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def own_version() -> str:
    """The version that src/moiety/version.py gives."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src/moiety/version.py").read_text())
    if not found:
        raise ReleaseError("src/moiety/version.py gives no version")
    return found[1]


def check_changes(text: str, version: str, *, goes_on: bool = False) -> None:
    """Raises ReleaseError unless the change log's newest version is this one, by kind of change.

    With `goes_on`, changes since then may stand above it under [Unreleased].
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    if any(each.startswith("[Unreleased]") for each in sections[1:]):
        raise ReleaseError("CHANGELOG.md has [Unreleased] below a version")
    if sections and sections[0].startswith("[Unreleased]"):
        if not goes_on and sections[0].partition("\n")[2].strip():
            raise ReleaseError("CHANGELOG.md has changes that belong to no version")
        sections = sections[1:]
    heading, _, body = (sections or [""])[0].partition("\n")
    if not re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading):
        raise ReleaseError(f"CHANGELOG.md begins with {heading!r}, not with [{version}] - DATE")
    _, *parts = re.split(r"^### ", body, flags=re.MULTILINE)
    kinds = [part.partition("\n")[0].strip() for part in parts]
    if kinds != [kind for kind in KINDS if kind in kinds] or kinds[:1] != ["Breaking"]:
        raise ReleaseError(f"CHANGELOG.md has {', '.join(kinds)}; wanted: {', '.join(KINDS)}")
    if empty := [part.strip() for part in parts if "\n- " not in part]:
        raise ReleaseError(f"CHANGELOG.md has nothing under {empty[0]}")


def check_metadata(text: bytes, version: str) -> None:
    """Raises ReleaseError unless a wheel's METADATA is valid and complete."""
    try:
        found = Metadata.from_email(text)
    except ExceptionGroup as invalid:
        raise ReleaseError(f"the metadata is invalid: {invalid.exceptions}") from None
    if str(found.version) != version:
        raise ReleaseError(f"the wheel is of version {found.version}")
    if missing := [field for field in FIELDS if not getattr(found, field)]:
        raise ReleaseError(f"the metadata lacks {', '.join(missing)}")
    from trove_classifiers import classifiers as known_classifiers  # of the extra `release` alone

    given = found.classifiers or []
    if unknown := [each for each in given if each not in known_classifiers]:
        raise ReleaseError(f"no such classifier: {unknown[0]}")
    if missing := [group for group in GROUPS if not any(each.startswith(group) for each in given)]:
        raise ReleaseError(f"no classifier says: {', '.join(missing)}")


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist of the checkout and the wheel that it builds."""
    must(TOOLS / "uv", "build", "--quiet", "--out-dir", folder, ROOT)
    sdists, wheels = sorted(folder.glob("*.tar.gz")), sorted(folder.glob("*.whl"))
    if len(sdists) != 1 or len(wheels) != 1:
        raise ReleaseError(f"built {[file.name for file in [*sdists, *wheels]]}")
    return sdists[0], wheels[0]


def check_wheel(wheel: Path, sdist: Path, version: str) -> None:
    """Raises ReleaseError unless the wheel, and what PyPI shows of it, are as they should be."""
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        check_metadata(content.read(f"moiety-{version}.dist-info/METADATA"), version)
    licence = f"moiety-{version}.dist-info/licenses/LICENSE"
    wanted = {licence, "moiety/py.typed", "moiety/_native/libmoiety.so"}
    if missing := sorted(wanted - names):
        raise ReleaseError(f"the wheel lacks {', '.join(missing)}")
    must(TOOLS / "twine", "check", "--strict", wheel, sdist)


def with_pip(what: Path, folder: Path) -> Path:
    """The folder of its commands, installed with pip."""
    venv.create(folder, with_pip=True)
    pip = (folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    must(*pip, "install", "-c", CONSTRAINTS, what)
    return folder / "bin"


def with_pipx(what: Path, folder: Path) -> Path:
    """The folder of its commands, installed with pipx."""
    env = {"PIPX_HOME": str(folder), "PIPX_BIN_DIR": str(folder / "commands")}
    must(TOOLS / "pipx", "install", "--quiet", f"--pip-args=-c {CONSTRAINTS}", what, env=env)
    return folder / "commands"


def with_uv(what: Path, folder: Path) -> Path:
    """The folder of its commands, installed with uv."""
    env = {"UV_TOOL_DIR": str(folder), "UV_TOOL_BIN_DIR": str(folder / "commands")}
    must(TOOLS / "uv", "tool", "install", "--quiet", "-c", CONSTRAINTS, what, env=env)
    return folder / "commands"


INSTALLERS: Final[tuple[Callable[[Path, Path], Path], ...]] = (with_pip, with_pipx, with_uv)


def main(folder: Path, *, is_between: bool = False) -> int:
    """Build, look and install; the exit code."""
    began_s = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def done(what: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {what}", flush=True)

    try:
        version = own_version()
        check_changes((ROOT / "CHANGELOG.md").read_text(), version, goes_on=is_between)
        done(f"CHANGELOG.md has {version} by kind of change")
        sdist, wheel = build(folder / "dist")
        done(f"{sdist.name} builds {wheel.name}")
        check_wheel(wheel, sdist, version)
        done("metadata, licence, classifiers and description are complete")
        for install in INSTALLERS:
            for what in (wheel, sdist):
                name = install.__name__.removeprefix("with_")
                commands = install(what, folder / f"{name}-{what.suffix.removeprefix('.')}")
                said = must(commands / "moiety", "version", cwd=folder)
                if version not in said:
                    raise ReleaseError(f"`moiety version` prints {said!r}")
                must(commands / "moiety", "--help", cwd=folder)
                done(f"{what.name} installs with {name}, and its commands run")
    except ReleaseError as error:
        print(f"release-check: {error}")
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=(__doc__ or "").partition("\n")[0].rpartition(": ")[2])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--between", action="store_true")
    given = parser.parse_args()
    sys.exit(main(given.folder.resolve(), is_between=given.between))
