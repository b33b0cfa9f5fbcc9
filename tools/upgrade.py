"""Upgrades moiety below programs that run: python -m tools.upgrade WHEEL FOLDER

The wheel is installed into an environment in FOLDER, and, packed anew as one of a later version,
into another. Then `moiety agent restart` of the later one replaces the agent of the earlier one
while programs work; both versions speak with it, and no program loses a byte.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any, Final

from demo import run as demo
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from moiety.testing.waiting import until
from moiety.version import __version__

LATER: Final = "99.0.0"
GPU: Final = "A100-80:memory=320MiB,residue=2MiB"
PROGRAMS: Final = 3
BYTES: Final = 150 << 20
"""Of each: two do not fit beside each other."""


def packed_as(wheel: Path, version: str, folder: Path) -> Path:
    """The same wheel, as one of another version of moiety."""
    tree = folder / "tree"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tree)
    (info,) = tree.glob("*.dist-info")
    own = info.name.removesuffix(".dist-info").split("-")[1]
    info = info.rename(tree / info.name.replace(own, version))
    _replace(info / "METADATA", r"^Version: .*$", f"Version: {version}")
    _replace(tree / "moiety" / "version.py", r'^__version__ = ".*"', f'__version__ = "{version}"')
    files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
    record = info / "RECORD"
    record.write_text("".join(f"{path.relative_to(tree)},,\n" for path in files))
    made = folder / wheel.name.replace(own, version)
    with zipfile.ZipFile(made, "w") as packed:
        for path in files:
            packed.write(path, path.relative_to(tree))
    shutil.rmtree(tree)
    return made


def _replace(file: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, file.read_text(), count=1, flags=re.MULTILINE)
    if not count:
        raise RuntimeError(f"{file.name} of the wheel names no version")
    file.write_text(changed)


def installed(wheel: Path, folder: Path) -> Path:
    """The command `moiety` of an environment with this wheel, and this Python's libraries."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text("".join(f"{p}\n" for p in site.getsitepackages()))
    return folder / "bin" / "moiety"


def upgrade(earlier: Path, later: Path, folder: Path) -> str:
    """What was done, in words; raises RuntimeError where something was not as it should be."""
    _, commands = demo.build(folder, simulated=True)
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    words = [*commands[0], kernels, BYTES, 1000000, 3, 0, 7, 50]
    with Node(folder, GPU) as node:
        for name in ("PYTHONPATH", "MOIETY_NATIVE"):  # the wheels have their own
            node.env.pop(name, None)

        def by(*words: object) -> str:
            said = [str(word) for word in words]
            done = subprocess.run(said, env=node.env, text=True, capture_output=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(said)}: {done.stderr}")
            return done.stdout

        def rows(moiety: Path) -> list[dict[str, Any]]:
            return list(json.loads(by(moiety, "ps", "-o", "json")))

        def turns() -> int:
            return sum(row["handoffs"] for row in rows(earlier))

        def take_turns() -> bool:
            return len(rows(earlier)) == PROGRAMS and turns() > PROGRAMS

        by(earlier, "agent", "start", "--turn-min", "5ms", "--idle-exit", "0")
        running = [node.start([str(earlier), "run", *map(str, words)]) for _ in range(PROGRAMS)]
        until(take_turns, "they all take turns")
        done = json.loads(by(later, "agent", "restart", "-o", "json"))
        if (done["before"], done["version"]) != (__version__, LATER):
            raise RuntimeError(f"{done['before']} was replaced by {done['version']}")
        had = turns()
        until(lambda: turns() > had + PROGRAMS, "they go on taking turns")
        seen = [{row["pid"] for row in rows(each)} for each in (earlier, later)]
        if seen[0] != seen[1] or len(seen[0]) != PROGRAMS:
            raise RuntimeError(f"the two versions see different programs: {seen}")
        for each in running:
            each.send_signal(signal.SIGUSR1)
        for each in running:
            code, out, said = finish(each)
            if code or out != "0 words wrong\n":
                raise RuntimeError(f"a program ended with {code}: {out}{said}")
        by(earlier, "agent", "stop", "--force")
    return (
        f"{PROGRAMS} programs went on from moiety {__version__} to {LATER}, without an agent for "
        f"{done['pause_s']:.1f} s"
    )


def main(wheel: Path, folder: Path) -> None:
    """Print what was done."""
    earlier = installed(wheel, folder / "earlier")
    later = installed(packed_as(wheel, LATER, folder), folder / "later")
    print(upgrade(earlier, later, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
