"""Debuggers, tracers and sanitizers beside the shim, and those that are refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.cli.debugger_check import REFUSED
from moiety.devices.program_environment import preloaded
from moiety.model import errors
from moiety.testing.node import Node, finish

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
MakeNode = Callable[[str], Node]


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    node = make_node("T4:memory=256MiB,residue=1MiB")
    node.start_agent()
    return node


@pytest.fixture
def work(kernels: Path) -> list[object]:
    """What a worker is told: a little of everything."""
    return [kernels, 8 * MIB, 2, 1, 0, 7]


def built(tmp_path: Path, native: Path, *flags: str) -> Path:
    """The worker, with the system's compiler, which has the runtimes; skips without it."""
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("gcc is not installed")
    program = tmp_path / "worker"
    source = str(ROOT / "demo" / "worker.c")
    driver = str(native / "simgpu" / "libcuda.so.1")
    command = [compiler, "-g", *flags, f"-I{ROOT / 'native'}", "-o", str(program), source, driver]
    made = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"gcc {flags[0]} does not work here: {made.stderr.splitlines()[-1]}")
    return program


def test_a_program_with_address_sanitizer_shares(
    node: Node, native: Path, tmp_path: Path, work: list[object]
) -> None:
    """Its runtime wants to be the first library, and looks symbols up through us at once."""
    program = built(tmp_path, native, "-fsanitize=address", "-O1")
    quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
    assert finish(node.run([program, *work], env=quiet))[::2] == (0, "")
    runtime = next(name for name in libraries(program) if "asan" in name)
    order = f"{runtime}:/x/libmoiety.so:libc.so.6"
    assert preloaded("/x/libmoiety.so", str(program), f"libc.so.6 {runtime}") == order
    assert preloaded("/x/libmoiety.so", sys.executable, f"libc.so.6:{runtime}") == order
    assert preloaded("/x/libmoiety.so", str(program), "/x/libmoiety.so:libc.so.6") == order


def libraries(program: Path) -> list[str]:
    from moiety.devices.elf import needed

    return needed(program)


def test_a_program_with_thread_sanitizer_shares(node: Node, tmp_path: Path) -> None:
    """It starts, at least: simgpu's own threads are nothing that it should look at."""
    source = tmp_path / "small.c"
    source.write_text("int main(void) { return 7; }\n")
    program = tmp_path / "small"
    if subprocess.run(["gcc", "-fsanitize=thread", "-o", program, source]).returncode:
        pytest.skip("gcc -fsanitize=thread does not work here")
    if subprocess.run([program]).returncode != 7:
        pytest.skip("thread sanitizer does not work here at all")
    assert finish(node.run([program]))[0] == 7


def test_a_program_can_be_traced(
    node: Node, programs: Path, work: list[object], tmp_path: Path
) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    log = tmp_path / "log"
    traced = node.run(["strace", "-f", "-o", log, programs / "worker", *work])
    assert finish(traced)[0] == 0
    assert "shim.sock" in log.read_text()


def test_a_program_can_be_debugged(node: Node, programs: Path, work: list[object]) -> None:
    """The debugger opens all libraries, also those that a driver loads from memory."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    commands = ["-ex", "tbreak write", "-ex", "run", "-ex", "bt", "-ex", "continue"]
    gdb = ["gdb", "-batch", "-nx", "-ex", "set breakpoint pending on", *commands]
    debugged = node.run([*gdb, "--args", programs / "worker", *work], env={"DEBUGINFOD_URLS": ""})
    code, said, _ = finish(debugged)
    assert code == 0
    assert "#0 " in said, "it was stopped in between"
    assert "0 words wrong" in said
    assert "exited normally" in said


@pytest.mark.parametrize("tool", ["ncu", "compute-sanitizer", "cuda-gdb", "cuda-memcheck"])
def test_a_tool_that_cannot_share_is_refused_with_what_to_do(
    node: Node, tmp_path: Path, tool: str
) -> None:
    program = tmp_path / tool
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    refused = node.cli("run", "--", str(program), "--args", "true")
    assert refused.returncode == errors.ToolRefused.exit_code
    assert REFUSED.get(tool, REFUSED["compute-sanitizer"]).why in refused.stderr
    assert "MOIETY_DISABLE=1" in refused.stderr
    assert node.cli("run", "--no-check", "--", str(program)).stdout == "ran\n"
    node.env["MOIETY_DISABLE"] = "1"
    assert node.cli("run", "-q", "--", str(program)).stdout == "ran\n"


UNDER = {
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR": "/opt/ncu",
    "CUDA_INJECTION64_PATH": "/opt/sanitizer/libsanitizer-collection.so",
    "NVTX_INJECTION64_PATH": "libsanitizer-collection.so",
}


@pytest.mark.parametrize("variable", list(UNDER))
def test_it_is_refused_from_inside_as_well(
    node: Node, programs: Path, work: list[object], variable: str
) -> None:
    """Whether it started `moiety run`, or is started by what runs under it."""
    inside = {variable: UNDER[variable]}
    command = [programs / "worker", *work]
    assert finish(node.run(command, env=inside))[0] == errors.ToolRefused.exit_code
    later = node.run(["env", f"{variable}={UNDER[variable]}", *command])
    code, _, err = finish(later)
    assert code == 1
    assert "cannot do its work on a shared GPU" in err
    assert "cuInit failed with error 800" in err
    assert finish(node.run(command, "--no-check", env=inside))[0] == 0


def test_what_only_watches_calls_is_let_in(node: Node, programs: Path, work: list[object]) -> None:
    """Systems' profilers say so by these; the driver loads the first by itself."""
    marks = {"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}
    marks |= {"QUADD_INJECTION_PROXY": "CUDA, NVTX, OSRT"}
    assert finish(node.run([programs / "worker", *work], env=marks))[::2] == (0, "")


def test_the_list_of_the_shim_is_that_of_the_command() -> None:
    from moiety.cli.debugger_check import MARKS

    source = (ROOT / "native" / "shim" / "control" / "debugger_check.c").read_text()
    found = re.findall(r'\{"(\w+)", "([^"]*)", "([\w-]+)"\}', source)
    assert [tuple(mark) for mark in found] == list(MARKS)
    assert {name for *_, name in MARKS} <= set(REFUSED)
    assert os.environ.get("MOIETY_TOOLS") is None
