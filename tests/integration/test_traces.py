"""Recorded programs, done again on simgpu: alone, and beside somebody who takes the GPU away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish, kill
from moiety.testing.waiting import DEADLINE_S
from tests.traces import recording, trace

from .conftest import ROOT

MIB = 1 << 20
REPLAY = ROOT / "tests" / "traces" / "replay.py"
TRACES = sorted(trace.FOLDER.glob("*.calls.xz"))
BALLAST = 32 * MIB
GPU = "A100-80:memory=256MiB,residue=4MiB,link=8GB/s"


def names(path: Path) -> str:
    return path.name.removesuffix(".calls.xz")


def replay(path: Path, kernels: Path, *options: object) -> list[str]:
    return [sys.executable, *map(str, (REPLAY, path, kernels, *options))]


def scale(path: Path) -> float:
    """So that it takes 64 MiB at most."""
    return min(1.0, 64 * MIB / max(trace.load(path).memory_bytes, 1))


def outcome(process: subprocess.Popen[str]) -> dict[str, object]:
    code, out, err = finish(process)
    assert code in (0, 1), err
    found: dict[str, object] = json.loads(out)
    return found | {"stderr": err}


@pytest.mark.parametrize("driver", [12040, 13000])
@pytest.mark.parametrize("path", TRACES, ids=names)
def test_a_trace_gives_the_recorded_results_on_the_stand_in(
    path: Path, driver: int, make_node: Callable[[str], Node], kernels: Path
) -> None:
    with make_node(f"{GPU},driver={driver}") as node:
        found = outcome(node.run_alone(replay(path, kernels, "--scale", scale(path))))
    assert found["different"] == []
    assert found["calls"]


@pytest.mark.slow
def test_and_under_moiety_while_all_of_them_and_a_busy_program_take_turns(
    make_node: Callable[[str], Node], kernels: Path, programs: Path
) -> None:
    with make_node(GPU) as node:
        node.start_agent("--quantum", "20ms", "--idle-min", "5ms", "--arena", "2GiB")
        started = {"busy": node.run([programs / "worker", kernels, 150 * MIB, 100000, 2, 0, 1])}
        for path in TRACES:
            every = max(len(trace.load(path).steps) // 10, 1)
            options = ("--scale", scale(path), "--ballast", BALLAST, "--pause", f"25ms:{every}")
            command = replay(path, kernels, *options, "--until-told")
            started[names(path)] = node.run(command, stdin=True)

        def turns() -> int:
            for program in started.values():
                assert program.poll() is None, finish(program)
            rows = [row["handoffs"] for row in node.json("ps")]
            return min(rows) if len(rows) == len(started) else 0

        node.until(lambda: turns() > 3, "all had several turns")
        kill(started.pop("busy"))
        found = {name: outcome(program) for name, program in started.items()}
        warnings = node.cli("events", "--warnings").stdout
    wrong = {n: (one["different"], one["stderr"]) for n, one in found.items() if one["different"]}
    assert wrong == {}, warnings
    assert [n for n, one in found.items() if one["ballast"] and not one["ballast_checked"]] == []


# ---- the recorder ----


def record(
    native: Path, folder: Path, command: list[object], *, to: str | None = None
) -> subprocess.CompletedProcess[str]:
    """A program on a GPU of its own, recorded."""
    env = {
        **os.environ,
        "MOIETY_SIMGPU": GPU,
        "MOIETY_SIMGPU_STATE": str(folder / "state"),
        "LD_LIBRARY_PATH": str(native / "simgpu"),
        "LD_PRELOAD": str(native / "libmoiety-recorder.so"),
        "MOIETY_RECORD": to or str(folder),
    }
    return subprocess.run(
        [str(part) for part in command], env=env, capture_output=True, text=True,
        timeout=DEADLINE_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def recorded(folder: Path) -> list[recording.Call]:
    (file,) = folder.glob("*.calls")
    return list(recording.calls(file))


@pytest.mark.parametrize("form", ["worker", "worker-lookup"])
def test_the_recorder_sees_programs_that_link_the_driver_and_that_look_it_up(
    form: str, native: Path, programs: Path, kernels: Path, tmp_path: Path
) -> None:
    done = record(native, tmp_path, [programs / form, kernels, 4 * MIB, 2, 0, 0, 1])
    assert (done.returncode, done.stdout) == (0, "0 words wrong\n"), done.stderr
    calls = recorded(tmp_path)
    assert [c.result for c in calls] == [0] * len(calls)
    allocated = [c.arguments[1].value for c in calls if c.name == "cuMemAlloc_v2"]
    freed = [c.arguments[0].value for c in calls if c.name == "cuMemFree_v2"]
    made = [c.arguments[0].out for c in calls if c.name == "cuMemAlloc_v2"]
    assert sum(allocated) >= 4 * MIB
    assert sorted(freed) == sorted(v for v in made if v)
    assert any(c.name.startswith("cuLaunchKernel") for c in calls)


def test_a_recording_can_be_packed_and_done_again(
    native: Path, programs: Path, kernels: Path, tmp_path: Path, make_node: Callable[[str], Node]
) -> None:
    done = record(native, tmp_path, [programs / "worker", kernels, 32 * MIB, 2, 0, 0, 1])
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.calls")
    packed = tmp_path / "worker.calls.xz"
    command = [sys.executable, "-m", "tests.traces.pack", str(file), str(packed), "in a test"]
    subprocess.run(command, check=True, cwd=ROOT, timeout=DEADLINE_S)
    found = trace.load(packed)
    assert found.about["recorded"] == ["in a test"]
    assert 32 * MIB <= found.memory_bytes <= 33 * MIB
    with make_node(GPU) as node:
        again = outcome(node.run_alone(replay(packed, kernels, "--scale", 0.25, "--times", 2)))
    assert (again["calls"], again["different"]) == (len(recorded(tmp_path)), [])


def test_what_is_written_outlives_a_kill_and_a_child_writes_its_own(
    native: Path, tmp_path: Path
) -> None:
    code = (
        "import ctypes, os, signal;"
        "d = ctypes.CDLL('libcuda.so.1'); d.cuInit(0);"
        "pid = os.fork() or (d.cuDriverGetVersion(ctypes.byref(ctypes.c_int())), os._exit(0));"
        "os.waitpid(pid, 0); d.cuInit(0); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = record(native, tmp_path, [sys.executable, "-c", code])
    assert done.returncode == -9
    said = sorted([c.name for c in recording.calls(f)] for f in tmp_path.glob("*.calls"))
    assert said == [["cuDriverGetVersion"], ["cuInit", "cuInit"]]


def test_where_nothing_can_be_written_the_program_runs_all_the_same(
    native: Path, programs: Path, kernels: Path, tmp_path: Path
) -> None:
    command = [programs / "worker", kernels, MIB, 1, 0, 0, 1]
    done = record(native, tmp_path, command, to=str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (0, "0 words wrong\n"), done.stderr
    assert "MOIETY_RECORD cannot be written to" in done.stderr


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(ValueError, match=r"was not written by libmoiety-recorder\.so"):
        list(recording.calls(tmp_path / "x"))
