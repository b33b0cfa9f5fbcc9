"""A pool on a simulated machine with 8 GPUs: three projects, forty short workloads of five kinds.

Two projects have quotas of 5 and 3 GPUs, and have them at any time. The third has none: what it
submitted first waits until the others leave GPUs. A table says who got what, and when.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.run import build
from moiety.cli.main import moiety as commands
from moiety.testing.node import Node

GPU: Final = "8xA100-80:memory=320MiB,link=4GB/s"
PROJECTS: Final = """\
projects:
- {name: vision, quota: 5, weight: 2}
- {name: nlp, quota: 3}
- {name: students, quota: 0}
"""
PATIENCE_S: Final = 110.0
MIB: Final = 1 << 20
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "a whole GPU": (),
    "two GPUs": ("--gpus", "2"),
    "half of a GPU": ("--gpu", "0.5", "--memory", "96MiB"),
    "opportunistic": ("--opportunistic",),
    "no GPU": ("--gpus", "0"),
}
WORK: Final = (
    ("students", "a whole GPU", 10),
    ("vision", "a whole GPU", 6),
    ("vision", "two GPUs", 2),
    ("nlp", "half of a GPU", 8),
    ("nlp", "a whole GPU", 4),
    ("students", "opportunistic", 6),
    ("students", "no GPU", 4),
)
"""Project, kind and number, in the order in which they are submitted."""


def moiety(node: Node, *words: str) -> str:
    """One command; SystemExit if it fails."""
    done = node.cli(*words)
    if done.returncode != 0:
        raise SystemExit(f"demo: moiety {' '.join(words)} failed: {done.stderr}")
    return done.stdout


def submit_all(node: Node, folder: Path, kernels: Path, program: Sequence[str]) -> None:
    """Submit every workload, by `moiety submit` in this process: forty people type at one time."""
    os.environ.update(node.env)
    number = 0
    for project, kind, count in WORK:
        for _ in range(count):
            number += 1
            worker = [*program, str(kernels), str(48 * MIB), "4", "400", "300", str(number)]
            command = worker if kind != "no GPU" else ["sleep", "1"]
            words = [
                "submit", "-q", "--project", project, "--name", kind.replace(" ", "-"),
                "--log", str(folder / "%j.log"), *KINDS[kind], "--", *command,
            ]  # fmt: skip
            with contextlib.redirect_stdout(io.StringIO()):
                commands.main(words, "moiety", standalone_mode=False)
        print(f"demo: {project} submitted {count} x {kind}", flush=True)


def suspend_one(node: Node, rows: Sequence[Mapping[str, Any]]) -> str:
    """Suspend a workload that has a whole GPU; its number, empty if there is none to suspend."""
    for row in rows:
        if row["state"] == "running" and row["name"] == "a-whole-GPU":
            done = node.cli("suspend", str(row["id"]))
            if done.returncode == 0:  # else it has just ended
                print(f"$ moiety suspend {row['id']}\n{done.stdout}", end="", flush=True)
                return str(row["id"])
    return ""


def watch(node: Node) -> None:
    """Print what runs, each time that it is different, until nothing is left.

    One workload is suspended by hand and resumed a little later.
    """
    suspended = resumed = ""
    before: Counter[str] = Counter()
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        rows: list[dict[str, Any]] = json.loads(moiety(node, "queue", "-o", "json"))
        running = Counter(row["project"] for row in rows if row["state"] == "running")
        if running != before:
            has = ", ".join(f"{name} {running[name]}" for name in sorted(running))
            print(f"demo: {has or 'nothing'} running, {len(rows) - running.total()} waiting")
            before = running
        if not rows:
            return
        if suspended and not resumed:
            resumed = suspended
            said = moiety(node, "resume", resumed)
            print(f"$ moiety resume {resumed}\n{said}", end="", flush=True)
        suspended = suspended or suspend_one(node, rows)
        time.sleep(0.5)
    raise SystemExit(f"demo: {len(rows)} workloads have not ended after {PATIENCE_S:.0f} s")


def show(rows: Sequence[Mapping[str, Any]], began_s: float) -> int:
    """The table of who got what; returns the number of workloads that did not end well."""
    titles = f"{'done':>6}{'other':>7}{'waited':>9}{'GPU-s':>8}{'last':>8}"
    print(f"\n  {'project':<10}{'kind':<16}{titles}")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["project"], row["name"]), []).append(row)
    for (project, kind), found in sorted(groups.items()):
        done = sum(row["state"] == "done" for row in found)
        waited = sum(row["began_s"] - row["submitted_s"] for row in found) / len(found)
        used = sum(
            (row["ended_s"] - row["began_s"] - row["suspended_s"])
            * len(row["cards"])
            * row["gpu_milli"]
            / 1000
            for row in found
        )
        last = max(row["ended_s"] for row in found) - began_s
        print(
            f"  {project:<10}{kind:<16}{done:>6}{len(found) - done:>7}{waited:>7.1f} s{used:>8.1f}"
            f"{last:>6.0f} s"
        )
    again = sum(row["attempt"] > 1 for row in rows)
    kept = sum(row["suspended_s"] > 0 for row in rows)
    went_on = (
        "1 was suspended and went on where it was"
        if kept == 1
        else (f"{kept} were suspended and went on where they were")
    )
    gave = "its GPUs" if again == 1 else "their GPUs"
    print(
        f"\n{len(rows)} workloads; {went_on}; "
        f"{again} had to give {gave} to a quota, and began again later."
    )
    return sum(row["state"] != "done" for row in rows)


def main() -> int:
    """Submit, watch, show."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="moiety-demo-"))
    try:
        print("demo: building the program ...", flush=True)
        kernels, programs = build(folder, simulated=True)
        with Node(folder, GPU) as node:
            node.start_agent()
            print("demo: simgpu, the stand-in driver: a machine with 8 simulated GPUs")
            print("$ moiety up\n" + moiety(node, "up"), end="")
            try:
                return play(node, folder, kernels, programs[0])
            finally:
                for project in ("vision", "nlp", "students"):
                    node.cli("cancel", "--project", project)
                node.cli("down")
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(node: Node, folder: Path, kernels: Path, program: Sequence[str]) -> int:
    """The whole day, with the pool up."""
    file = folder / "pool.yaml"
    file.write_text(PROJECTS)
    print("$ moiety apply -f pool.yaml\n" + moiety(node, "apply", "-f", str(file)), end="")
    began_s = time.time()
    submit_all(node, folder, kernels, program)
    print("$ moiety queue --projects\n" + moiety(node, "queue", "--projects"), end="")
    waiting = json.loads(moiety(node, "queue", "--state", "pending", "-o", "json"))
    if waiting:
        number = str(waiting[0]["id"])
        print(f"$ moiety explain {number}\n" + moiety(node, "explain", number), end="", flush=True)
    watch(node)
    rows = json.loads(moiety(node, "history", "--limit", "1000", "-o", "json"))
    wrong = show(rows, began_s)
    return 1 if wrong or len(rows) != sum(count for *_, count in WORK) else 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
