"""A notebook's kernel shares a GPU: it leaves while no cell runs, and comes back for the next."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish
from moiety.testing.waiting import DEADLINE_S

pytestmark = pytest.mark.filterwarnings("default")  # those of Jupyter's packages are their own
MIB = 1 << 20
MakeNode = Callable[[str], Node]
CUDA = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def must(code):
    assert code == 0, code
device, context, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
must(cuda.cuCtxSetCurrent(context))
SIZE = 160 << 20
must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(SIZE)))
must(cuda.cuMemsetD8_v2(at, 42, ctypes.c_size_t(SIZE)))
"""
READ = """
found = (ctypes.c_ubyte * SIZE)()
must(cuda.cuMemcpyDtoH_v2(found, at, ctypes.c_size_t(SIZE)))
print(bytes(found) == bytes([42]) * SIZE)
"""
SPECS = ("ipykernel", "jupyter_client")


@pytest.fixture
def node(make_node: MakeNode, tmp_path: Path) -> Node:
    node = make_node("T4:memory=256MiB,residue=1MiB")
    node.env |= {
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "run"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    # ipykernel looks at it, and then shows in no cell what is written to its descriptors.
    node.env.pop("PYTEST_CURRENT_TEST", None)
    return node


class Kernel:
    """A kernel as a notebook has one."""

    def __init__(self, node: Node, name: str, folder: Path) -> None:
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import KernelManager

        specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
        self.manager: Any = KernelManager(kernel_name=name, kernel_spec_manager=specs)
        self.manager.start_kernel(env=node.env, cwd=str(folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE_S)

    def run(self, cell: str, once_told: Callable[[], object] = lambda: None) -> dict[str, str]:
        """What a cell wrote, by stream; raises AssertionError if it failed.

        `once_told` is called while the cell goes on, when its stderr has its first line.
        """
        said = {"stdout": "", "stderr": ""}

        def heard(message: dict[str, Any]) -> None:
            if message["msg_type"] != "stream":
                return
            stream, text = message["content"]["name"], message["content"]["text"]
            first = stream == "stderr" and "\n" in text and "\n" not in said[stream]
            said[stream] += text
            if first:
                once_told()

        reply = self.client.execute_interactive(cell, timeout=DEADLINE_S, output_hook=heard)
        assert reply["content"]["status"] == "ok", reply["content"]
        return said

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(node: Node, tmp_path: Path) -> Iterator[Callable[[str], Kernel]]:
    made: list[Kernel] = []

    def start(name: str) -> Kernel:
        made.append(Kernel(node, name, tmp_path / "data"))
        return made[-1]

    yield start
    for each in made:
        each.close()


def needs_jupyter() -> None:
    missing = [name for name in SPECS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: pip install {' '.join(SPECS)}")


def of_kernel(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in node.json("ps") if row["program"] == "moiety")
    return found


def state_of(node: Node, name: str) -> str:
    return str(next(row["state"] for row in node.json("ps") if row["program"] == name))


@pytest.mark.slow
def test_a_kernel_leaves_while_no_cell_runs_and_comes_back_for_the_next(
    node: Node, kernel: Callable[[str], Kernel], programs: Path, kernels: Path
) -> None:
    needs_jupyter()
    node.start_agent("--say-after", "1ms")
    assert node.cli("jupyter", "install").returncode == 0
    notebook = kernel("moiety")
    notebook.run(CUDA)
    assert of_kernel(node)["resident_bytes"] >= 160 * MIB

    # Somebody else needs the room while nobody runs a cell.
    other = node.run([programs / "worker", kernels, 160 * MIB, 10**6, 10, 0, 7], "--name", "other")
    node.until(lambda: of_kernel(node)["resident_bytes"] < 100 * MIB, "the kernel's memory is out")
    assert of_kernel(node)["state"] == "idle"

    # A cell waits for a turn that has no end, and brings the memory back when turns end again.
    assert node.cli("set", "--agent", "--idle-min", "1h", "--idle-free", "1h").returncode == 0
    assert node.cli("set", "other", "--quantum", "1h").returncode == 0
    node.until(lambda: state_of(node, "other") == "holding", "the other one has the GPU")
    said = notebook.run(READ, lambda: node.cli("set", "other", "--quantum", "100ms"))
    assert said["stdout"] == "True\n"
    assert "moiety: waiting for GPU 0, " in said["stderr"], said
    assert "held by other (pid " in said["stderr"]
    assert other.poll() is None
    other.terminate()
    finish(other)
    assert notebook.run(READ)["stdout"] == "True\n"


@pytest.mark.slow
def test_an_interrupt_reaches_a_cell_and_a_restart_begins_anew(
    node: Node, kernel: Callable[[str], Kernel]
) -> None:
    needs_jupyter()
    node.start_agent("--linger", "0")
    assert node.cli("jupyter", "install", "--name", "half", "--", "--gpu", "0.5").returncode == 0
    notebook = kernel("half")
    notebook.run(CUDA)
    assert node.json("ps")[0]["share"]["gpu"] == 0.5
    message = notebook.client.execute("import time\nprint('in', flush=True)\ntime.sleep(600)")
    while True:
        heard = notebook.client.get_iopub_msg(timeout=DEADLINE_S)
        if heard["msg_type"] == "stream":
            break
    notebook.manager.interrupt_kernel()
    reply = notebook.client.get_shell_msg(timeout=DEADLINE_S)
    assert (reply["parent_header"]["msg_id"], reply["content"]["ename"]) == (
        message,
        "KeyboardInterrupt",
    )
    before = node.json("ps")[0]["pid"]
    notebook.manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=DEADLINE_S)
    notebook.run(CUDA)
    node.until(lambda: [r["pid"] != before for r in node.json("ps")] == [True], "only the new one")
    assert notebook.run(READ)["stdout"] == "True\n"


def test_a_kernel_is_written_where_jupyter_looks(node: Node, tmp_path: Path) -> None:
    """Also one of another language, which then is what runs."""
    specs = tmp_path / "data" / "kernels"
    (specs / "ir").mkdir(parents=True)
    r = {"argv": ["R", "--args", "{connection_file}"], "display_name": "R", "language": "R"}
    (specs / "ir" / "kernel.json").write_text(json.dumps(r))
    made = node.cli("jupyter", "install", "--like", "ir", "--name", "IR-gpu", "--", "--gpu", "30%")
    assert made.returncode == 0, made.stderr
    spec = json.loads((specs / "ir-gpu" / "kernel.json").read_text())
    command = [sys.executable, "-m", "moiety", "run", "--say", "always", "--name", "IR-gpu"]
    assert spec["argv"] == [*command, "--gpu", "30%", "--", "R", "--args", "{connection_file}"]
    assert (spec["display_name"], spec["language"]) == ("R (shared GPU)", "R")

    again = node.cli("jupyter", "install", "--like", "ir", "--name", "IR-gpu")
    assert (again.returncode, "--force" in again.stderr) == (errors.FileExists.exit_code, True)
    assert node.cli("jupyter", "install", "--like", "ir", "--name", "ir", "--force").returncode == 0
    node.env["MOIETY_ERRORS"] = "json"
    for wrong, error in (
        (["--like", "julia"], errors.BadArgument),
        (["--like", "ir-gpu"], errors.BadArgument),
        (["--like", "ir", "--name", "a/b"], errors.BadArgument),
        (["--python", "/nowhere/python"], errors.BadArgument),
        (["--like", "ir", "--name", "x", "--", "--gpu", "2"], errors.InvalidFraction),
        (["--like", "ir", "--name", "x", "--", "--gup", "2"], errors.BadArgument),
    ):
        refused = node.cli("jupyter", "install", *wrong)
        told = json.loads(refused.stderr)
        assert (refused.returncode, told["error"]) == (error.exit_code, error.__name__), wrong


def test_a_python_without_ipykernel_is_named(node: Node, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    refused = node.cli("jupyter", "install", "--python", str(bare))
    assert (refused.returncode, "-m pip install ipykernel" in refused.stderr) == (64, True)
