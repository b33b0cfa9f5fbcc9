"""How long a request takes beside a program that fills the GPU, when both fit.

An inference server of the latency class is asked for 5 ms of GPU work at random times while a
training loop keeps 64 ms of kernels queued. The 99th percentile, over that of the server alone on
the GPU. The baseline is the same two without moiety. The training has what the requests leave of
the GPU: that is compared with what it gets.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from tests.support.native import compile_c

HERE = Path(__file__).resolve().parent
GPU = "A100-80:memory=96MiB,residue=2MiB"
REQUESTS, REQUEST_S = 400, 0.005
TRAINING = (200, 320, 600)
"""Microseconds of a kernel, how many are queued, seconds (it is ended before that)"""


def build(folder: Path, name: str) -> Path:
    """A client in bench/native that is linked with the driver."""
    driver = Path(str(simgpu_dir())) / "libcuda.so.1"
    return compile_c(
        [HERE / "native" / f"{name}.c"],
        folder / name,
        flags=(f"-I{HERE.parent / 'native'}", str(driver), "-Wl,--allow-shlib-undefined", "-lm"),
    )


def p99_ms(server: subprocess.Popen[str]) -> tuple[float, float]:
    """The 99th percentile and the median of all requests."""
    code, out, err = finish(server)
    if code != 0:
        raise RuntimeError(err)
    took_ms = [int(line) / 1e6 for line in out.split()]
    return statistics.quantiles(took_ms, n=100)[98], statistics.median(took_ms)


def trained_s(training: subprocess.Popen[str]) -> float:
    """End a training; the seconds for which its kernels ran."""
    training.send_signal(signal.SIGTERM)
    code, out, err = finish(training)
    if code != 0:
        raise RuntimeError(err)
    return int(out.split()[-1]) * TRAINING[0] / 1e6


def rest_ratio(ran_s: float, lasted_s: float) -> float:
    """The part of the time that the requests left in which the training ran."""
    return ran_s / (lasted_s - REQUESTS * REQUEST_S)


def measure() -> list[Figure]:
    """Alone, beside the other without moiety, and beside it with."""
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        server = [str(build(folder, "requests")), str(kernels), str(REQUESTS), "1"]
        training = [str(build(folder, "steady")), str(kernels), *map(str, TRAINING)]
        with Node(folder, GPU) as node:
            alone, _ = p99_ms(node.run_alone(server))
            beside = node.run_alone(training)
            assert beside.stdout is not None
            beside.stdout.readline()
            began_s = time.monotonic()
            plain, _ = p99_ms(node.run_alone(server))
            lasted_s = time.monotonic() - began_s
            plain_rest = rest_ratio(trained_s(beside), lasted_s)
            node.start_agent()
            beside = node.run(training)
            assert beside.stdout is not None
            beside.stdout.readline()
            began_s = time.monotonic()
            shared, median = p99_ms(node.run(server, "--latency"))
            lasted_s = time.monotonic() - began_s
            rest = rest_ratio(trained_s(beside), lasted_s)
    return [
        Figure(
            "latency_p99_ratio",
            shared / alone,
            "",
            1.25,
            "lower",
            "simgpu",
            REQUESTS,
            plain / alone,
            f"p99 {shared:.1f} ms, median {median:.1f} ms; alone {alone:.1f} ms",
        ),
        Figure(
            "latency_rest_ratio",
            rest,
            "",
            0.8,
            "higher",
            "simgpu",
            REQUESTS,
            plain_rest,
            "the training's kernels, over the time that the requests leave; "
            "baseline: without moiety",
        ),
    ]
