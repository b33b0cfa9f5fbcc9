"""Slurm's words: scripts against real Slurm, and what a program costs before it does anything.

`sbatch_scripts_ok` is the part of the scripts of ../shared/data/sbatch for which verdict and
derived request are those of real Slurm (Debian's slurm-wlm, as root), meant differences aside.
MOIETY_SBATCH_SCRIPTS names another folder of scripts. `sbatch_cli_ms` is the processor time of an
`sbatch` that is installed, until its job is in the store.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.figure import Figure, table
from moiety.slurm.install import install
from moiety.testing.node import Node
from tests.support.native import native_dir
from tests.support.pool_node import PoolNode
from tests.support.slurm_compared import Compared, compare, site_words
from tests.support.slurm_oracle import Oracle, missing

GPU: Final = "8xA100-80:memory=96MiB"
SCRIPTS: Final = Path(
    os.environ.get("MOIETY_SBATCH_SCRIPTS")
    or Path(__file__).resolve().parents[2] / "shared" / "data" / "sbatch" / "scripts"
)
SOURCE: Final = b"# source:"
SAMPLES: Final = 15
BARE: Final = ["python", "-c", "pass"]


def scripts() -> dict[str, bytes]:
    """The scripts by name; a first line that says where one comes from is no part of it."""
    found = {}
    for path in sorted(SCRIPTS.glob("*.sbatch")):
        content = path.read_bytes()
        found[path.name] = content.partition(b"\n")[2] if content.startswith(SOURCE) else content
    return found


def compared() -> list[Compared]:
    """All scripts in real Slurm and in ours."""
    known = scripts()
    partitions, features = site_words(known.values())
    with tempfile.TemporaryDirectory() as name:
        oracle = Oracle(Path(name), partitions, features)
        try:
            work = Path(name) / "work"
            work.mkdir()
            return [compare(oracle, each, content, work) for each, content in known.items()]
        finally:
            oracle.close()


def agreement() -> Iterator[Figure]:
    """How many scripts agree; nothing where there are no scripts or no Slurm."""
    if missing() or os.geteuid() != 0 or not scripts():
        print("slurm: no scripts, no slurm-wlm, or not root: sbatch_scripts_ok is left out")
        return
    found = compared()
    wrong = [each for each in found if each.differences and not each.deviation]
    for each in wrong:
        print(f"{each.name}: {'; '.join(each.differences)}")
    meant = sum(bool(each.deviation) for each in found)
    yield Figure(
        "sbatch_scripts_ok",
        1 - len(wrong) / len(found),
        "",
        0.95,
        "higher",
        "slurm-wlm 22.05",
        len(found),
        note=f"{meant} of them differ as the reference says",
    )


@contextmanager
def pool() -> Iterator[PoolNode]:
    """A pool on simgpu."""
    with tempfile.TemporaryDirectory() as name, Node(Path(name), GPU, native=native_dir()) as node:
        node.start_agent()
        found = PoolNode(node)
        try:
            found.up()
            yield found
        finally:
            found.close()


def cpu_ms(words: list[str], env: dict[str, str], folder: Path) -> float:
    """The processor time of one program; raises RuntimeError if it failed."""
    with subprocess.Popen(
        words, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}: {said.decode()}")
    return (used.ru_utime + used.ru_stime) * 1e3


def cost() -> Figure:
    """What one `sbatch` costs, beside the bare interpreter in turns."""
    with pool() as found:
        folder = found.node.folder
        install(folder / "bin")
        env = dict(found.node.env) | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\n#SBATCH --hold --gres=gpu:1 -o /dev/null\ntrue\n")
        words = [str(folder / "bin" / "sbatch"), "job.sh"]
        cpu_ms(words, env, folder)  # the compiled modules are there from now on
        taken, bare = [], []
        for _ in range(SAMPLES):
            taken.append(cpu_ms(words, env, folder))
            bare.append(cpu_ms(BARE, env, folder))
    return Figure(
        "sbatch_cli_ms",
        statistics.median(taken),
        "ms",
        150,
        "lower",
        "simgpu",
        SAMPLES,
        statistics.median(bare),
        f"best {min(taken):.0f} ms",
    )


def measure() -> list[Figure]:
    """Both."""
    return [*agreement(), cost()]


if __name__ == "__main__":
    print(table(measure()))
