"""The stand-in driver's clock: with `charged` it stands still while the processor computes."""

from __future__ import annotations

import signal
import subprocess

from tests.support.simgpu_programs import Build, run

GPU = "A100-80:memory=256MiB,residue=2MiB"


def measured(build: Build, env: dict[str, str], gpu: str) -> tuple[int, int, int]:
    """What CLOCK_MONOTONIC, simgpu's clock and the processor counted for 256 MiB, in ns."""
    out = run(build("simgpu_charged"), {**env, "MOIETY_SIMGPU": gpu}, "measure")
    real, simulated, used = map(int, out.split())
    return real, simulated, used


def test_time_stands_still_while_a_kernel_with_a_charge_is_computed(
    build: Build, gpu: dict[str, str]
) -> None:
    real, simulated, used = measured(build, gpu, f"{GPU},charged=1")
    assert real - simulated >= used / 2, "nearly all of the processor's time is the kernel's"


def test_without_the_key_it_is_the_time_of_the_machine(build: Build, gpu: dict[str, str]) -> None:
    real, simulated, used = measured(build, gpu, GPU)
    assert real >= simulated >= used / 2


def test_the_clock_goes_on_when_a_process_is_killed_that_held_it(
    build: Build, gpu: dict[str, str]
) -> None:
    env = {**gpu, "MOIETY_SIMGPU": f"{GPU},charged=1"}
    program = build("simgpu_charged")
    pipe = subprocess.PIPE
    with (
        subprocess.Popen([program, "hold"], env=env, stdout=pipe, text=True) as holder,
        subprocess.Popen([program, "wait"], env=env, stdin=pipe, stdout=pipe, text=True) as other,
    ):
        assert other.stdout
        assert other.stdin
        assert other.stdout.readline() == "stands\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "goes on\n"
        assert other.wait() == 0
