"""inspect, kill and wait on programs of a real agent; and what an ended program leaves."""

from __future__ import annotations

import signal
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
    assert node.cli("ps", "-q", "--user", "nosuch").stdout == ""
    late = node.cli("wait", "chat", "--timeout", "1ms")
    assert late.returncode == errors.StillRunning.exit_code
    assert f"chat (pid {user.pid}) still runs after 1 ms" in late.stderr
    waiting = node.start([sys.executable, "-m", "moiety", "wait", "chat", "-o", "json"])
    done = node.cli("kill", str(user.pid))
    assert done.stdout == f"SIGTERM sent to chat (pid {user.pid})\n"
    assert user.wait() == -signal.SIGTERM
    code, out, _ = finish(waiting)
    # it may have begun after the end: then there is no such program any more
    assert (code, str(user.pid) in out) in ((0, True), (0, False), (66, False))
    for command in ("kill", "wait", "inspect"):
        node.until(lambda: not node.json("ps"), "it is gone")
        assert node.cli(command, "chat").returncode == errors.WorkloadUnknown.exit_code


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
