"""Errors of the GPUs and of their driver."""

from __future__ import annotations

from collections.abc import Sequence

from moiety.model.errors.base import ExitCode, MoietyError


class GpuError(MoietyError):
    """There is no GPU that can be shared."""


class NoDriver(GpuError):
    """NVIDIA's driver cannot be loaded."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, problem: str = "libcuda.so.1 is not found") -> None:
        super().__init__(
            f"there is no NVIDIA driver to use: {problem}",
            "`nvidia-smi`, which tests the driver; without a GPU: MOIETY_SIMGPU=A100-80",
        )


class DriverTooOld(GpuError):
    """The driver lacks functions that moiety is built on."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, path: str, lacking: Sequence[str]) -> None:
        super().__init__(
            f"the driver {path} is too old: it has no {', '.join(lacking)}",
            "install a driver of the 470 branch or newer (CUDA 11.4)",
        )


class NoGpu(GpuError):
    """The driver finds no GPU, or none with the index that was named."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, wanted: Sequence[int] | None = None, problem: str = "") -> None:
        named = f" with the index {', '.join(map(str, wanted))}" if wanted else ""
        because = f": {problem}" if problem else ""
        super().__init__(
            f"there is no GPU{named} here{because}",
            "`nvidia-smi -L` lists the GPUs; without a GPU: MOIETY_SIMGPU=A100-80",
        )


class GpuOwned(GpuError):
    """Another agent shares out this GPU; two agents would promise the same memory twice."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, gpu: int, uuid: str, owner: str) -> None:
        super().__init__(
            f"GPU {gpu} ({uuid}) belongs to another agent: {owner or 'unknown'}",
            "use that agent (MOIETY_AGENT=system, or MOIETY_DIR=its directory), end it "
            "(`moiety agent stop` by its user, or kill), or name the other GPUs with --gpus",
        )


class GpusDrained(GpuError):
    """An administrator keeps GPUs out of choice, and too few others would do."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, gpus: Sequence[int]) -> None:
        named = ", ".join(map(str, gpus))
        are = f"GPUs {named} are drained: they get" if len(gpus) > 1 else ""
        resume = f"moiety gpu resume {' '.join(map(str, gpus))}"
        super().__init__(
            f"{are or f'GPU {named} is drained: it gets'} no new programs",
            f"other GPUs, later, or as an administrator `{resume}`",
        )
