"""The findings of `moiety doctor` about the GPUs: their settings, and the processes on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.system.paths import find
from moiety.cli.doctor.agents import recorded
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.talk import talk
from moiety.cli.output import count
from moiety.devices.budget import GIB, budget
from moiety.devices.interface import Device, Devices
from moiety.devices.native import is_simulated
from moiety.devices.process_identity import origin_of, sees_host_pids
from moiety.model import errors
from moiety.model.format import format_bytes

PIPES: Final = "/tmp/nvidia-mps"
UNEXPLAINED: Final = 0.05
"""The part of a GPU's memory that the driver may use itself, without a process that has it."""
NAMED_MOST: Final = 5


@contextmanager
def opened() -> Iterator[Devices]:
    """NVML, for as long as the block lasts; raises NvmlUnavailable."""
    from moiety.devices.nvml import Nvml

    devices = Nvml()
    try:
        yield devices
    finally:
        devices.close()


def gpus() -> Iterator[Finding]:
    """The GPUs that NVML reports, and what keeps them from being shared."""
    from moiety.devices.nvml import NvmlUnavailable

    try:
        with opened() as devices:
            found = devices.inventory()
            text = f"driver {devices.driver_version}, {count(len(found), 'GPU')}"
            yield Finding("NVML", "ok", text)
            for index, problem in devices.unreadable.items():
                hint = f"nvidia-smi -i {index}; a lost GPU is back after the machine starts anew"
                yield Finding(f"GPU {index}", "bad", f"NVML: {problem}", hint)
            if not found:
                yield Finding(
                    "GPU", "bad", "NVML finds no GPU", "check nvidia-smi and the permissions"
                )
            for device in found:
                yield _card(device)
                yield from _unexplained(devices, device)
    except NvmlUnavailable as error:
        hint = "check nvidia-smi; in a container, the utility capability is needed"
        if is_simulated():
            hint = "MOIETY_SIMGPU=A100-80, or another card that simgpu knows"
        yield Finding("NVML", "bad", str(error), hint)
    except Exception as error:  # NVML raises its own kinds, of which pynvml makes one class each
        yield Finding("NVML", "bad", str(error), "check nvidia-smi")


def _card(device: Device) -> Finding:
    shared = budget(device.total_bytes).capacity_bytes
    about = f"GPU {device.index}"
    text = (
        f"{device.name}, {format_bytes(device.total_bytes)}, "
        f"of which {format_bytes(shared)} can be shared"
    )
    if device.exclusive or device.prohibited:
        mode = "one process (EXCLUSIVE_PROCESS)" if device.exclusive else "no process (PROHIBITED)"
        hint = f"nvidia-smi -i {device.index} -c DEFAULT"
        return Finding(about, "bad", f"{text}; its compute mode admits {mode}", hint)
    if device.mig:
        hint = (
            f"moiety shares whole GPUs: nvidia-smi -i {device.index} -mig 0, "
            "or leave this one out with --gpus"
        )
        return Finding(about, "warn", f"{text}; it is divided by MIG", hint)
    if device.persistent is False:
        hint = f"start nvidia-persistenced, or nvidia-smi -i {device.index} -pm 1"
        text += "; it unloads its driver when no program uses it, so programs start slowly"
        return Finding(about, "warn", text, hint)
    return Finding(about, "ok", text)


def _unexplained(devices: Devices, device: Device) -> Iterator[Finding]:
    """Memory that is in use by no visible process."""
    usage = devices.usage(device.index)
    users = devices.users(device.index, 0)
    if any(user.used_bytes is None for user in users):
        return  # the driver does not report the memory of processes
    lost = usage.used_bytes - sum(user.used_bytes or 0 for user in users)
    if lost > max(UNEXPLAINED * device.total_bytes, min(GIB, device.total_bytes // 10)):
        text = (
            f"{format_bytes(lost)} of GPU {device.index} are in use, but by no process that the "
            "doctor can see"
        )
        hint = (
            "processes of other containers have it, or one that hangs while it ends: "
            f"fuser -v /dev/nvidia{device.index} as root names them"
        )
        yield Finding("GPU memory", "warn", text, hint)


def mps() -> Iterator[Finding]:
    """Whether NVIDIA's MPS shares the GPUs."""
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", PIPES)
    hint = "stop it (echo quit | nvidia-cuda-mps-control): moiety cannot tell its clients apart"
    clients: list[int] = []
    try:
        with opened() as devices:
            for device in devices.inventory():
                clients += [u.pid for u in devices.users(device.index, 0) if u.of_mps]
    except Exception:
        pass
    if Path(pipes, "control").exists():
        yield Finding("MPS", "warn", f"a control daemon answers in {pipes}", hint)
    elif clients:
        text = (
            f"{count(len(set(clients)), 'program')} on the GPUs, {_named(clients)}, run under MPS"
        )
        yield Finding("MPS", "warn", text, hint)
    else:
        yield Finding("MPS", "ok", "not running")


def strangers() -> Iterator[Finding]:
    """Processes that use the GPUs without moiety."""
    about = "GPU users"
    if not sees_host_pids():
        text = "this PID namespace does not show which processes use the GPUs"
        hint = "run the agent on the host, or in a container with --pid=host"
        yield Finding(about, "warn", text, hint)
        return
    directory = find()
    # Also those of an agent that this command cannot talk to, or that is gone: they share.
    shared = recorded(directory)
    try:
        with talk(directory) as call:
            rows = call.ask(protocol.Ps(), protocol.Processes).rows
            tenants = call.ask(protocol.Status(), protocol.NodeStatus).tenants
            known = {row.pid for row in rows if row.pid}
            shared |= known
            if len(known) < tenants:  # the agent hides the pids of other users' programs
                text = "who uses the GPUs without moiety is known to root and the agent's user"
                yield Finding(about, "ok", text)
                return
    except (errors.MoietyError, OSError):
        pass
    try:
        with opened() as devices:
            beside = [
                (device.index, user)
                for device in devices.inventory()
                for user in devices.users(device.index, 0)
                if user.pid not in shared
            ]
    except Exception:  # the finding of `gpus` describes the error of NVML
        return
    hint = (
        "end it, or start it with moiety run; it keeps its memory while others wait (moiety watch)"
    )
    for gpu, user in beside[:NAMED_MOST]:
        origin = origin_of(user.pid)
        amount = "" if user.used_bytes is None else f" ({format_bytes(user.used_bytes)})"
        who = str(origin) if origin else f"pid {user.pid}"
        yield Finding(about, "warn", f"{who} uses GPU {gpu} without moiety{amount}", hint)
    if len(beside) > NAMED_MOST:
        more = len(beside) - NAMED_MOST
        text = f"{more} more use GPUs without moiety"
        yield Finding(about, "warn", text, "moiety watch names them")
    if not beside:
        yield Finding(about, "ok", "no process uses the GPUs without moiety")


def _named(pids: list[int]) -> str:
    origins = [origin_of(pid) for pid in sorted(set(pids))[:NAMED_MOST]]
    return ", ".join(str(each) for each in origins if each) or f"pid {pids[0]}"
