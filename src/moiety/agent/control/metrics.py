"""What Prometheus reads: the node's state as metrics, by the names that are documented here.

Where NVIDIA's DCGM exporter has a name for something, it is used, with that exporter's labels, so
that dashboards made for it show this node as well. Everything else begins with `moiety_`.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from moiety.agent.control.report import Reports
from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.agent.control.visibility import rows_for
from moiety.agent.core.journal_events import REASONS
from moiety.agent.monitor.usage_monitor import UsageMonitor
from moiety.config.values import Visible
from moiety.devices.interface import Usage
from moiety.enforcement.policy import Offence
from moiety.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from moiety.devices.telemetry import Telemetry

NO_USER: Final = -1
"""A user who has no program."""
MIB: Final = 1 << 20
GAUGE: Final = "gauge"
COUNTER: Final = "counter"


class Metric(NamedTuple):
    """One name; a counter's ends in `_total`."""

    kind: str
    labels: tuple[str, ...]
    help: str


CARD: Final = ("gpu", "UUID", "device", "modelName", "Hostname")
GPU: Final = ("gpu", "uuid")
OF_POD: Final = ("namespace", "pod", "container")
"""Labels of Kubernetes, empty elsewhere; Kubernetes' own metrics have the same names."""
PROGRAM: Final = ("tenant", "pid", "program", "workload", "user", *OF_POD)
ON_GPU: Final = (*PROGRAM, "gpu")

METRICS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": Metric(GAUGE, CARD, "GPU utilization (in %)."),
    "DCGM_FI_DEV_FB_USED": Metric(GAUGE, CARD, "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_FB_FREE": Metric(GAUGE, CARD, "Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_GPU_TEMP": Metric(GAUGE, CARD, "GPU temperature (in C)."),
    "DCGM_FI_DEV_POWER_USAGE": Metric(GAUGE, CARD, "Power draw (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Metric(
        GAUGE, CARD, "Total energy consumption since boot (in mJ)."
    ),
    "DCGM_FI_DEV_SM_CLOCK": Metric(GAUGE, CARD, "SM clock frequency (in MHz)."),
    "DCGM_FI_DEV_MEM_CLOCK": Metric(GAUGE, CARD, "Memory clock frequency (in MHz)."),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": Metric(
        GAUGE, CARD, "Total number of single-bit volatile ECC errors."
    ),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": Metric(
        GAUGE, CARD, "Total number of double-bit volatile ECC errors."
    ),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": Metric(
        GAUGE, CARD, "Current clock event reasons (bitmask)."
    ),
    "DCGM_FI_DEV_XID_ERRORS": Metric(GAUGE, CARD, "Value of the last XID error encountered."),
    "moiety_gpu_capacity_bytes": Metric(GAUGE, GPU, "Memory of the GPU that is shared out."),
    "moiety_gpu_resident_bytes": Metric(GAUGE, GPU, "Programs' memory that is on the GPU."),
    "moiety_gpu_allocated_bytes": Metric(
        GAUGE, GPU, "Memory that programs allocated, on the GPU or in host memory."
    ),
    "moiety_gpu_residue_bytes": Metric(GAUGE, GPU, "Memory that cannot leave: contexts, code."),
    "moiety_gpu_holders": Metric(GAUGE, GPU, "Processes that may use the GPU now."),
    "moiety_gpu_waiting": Metric(GAUGE, GPU, "Processes that wait for their turn."),
    "moiety_process_allocated_bytes": Metric(GAUGE, ON_GPU, "Memory that it allocated."),
    "moiety_process_resident_bytes": Metric(GAUGE, ON_GPU, "What of it is on the GPU."),
    "moiety_process_limit_bytes": Metric(GAUGE, ON_GPU, "The most that it may allocate."),
    "moiety_process_gpu_ratio": Metric(
        GAUGE, PROGRAM, "Part of the GPU's time over the last seconds, without hand-offs."
    ),
    "moiety_process_gpu_request_ratio": Metric(GAUGE, PROGRAM, "Part that it is guaranteed."),
    "moiety_process_gpu_limit_ratio": Metric(GAUGE, PROGRAM, "Part that it may have at most."),
    "moiety_process_waiting_seconds": Metric(GAUGE, PROGRAM, "How long it has waited by now."),
    "moiety_process_gpu_seconds_total": Metric(
        COUNTER, PROGRAM, "GPU time in its life, hand-offs included."
    ),
    "moiety_process_handoff_seconds_total": Metric(
        COUNTER, PROGRAM, "Time of the hand-offs that it caused."
    ),
    "moiety_process_handoffs_total": Metric(COUNTER, PROGRAM, "Turns that it had."),
    "moiety_process_waited_seconds_total": Metric(
        COUNTER, PROGRAM, "Time that its threads stood still for a turn, summed."
    ),
    "moiety_process_evicted_bytes_total": Metric(COUNTER, PROGRAM, "Bytes moved to the host."),
    "moiety_process_restored_bytes_total": Metric(COUNTER, PROGRAM, "Bytes moved back."),
    "moiety_process_idle_seconds": Metric(GAUGE, PROGRAM, "How long it has done nothing on a GPU."),
    "moiety_process_cost_seconds": Metric(
        GAUGE, PROGRAM, "Others' waiting within the last minute because it gave way late."
    ),
    "moiety_gpu_unregistered_processes": Metric(
        GAUGE, GPU, "Processes that use the GPU without moiety."
    ),
    "moiety_gpu_unregistered_bytes": Metric(GAUGE, GPU, "Memory that they have there."),
    "moiety_watch_offences": Metric(
        GAUGE, ("offence",), "Processes that do now what the watch looks for (moiety watch)."
    ),
    "moiety_arena_bytes": Metric(GAUGE, (), "Host memory for what left the GPUs."),
    "moiety_arena_used_bytes": Metric(GAUGE, (), "What of it is in use."),
    "moiety_arena_user_bytes": Metric(GAUGE, ("user",), "What of it a user's programs have."),
    "moiety_events_total": Metric(
        COUNTER, ("reason", "severity"), "Events of this agent (moiety events)."
    ),
    "moiety_agent_info": Metric(GAUGE, ("version",), "1: an agent is there."),
    "moiety_agent_start_time_seconds": Metric(GAUGE, (), "When it started, since 1970."),
}
"""In the order in which Prometheus gets them."""

