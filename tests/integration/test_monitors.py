"""Inside a share, monitoring tools see the share; outside of it, the card."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moiety.testing.node import Node, finish

MIB = 1 << 20
MakeNode = Callable[[str], Node]
SMALL = "A100-80:memory=256MiB,residue=2MiB"

LOOK = """
import ctypes, json, os, subprocess, sys
import pynvml

def seen():
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    one = pynvml.nvmlDeviceGetMemoryInfo(gpu)
    two = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    assert (one.total, one.used, one.free) == (two.total, two.used, two.free)
    return [one.total, one.used, one.free]

first = seen()
if len(sys.argv) > 1:
    print(json.dumps(first))
    sys.exit()
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(32 << 20)) == 0
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=True)
print(json.dumps([first, seen(), json.loads(child.stdout), [total.value, free.value]]))
"""


def look(process: subprocess.Popen[str]) -> Any:
    code, out, err = finish(process)
    assert code == 0, err
    return json.loads(out)


def test_a_share_is_seen_with_what_all_its_processes_use(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent()
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    other = node.run([sys.executable, script], "--memory-limit", "100MiB")
    before, own, of_child, of_driver = look(other)
    assert before == [100 * MIB, 0, 100 * MIB]
    assert own == [100 * MIB, 32 * MIB, 68 * MIB]
    assert of_child == own
    assert [own[0], own[2]] == of_driver


def test_without_a_limit_the_share_is_all_that_is_shared_out(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent("--capacity", "200MiB")
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    assert look(node.run([sys.executable, script, "only"])) == [200 * MIB, 0, 200 * MIB]
    assert node.json("ps") == []  # who only looks does not join


def test_without_an_agent_the_card_is_seen(
    make_node: MakeNode, tmp_path: Path, native: Path
) -> None:
    node = make_node(SMALL)
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    assert look(node.run_alone([sys.executable, script, "only"])) == [256 * MIB, 0, 256 * MIB]
    gone = {
        "LD_LIBRARY_PATH": str(native / "simgpu"),
        "LD_PRELOAD": str(native / "libmoiety.so"),
        "MOIETY_SOCKET": str(tmp_path / "nobody"),
    }
    alone = node.start([sys.executable, str(script), "only"], env=gone)
    assert look(alone) == [256 * MIB, 0, 256 * MIB]
