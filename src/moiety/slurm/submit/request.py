"""What a job asks for: the options as numbers, checked against the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Found
from moiety.slurm.options import Effect
from moiety.slurm.submit import values

NOT_AVAILABLE: Final = "Batch job submission failed: Requested node configuration is not available"
OPPOSITES: Final = {"requeue": "no-requeue", "no-requeue": "requeue"}
"""The later of these counts."""
MEMORY: Final = ("mem", "mem-per-cpu", "mem-per-gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """What there is; 0 for processors and memory: it is not known."""

    host: str = ""
    cpus: int = 0
    memory_mib: int = 0
    gpu_models: tuple[str, ...] = ()
    is_strict: bool = False
    """Whether a model of GPU that is not here is refused, as Slurm does."""

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return len(self.gpu_models)


@dataclass(slots=True, kw_only=True)
class JobRequest:
    """The numbers of one job. Where Slurm knows whether something was said, so does this."""

    said: Mapping[str, str]
    """The options as they were said, by name; the last of each counts."""
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    tasks: int = 1
    cpus: int = 1
    mem_mib: int = 0
    mem_per_cpu_mib: int = 0
    mem_per_gpu_mib: int = 0
    gpus: int = 0
    gpu_model: str = ""
    time_limit_s: int | None = None
    array: tuple[int, ...] = ()
    array_at_once: int = 0
    warn: values.WarnSignal | None = None
    exclusive: bool = False
    notes: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        """What was said for an option; empty: nothing."""
        return self.said.get(name, "")


def request_of(found: Found, machine: MachineSize) -> JobRequest:
    """The request of these options; raises JobRefused for what is not here."""
    said: dict[str, str] = {}
    for option, value in found:
        said[option.name] = value
        said.pop(OPPOSITES.get(option.name, ""), None)
    request = JobRequest(said=said)
    _read_counts(request, said)
    _read_gpus(request, said, machine)
    _read_processors(request, said, machine)
    _read_memory(request, said, machine)
    if "time" in said:
        request.time_limit_s = values.seconds(said["time"], "time")
    if "array" in said:
        request.array, request.array_at_once = values.array(said["array"])
    if "signal" in said:
        request.warn = values.warn_signal(said["signal"])
    _check_words(said)
    noted = {option.name: option for option, _ in found if option.effect is Effect.NOTED}
    request.notes += [f"--{name} means nothing here: {noted[name].words}" for name in noted]
    return request


def _read_counts(request: JobRequest, said: Mapping[str, str]) -> None:
    if "nodes" in said:
        least, _ = values.nodes(said["nodes"])
        if least > 1:
            raise JobRefused(
                f"{NOT_AVAILABLE}: {least} nodes are asked for, and there is one machine",
                "--nodes=1",
            )
    if "ntasks" in said:
        request.ntasks = values.count(said["ntasks"], "ntasks")
    if "ntasks-per-node" in said:
        request.ntasks_per_node = values.count(said["ntasks-per-node"], "ntasks-per-node", 0)
        request.ntasks_per_node = request.ntasks_per_node or None
    if "cpus-per-task" in said:
        request.cpus_per_task = values.count(said["cpus-per-task"], "cpus-per-task")
    tasks = request.ntasks or request.ntasks_per_node or 1
    if request.ntasks and request.ntasks_per_node and request.ntasks > request.ntasks_per_node:
        raise JobRefused(
            f"{NOT_AVAILABLE}: {request.ntasks} tasks with {request.ntasks_per_node} on each node "
            "are several nodes, and there is one machine",
            f"--ntasks-per-node={request.ntasks}",
        )
    request.tasks = tasks
    if request.ntasks is None and request.ntasks_per_node:
        request.ntasks = request.ntasks_per_node


def _read_gpus(request: JobRequest, said: Mapping[str, str], machine: MachineSize) -> None:
    asked = [values.gres(said["gres"])] if "gres" in said else []
    asked += [values.gpus(said[n], n) for n in ("gpus", "gpus-per-node") if n in said]
    if "gpus-per-task" in said:
        each = values.gpus(said["gpus-per-task"], "gpus-per-task")
        if request.ntasks is None:
            if "gpus" not in said:
                raise JobRefused(
                    "Failed to validate job spec. --gpus-per-task used without either --gpus or "
                    "-n/--ntasks is not allowed.",
                    "--ntasks=1",
                )
            request.ntasks = request.tasks = max(asked[-1].number // max(each.number, 1), 1)
        asked.append(values.Gpus(each.number * request.tasks, each.model))
    if "ntasks-per-gpu" in said:
        per = values.count(said["ntasks-per-gpu"], "ntasks-per-gpu")
        if any(one.number for one in asked):
            request.ntasks = request.tasks = per * max(one.number for one in asked)
        elif request.ntasks:
            asked.append(values.Gpus(-(-request.ntasks // per)))
    request.gpus = max((one.number for one in asked), default=0)
    request.gpu_model = next((one.model for one in asked if one.model), "")
    if request.gpus > machine.gpus:
        raise JobRefused(
            f"{NOT_AVAILABLE}: {request.gpus} GPUs are asked for, and there are {machine.gpus}"
        )
    named = request.gpu_model.lower()
    if request.gpus and named and not any(is_model(named, m) for m in machine.gpu_models):
        models = ", ".join(sorted(set(machine.gpu_models)))
        if machine.is_strict:
            raise JobRefused(f"{NOT_AVAILABLE}: there is no {request.gpu_model}; there is {models}")
        request.notes.append(f"there is no GPU {request.gpu_model!r} here: any is taken ({models})")
        request.gpu_model = ""


def is_model(named: str, model: str) -> bool:
    """Whether a name as scripts have it, such as a100 or rtx_2080, is this model's."""
    plain = "".join(letter for letter in named.lower() if letter.isalnum())
    return plain in "".join(letter for letter in model.lower() if letter.isalnum())