Labels = tuple[str, ...]
Values = Mapping[str, list[tuple[Labels, float]]]


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The state of a node at one moment, taken in the agent's own thread."""

    gpus: list[GpuRow]
    processes: list[ProcessRow]
    events: dict[str, int]
    arena_bytes: int
    arena_used_bytes: int
    began_s: float
    host: str
    strangers: list[tuple[int, int]] = field(default_factory=list)
    """For each process that uses a GPU without moiety: the GPU and the bytes."""
    offences: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Offence, 0))


def snapshot(
    reports: Reports, usages: dict[int, Usage], began_s: float, now_s: float
) -> MetricsSnapshot:
    """Take one; `usages` are what NVML said just now, `began_s` when the agent started."""
    arena, monitor = reports.arena, reports.monitor
    return MetricsSnapshot(
        gpus=reports.gpu_rows(usages),
        processes=reports.process_rows(),
        events=dict(reports.journal.counts),
        strangers=[
            (stranger.use.gpu, stranger.use.used_bytes or 0)
            for stranger in (monitor.strangers.values() if monitor else ())
        ],
        offences=_offences(monitor),
        arena_bytes=arena.size_bytes if arena else 0,
        arena_used_bytes=reports.arena_used_bytes(),
        began_s=time.time() - (now_s - began_s),
        host=socket.gethostname(),
    )


def for_everybody(seen: MetricsSnapshot, visible: Visible) -> MetricsSnapshot:
    """The same as every user may see it."""
    return replace(seen, processes=rows_for(seen.processes, NO_USER, visible))


def _offences(monitor: UsageMonitor | None) -> dict[str, int]:
    """Return by kind how many processes commit it now."""
    who: dict[str, set[int]] = {offence.value: set() for offence in Offence}
    for case in monitor.escalation.cases() if monitor else ():
        who[case.offence.value].add(case.use.who.pid)
    return {offence: len(pids) for offence, pids in who.items()}


def values(seen: MetricsSnapshot) -> Values:
    """By name, every labelled value."""
    found: dict[str, list[tuple[Labels, float]]] = {name: [] for name in METRICS}
    for row in seen.gpus:
        _of_gpu(found, row, seen.host)
        strangers = [amount for gpu, amount in seen.strangers if gpu == row.gpu]
        labels = (str(row.gpu), row.uuid)
        found["moiety_gpu_unregistered_processes"].append((labels, len(strangers)))
        found["moiety_gpu_unregistered_bytes"].append((labels, sum(strangers)))
    told = set()
    on_host: Counter[str] = Counter()
    for process in seen.processes:
        _on_gpu(found, process)
        on_host[process.user] += process.host_bytes
        if process.tenant not in told:
            told.add(process.tenant)
            _of_process(found, process)
    for offence, number in seen.offences.items():
        found["moiety_watch_offences"].append(((offence,), number))
    found["moiety_arena_bytes"].append(((), seen.arena_bytes))
    found["moiety_arena_used_bytes"].append(((), seen.arena_used_bytes))
    found["moiety_arena_user_bytes"] += [((user,), size) for user, size in on_host.items()]
    for name, reason in REASONS.items():
        number = seen.events.get(name, 0)
        found["moiety_events_total"].append(((name, reason.severity), number))
    found["moiety_agent_info"].append(((__version__,), 1))
    found["moiety_agent_start_time_seconds"].append(((), seen.began_s))
    return found


