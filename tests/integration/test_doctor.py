"""What the doctor says is in the way: which calls, of which version, of which program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.devices import driver
from moiety.testing.node import Node, finish
from tests.support.native import compile_c

from .conftest import NATIVE

MakeNode = Callable[[str], Node]
PINNING = """
#include <stdio.h>
#include "cuda/cuda_calls.h"
int main(void)
{
    char line[8];
    CUcontext context;
    CUmemGenericAllocationHandle team;
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 2 << 20};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) {
        return 1;
    }
    if (cuMulticastCreate(&team, &prop)) {
        return 3;
    }
    puts("ready");
    fflush(stdout);
    return fgets(line, sizeof(line), stdin) ? 0 : 2;
}
"""


def make_driver(folder: Path, version: int, names: list[str]) -> Path:
    """A library that calls itself the driver, and has these calls."""
    calls = "".join(f"int {name}(void) {{ return 999; }}\n" for name in names)
    source = folder / f"driver{version}.c"
    source.write_text(
        f"int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}\n{calls}"
    )
    return compile_c([source], folder / "libcuda.so.1", shared=True)


def findings(node: Node, folder: Path) -> dict[str, dict[str, str]]:
    """What the doctor says of the driver in a folder."""
    node.env |= {"MOIETY_SIMGPU": "", "LD_LIBRARY_PATH": str(folder)}
    return {f["about"]: f for f in json.loads(node.cli("doctor", "-o", "json").stdout)}


def test_calls_that_a_driver_lacks_are_named_with_their_version(
    make_node: MakeNode, tmp_path: Path
) -> None:
    has = [name for name, since in driver.NEEDED.items() if since != "11.3"]
    make_driver(tmp_path, 11000, has)
    found = findings(make_node("A100-80"), tmp_path)
    assert found["driver"]["text"].endswith("CUDA 11.0")
    assert found["driver calls"]["level"] == "bad"
    assert found["driver calls"]["text"] == (
        "the driver lacks cuGetProcAddress (there since CUDA 11.3)"
    )


def test_a_driver_that_is_newer_than_we_is_said_to_be(make_node: MakeNode, tmp_path: Path) -> None:
    make_driver(tmp_path, 15020, list(driver.NEEDED))
    found = findings(make_node("A100-80"), tmp_path)
    assert found["driver calls"]["level"] == "warn"
    assert "CUDA 15.2 is newer than CUDA 13.5" in found["driver calls"]["text"]


def test_a_call_that_keeps_a_program_from_moving_is_named(
    make_node: MakeNode, native: Path, tmp_path: Path
) -> None:
    source = tmp_path / "pinning.c"
    source.write_text(PINNING)
    flags = (f"-I{NATIVE}", str(native / "simgpu" / "libcuda.so.1"), "-ldl")
    program = compile_c([source], tmp_path / "pinning", flags=flags)
    node = make_node("H100-80:memory=96MiB,residue=2MiB")
    node.start_agent()
    process = node.run([program], stdin=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    node.until(
        lambda: (
            f"pinning (pid {process.pid}) called cuMulticastCreate" in node.cli("doctor").stdout
        ),
        "the call is named",
    )
    process.stdin.write("\n")  # type: ignore[union-attr]
    assert finish(process)[0] == 0


@pytest.mark.parametrize("name", sorted(driver.NEEDED))
def test_what_is_needed_is_in_the_table_since_then(name: str) -> None:
    table = (NATIVE / "cuda" / "entrypoints.def").read_text()
    major, minor = driver.NEEDED[name].split(".")
    assert f"{name}, {int(major) * 1000 + int(minor) * 10}" in table


def look(node: Node) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The doctor's exit code, and its findings by what they are about."""
    done = node.cli("doctor", "-o", "json")
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(done.stdout):
        found.setdefault(finding["about"], []).append(finding)
    return done.returncode, found


@pytest.mark.parametrize(
    ("state", "level", "says", "hint"),
    [
        ("compute_mode=0", "ok", "can be shared", ""),
        ("compute_mode=3", "bad", "EXCLUSIVE_PROCESS", "nvidia-smi -i 0 -c DEFAULT"),
        ("compute_mode=2", "bad", "no process (PROHIBITED)", "nvidia-smi -i 0 -c DEFAULT"),
        ("mig=1", "warn", "divided by MIG", "nvidia-smi -i 0 -mig 0"),
        ("no_persistence=1", "warn", "it unloads its driver", "nvidia-persistenced"),
    ],
)
def test_how_a_card_is_set_up_is_found(
    make_node: MakeNode, state: str, level: str, says: str, hint: str
) -> None:
    code, found = look(make_node(f"A100-80:{state}"))
    (card,) = found["GPU 0"]
    assert card["level"] == level
    assert says in card["text"]
    assert hint in card["hint"]
    assert (code != 0) == (level == "bad")


def test_an_exclusive_card_admits_one_program(
    make_node: MakeNode, build: Callable[[str], Path], kernels: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,compute_mode=3")
    command = [build("watched"), 1 << 20, 0, kernels]
    first = node.run_alone(command)
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    code, _, err = finish(node.run_alone(command))
    assert code == 1
    assert "failed with error 46" in err


def test_mps_is_found_by_its_socket_and_by_its_clients(
    make_node: MakeNode, build: Callable[[str], Path], kernels: Path, tmp_path: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,mps=1")
    node.env["CUDA_MPS_PIPE_DIRECTORY"] = str(tmp_path)
    assert look(node)[1]["MPS"][0]["level"] == "ok"
    client = node.run_alone([build("watched"), 1 << 20, 0, kernels])
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    (found,) = look(node)[1]["MPS"]
    assert found["level"] == "warn"
    assert f"1 program on the GPUs, watched (pid {client.pid}" in found["text"]
    (tmp_path / "control").touch()
    (found,) = look(node)[1]["MPS"]
    assert f"a control daemon answers in {tmp_path}" in found["text"]
    assert "nvidia-cuda-mps-control" in found["hint"]


def test_who_uses_a_gpu_without_moiety_is_found_with_and_without_an_agent(
    make_node: MakeNode, build: Callable[[str], Path], kernels: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,residue=2MiB")
    command = [build("watched"), 20 << 20, 0, kernels]
    assert look(node)[1]["GPU users"][0]["level"] == "ok"
    stray = node.run_alone(command)
    assert stray.stdout is not None
    assert stray.stdout.readline() == "ready\n"
    for agent in (False, True):
        if agent:
            node.start_agent()
            shared = node.run(command, stdin=True)
            assert shared.stdout is not None
            assert shared.stdout.readline() == "ready\n"
        (found,) = look(node)[1]["GPU users"]
        assert found["level"] == "warn"
        assert found["text"].startswith(f"watched (pid {stray.pid}, ")
        assert found["text"].endswith("uses GPU 0 without moiety (22 MiB)")
        assert "moiety run" in found["hint"]


def test_an_agent_elsewhere_is_named(make_node: MakeNode) -> None:
    node, other = make_node("A100-80"), make_node("2xA100-80")
    other.start_agent()
    folder = Path(node.env["MOIETY_DIR"])
    node.env["MOIETY_SYSTEM_DIR"] = str(other.directory)
    node.env["MOIETY_DIR"] = str(folder)
    (found,) = look(node)[1]["other agents"]
    assert found["level"] == "ok"
    assert f"in {other.directory}, pid " in found["text"]
    assert (
        found["hint"] == f"MOIETY_DIR={other.directory} moiety agent stop, if no program needs it"
    )