def _read_processors(request: JobRequest, said: Mapping[str, str], machine: MachineSize) -> None:
    request.cpus = request.tasks * (request.cpus_per_task or 1)
    if "cpus-per-gpu" in said and request.cpus_per_task is None:
        each = values.count(said["cpus-per-gpu"], "cpus-per-gpu")
        request.cpus = max(request.cpus, each * request.gpus)
    if "exclusive" in said:
        if said["exclusive"] not in ("", "user", "mcs"):
            raise values.invalid("exclusive")
        request.exclusive = True
    least = values.count(said["mincpus"], "mincpus", 0) if "mincpus" in said else 0
    if machine.cpus and max(request.cpus, least) > machine.cpus:
        raise JobRefused(
            f"{NOT_AVAILABLE}: {max(request.cpus, least)} processors are asked for, "
            f"and there are {machine.cpus}"
        )
    if request.exclusive and not said["exclusive"]:
        request.cpus, request.gpus = machine.cpus or request.cpus, machine.gpus


def _read_memory(request: JobRequest, said: Mapping[str, str], machine: MachineSize) -> None:
    amounts = {name: values.mebibytes(said[name], name) for name in MEMORY if name in said}
    if len(amounts) > 1:
        raise JobRefused("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if "mem-per-gpu" in amounts and not request.gpus:
        raise JobRefused("--mem-per-gpu is asked for without any GPU.")
    request.mem_per_cpu_mib = amounts.get("mem-per-cpu", 0)
    request.mem_per_gpu_mib = amounts.get("mem-per-gpu", 0)
    request.mem_mib = amounts.get("mem", 0)
    request.mem_mib += request.mem_per_cpu_mib * request.cpus
    request.mem_mib += request.mem_per_gpu_mib * request.gpus
    if machine.memory_mib and request.mem_mib > machine.memory_mib:
        raise JobRefused(
            f"{NOT_AVAILABLE}: {request.mem_mib} MiB of memory are asked for, "
            f"and there are {machine.memory_mib}"
        )
    if amounts.get("mem") == 0:
        request.mem_mib = machine.memory_mib


def _check_words(said: Mapping[str, str]) -> None:
    if said.get("open-mode", "append").lower()[:1] not in ("a", "t"):
        raise values.invalid("open-mode")
    if "dependency" in said:
        values.dependency(said["dependency"])
    if "mail-type" in said:
        values.mail_type(said["mail-type"])
    if "time-min" in said:
        values.seconds(said["time-min"], "time-min")
    for name in ("immediate", "wait"):
        if said.get(name):  # either may be said without a value
            values.count(said[name], name, 0)


def machine_of_this() -> MachineSize:
    """What this machine has, as far as it can be seen without its pool: no GPUs."""
    return MachineSize(
        host=os.uname().nodename.partition(".")[0],
        cpus=os.cpu_count() or 1,
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
    )