SENSORS: Final[dict[str, Callable[[Telemetry], float | None]]] = {
    "DCGM_FI_DEV_GPU_TEMP": lambda sensed: sensed.temperature_c,
    "DCGM_FI_DEV_POWER_USAGE": lambda sensed: sensed.power_w,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda sensed: sensed.energy_mj,
    "DCGM_FI_DEV_SM_CLOCK": lambda sensed: sensed.sm_clock_mhz,
    "DCGM_FI_DEV_MEM_CLOCK": lambda sensed: sensed.memory_clock_mhz,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": lambda sensed: sensed.ecc_corrected,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda sensed: sensed.ecc_uncorrected,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": lambda sensed: sensed.clock_events,
}
"""Metrics of sensors; a GPU without a value has no line."""


def _of_gpu(found: dict[str, list[tuple[Labels, float]]], row: GpuRow, host: str) -> None:
    card = (str(row.gpu), row.uuid, f"nvidia{row.gpu}", row.name, host)
    if row.utilisation is not None:
        found["DCGM_FI_DEV_GPU_UTIL"].append((card, round(row.utilisation * 100)))
    if row.used_bytes is not None:
        free_bytes = max(0, row.total_bytes - row.used_bytes)
        found["DCGM_FI_DEV_FB_USED"].append((card, row.used_bytes // MIB))
        found["DCGM_FI_DEV_FB_FREE"].append((card, free_bytes // MIB))
    for name, of_sensor in SENSORS.items():
        if (value := of_sensor(row.sensors)) is not None:
            found[name].append((card, value))
    last_xid = min(row.errors, key=lambda xid: row.errors[xid], default=0)
    found["DCGM_FI_DEV_XID_ERRORS"].append((card, last_xid))
    labels = (str(row.gpu), row.uuid)
    for name, value in (
        ("capacity_bytes", row.capacity_bytes),
        ("resident_bytes", row.resident_bytes),
        ("allocated_bytes", row.allocated_bytes),
        ("residue_bytes", row.residue_bytes),
        ("holders", len(row.holders)),
        ("waiting", len(row.waiting)),
    ):
        found[f"moiety_gpu_{name}"].append((labels, value))


def _labels(row: ProcessRow) -> Labels:
    of_pod = (row.labels.get(name, "") for name in OF_POD)
    return (str(row.tenant), str(row.pid), row.program, row.workload, row.user, *of_pod)


def _on_gpu(found: dict[str, list[tuple[Labels, float]]], row: ProcessRow) -> None:
    if row.gpu is None:
        return
    labels = (*_labels(row), str(row.gpu))
    found["moiety_process_allocated_bytes"].append((labels, row.allocated_bytes))
    found["moiety_process_resident_bytes"].append((labels, row.resident_bytes))
    if row.limit_bytes is not None:
        found["moiety_process_limit_bytes"].append((labels, row.limit_bytes))


OF_PROCESS: Final[dict[str, Callable[[ProcessRow], float | None]]] = {
    "gpu_ratio": lambda row: row.received,
    "gpu_request_ratio": lambda row: row.share.gpu,
    "gpu_limit_ratio": lambda row: row.share.gpu_limit,
    "waiting_seconds": lambda row: row.waiting_s or 0.0,
    "gpu_seconds_total": lambda row: row.received_s,
    "handoff_seconds_total": lambda row: row.handoffs_s,
    "handoffs_total": lambda row: row.handoffs,
    "waited_seconds_total": lambda row: row.waited_s,
    "evicted_bytes_total": lambda row: row.evicted_bytes,
    "restored_bytes_total": lambda row: row.restored_bytes,
    "idle_seconds": lambda row: row.idle_s,
    "cost_seconds": lambda row: row.cost_s,
}


def _of_process(found: dict[str, list[tuple[Labels, float]]], row: ProcessRow) -> None:
    for name, value_of in OF_PROCESS.items():
        value = value_of(row)
        if value is not None:
            found[f"moiety_process_{name}"].append((_labels(row), value))


def exposition(seen: MetricsSnapshot) -> bytes:
    """All of it in Prometheus' text format. May take milliseconds: call it beside the loop."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(values(seen)))
    return generate_latest(registry)


class _Collector:
    """What prometheus_client asks once."""

    def __init__(self, found: Values) -> None:
        self._found = found

    def collect(self) -> Iterable[Family]:
        """One family for each name."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, metric in METRICS.items():
            kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            family = kind(name, metric.help, labels=metric.labels)
            for labels, value in self._found[name]:
                family.add_metric(labels, value)
            yield family
