"""inspect, kill and wait on programs of a real agent; and what an ended program leaves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from moiety.model import errors
from moiety.testing.node import Lines, Node, finish

MakeNode = Callable[[str], Node]
USER = """
import ctypes, sys
d = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert d.cuInit(0) == 0
assert d.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert d.cuCtxSetCurrent(context) == 0
print("up", flush=True)
sys.stdin.read()
"""
STEP = """
print("here", flush=True)
sys.stdin.readline()
"""
LATER = f"import sys{STEP}" + USER.replace("cuInit(0) == 0\n", f"cuInit(0) == 0{STEP}")
CARD = "A100-80:memory=96MiB,residue=2MiB"


def test_a_program_is_inspected_waited_for_and_ended(make_node: MakeNode) -> None:
    node = make_node(CARD)
    node.start_agent()
    user = node.run([sys.executable, "-c", USER], "--name", "chat", stdin=True)
    assert Lines(user.stdout).next() == "up\n"
    (row,) = node.json("inspect", "chat")
    assert (row["pid"], row["gpu"]) == (user.pid, 0)
    shown = node.cli("inspect", str(row["tenant"])).stdout
    assert shown.startswith(f"chat (tenant {row['tenant']}, pid {user.pid}) on GPU 0\n")
    assert node.cli("ps", "-q", "--user", str(row["uid"])).stdout == f"{row['tenant']}\n"
    titles = [line[2:22].strip() for line in shown.splitlines()[1:]]
    assert len({*titles}) == len(titles) > 30, "each line has a name of its own"
    assert re.search(r"\n  received +[0-9.]+ %\n", shown)
    assert re.search(r"\n  share gpu limit +100 %\n", shown)
    unknown = node.cli("ps", "-q", "--user", "nosuch")
    assert (unknown.returncode, unknown.stdout) == (errors.UserUnknown.exit_code, "")
    assert "no user is called 'nosuch'\n  try: " in unknown.stderr
    late = node.cli("wait", "chat", "--timeout", "1ms")
    assert late.returncode == errors.StillRunning.exit_code
    assert f"chat (pid {user.pid}) still runs after 1 ms" in late.stderr
    waiting = node.start([sys.executable, "-m", "moiety", "wait", "chat", "-o", "json"])
    done = node.cli("kill", str(user.pid))
    assert done.stdout == f"SIGTERM sent to chat (pid {user.pid})\n"
    assert user.wait() == -signal.SIGTERM
    code, out, _ = finish(waiting)
    if code == 0:
        (ended,) = json.loads(out)
        # None: an older kernel
        assert (ended["exit_code"], ended["signal"]) in ((None, "SIGTERM"), (None, None))
    # it may have begun after the end: then there is no such program any more
    assert (code, str(user.pid) in out) in ((0, True), (0, False), (66, False))
    for command in ("kill", "wait", "inspect"):
        node.until(lambda: not node.json("ps"), "it is gone")
        assert node.cli(command, "chat").returncode == errors.WorkloadUnknown.exit_code


def states(node: Node) -> dict[int, str]:
    """By pid, of all programs on the GPUs and of those that will be."""
    return {row["pid"]: row["state"] for row in node.json("ps", "-a")}


def outside(node: Node) -> dict[str, str]:
    """What a program needs to use this node's GPU without moiety."""
    return {"LD_LIBRARY_PATH": f"{node.env['MOIETY_NATIVE']}/simgpu"}


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_program_before_its_first_context_is_listed_and_found(make_node: MakeNode) -> None:
    node = make_node(CARD)
    node.start_agent()
    user = node.run([sys.executable, "-c", LATER], "--name", "chat", stdin=True)
    lines = Lines(user.stdout)
    assert lines.next() == "here\n"
    assert node.json("ps") == []
    assert states(node) == {user.pid: "starting"}
    shown = node.cli("inspect", "chat").stdout
    assert shown.startswith(f"chat (pid {user.pid}) on no GPU\n  ")
    waiting = node.start([sys.executable, "-m", "moiety", "wait", "chat", "-o", "json"])
    tell(user)
    assert lines.next() == "here\n"
    (tenant,) = node.json("ps")
    assert (tenant["pid"], tenant["state"], tenant["gpu"]) == (user.pid, "starting", None)
    assert states(node) == {user.pid: "starting"}
    tell(user)
    assert lines.next() == "up\n"
    assert states(node)[user.pid] not in ("starting", "off-gpu", "outside")
    assert node.cli("kill", str(user.pid)).returncode == 0
    assert user.wait() == -signal.SIGTERM
    assert finish(waiting)[0] in (0, errors.WorkloadUnknown.exit_code)


def test_a_shell_between_two_programs_is_not_starting(make_node: MakeNode) -> None:
    node = make_node(CARD)
    node.start_agent()
    once = USER.replace("sys.stdin.read()", "")
    shell = f"read x; {sys.executable} -c '{once}'; echo between; read x"
    user = node.run(["sh", "-c", shell], stdin=True)
    node.until(lambda: states(node) == {user.pid: "starting"}, "it starts")
    tell(user)
    lines = Lines(user.stdout)
    assert [lines.next(), lines.next()] == ["up\n", "between\n"]
    node.until(lambda: not node.json("ps"), "its program is gone")
    assert states(node) == {user.pid: "off-gpu"}
    assert node.cli("kill", "sh").returncode == 0
    assert user.wait() == -signal.SIGTERM


def test_a_program_outside_is_listed_with_or_without_an_agent(make_node: MakeNode) -> None:
    node = make_node(CARD)
    user = node.start([sys.executable, "-c", USER], stdin=True, env=outside(node))
    assert Lines(user.stdout).next() == "up\n"
    without = node.cli("ps", "-a").stdout
    node.start_agent()
    for shown in (without, node.cli("ps", "-a").stdout):
        _, line, *_ = shown.splitlines()
        words = line.split()
        assert words[:2] == ["-", str(user.pid)]
        assert ("outside" in words, "2" in words, "MiB" in words) == (True, True, True)
    assert without.endswith("no agent is running, so no GPU is shared\n")
    assert node.cli("ps", "-a", "-q").stdout == ""
    assert node.cli("kill", str(user.pid)).returncode == errors.WorkloadUnknown.exit_code


def test_two_large_promises_one_after_the_other_are_both_kept(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(CARD)
    node.start_agent()
    program = tmp_path / "user.py"
    program.write_text(USER.replace("sys.stdin.read()", ""))
    run = f"{sys.executable} -m moiety run --gpu 0.6 -- {sys.executable} {program}"
    code, out, said = finish(node.start(["sh", "-ec", f"{run}; {run}; {run}"]))
    assert (code, out) == (0, "up\n" * 3), said
