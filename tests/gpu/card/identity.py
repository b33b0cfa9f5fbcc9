"""Which card, link and driver this is, and what of the driver's API it has."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

from tests.gpu.card.driver import MIB, POSIX_FD, Nvml, chunk_prop, loaded
from tests.gpu.card.run import Run

ATTRIBUTES = {
    "multiprocessors": 16,
    "integrated": 18,
    "compute_mode": 20,
    "ecc": 32,
    "copy_engines": 40,
    "unified_addressing": 41,
    "cc_major": 75,
    "cc_minor": 76,
    "stream_priorities": 78,
    "managed_memory": 83,
    "host_native_atomics": 86,
    "pageable_memory_access": 88,
    "concurrent_managed_access": 89,
    "compute_preemption": 90,
    "host_pointer_for_registered": 91,
    "flush_remote_writes": 98,
    "host_register": 99,
    "host_page_tables": 100,
    "direct_managed_from_host": 101,
    "vmm": 102,
    "posix_fd_handles": 103,
    "compression": 107,
    "rdma_with_vmm": 110,
    "read_only_host_register": 113,
    "memory_pools": 115,
    "rdma": 116,
    "pool_handle_types": 119,
    "stream_mem_ops_64": 122,
    "stream_wait_nor": 123,
    "dma_buf": 124,
    "ipc_events": 125,
    "memory_sync_domains": 126,
    "fabric_handles": 128,
    "numa_config": 130,
    "numa_id": 134,
    "multicast": 132,
    "mps": 133,
    "host_numa_id": 135,
    "host_numa_vmm": 141,
    "host_memory_pools": 142,
}

NVML_NUMBERS = {
    "pcie_generation_max": "MaxPcieLinkGeneration",
    "pcie_generation_now": "CurrPcieLinkGeneration",
    "pcie_width_max": "MaxPcieLinkWidth",
    "pcie_width_now": "CurrPcieLinkWidth",
    "compute_mode": "ComputeMode",
    "persistence": "PersistenceMode",
    "power_limit_mw": "PowerManagementLimit",
    "architecture": "Architecture",
    "numa_node_of_memory": "NumaNodeId",
}
CLOCKS = {"clock_mhz": 0, "clock_sm_mhz": 1, "clock_memory_mhz": 2}


def measure(run: Run) -> None:
    """Everything that is read and not timed."""
    driver = run.driver
    run.note("name", driver.name())
    run.note("simulated", run.simulated)
    run.note("devices", driver.get("cuDeviceGetCount"))
    run.note("cuda_version", driver.get("cuDriverGetVersion"))
    run.note("timer", run.timer.how)
    free, total = driver.memory()
    run.note("memory_mib", driver.get("cuDeviceTotalMem_v2", 0) // MIB)
    run.note("memory_as_seen_mib", total // MIB)
    run.note("free_mib", free // MIB)
    with run.part("attributes"):
        attributes(run)
    with run.part("granularity"):
        granularity(run)
    with run.part("exportable"):
        exportable(run)
    with run.part("nvml"):
        management(run)
    with run.part("place"):
        place(run)


def attributes(run: Run) -> None:
    """Those that decide what the shim may do; null: the driver does not know the attribute."""
    found = {}
    for name, number in ATTRIBUTES.items():
        out = ctypes.c_int()
        code = run.driver.code("cuDeviceGetAttribute", ctypes.byref(out), number, 0)
        found[name] = None if code else out.value
    run.note("attributes", found)


def granularity(run: Run) -> None:
    """Of chunks: minimum and recommended, for the kinds of handles."""
    found = {}
    for kind, handles, rdma in (("plain", 0, 0), ("posix_fd", POSIX_FD, 0), ("rdma", 1, 1)):
        prop = chunk_prop(0, handles, rdma)
        for name, option in (("minimum", 0), ("recommended", 1)):
            size = run.driver.get("cuMemGetAllocationGranularity", ctypes.byref(prop), option)
            found[f"{kind}_{name}_kib"] = size // 1024
    run.note("granularity", found)


def exportable(run: Run) -> None:
    """Which kinds of chunks can be made, and which error says no."""
    kinds = {"plain": (0, 0), "posix_fd": (1, 0), "rdma": (0, 1), "posix_fd_rdma": (1, 1),
             "fabric": (8, 0), "posix_fd_fabric": (9, 0)}  # fmt: skip
    found = {}
    for name, (handles, rdma) in kinds.items():
        prop, handle = chunk_prop(0, handles, rdma), ctypes.c_uint64()
        code = run.driver.code("cuMemCreate", ctypes.byref(handle), 2 * MIB, ctypes.byref(prop), 0)
        found[name] = run.driver.error_name(code) if code else "yes"
        if not code:
            run.driver.call("cuMemRelease", handle.value)
    run.note("chunks", found)


def management(run: Run) -> None:
    """What NVML says."""
    nvml = Nvml()
    run.note("driver_version", nvml.driver_version())
    found = {name: nvml.number(what) for name, what in NVML_NUMBERS.items()}
    found |= {name: nvml.number("ClockInfo", kind) for name, kind in CLOCKS.items()}
    found |= {f"{n}_max": nvml.number("MaxClockInfo", kind) for n, kind in CLOCKS.items()}
    run.note("nvml", found)
    run.note("nvml_memory_mib", {k: v // MIB for k, v in nvml.memory().items()})


def place(run: Run) -> None:
    """Where on the bus it is, near which NUMA node, and which libraries serve it."""
    text = ctypes.create_string_buffer(32)
    run.driver.call("cuDeviceGetPCIBusId", text, 32, 0)
    bus = text.value.decode().lower()
    folder = Path("/sys/bus/pci/devices") / (bus[-12:] if len(bus) > 12 else bus)
    run.note("pci", bus)
    for name in ("numa_node", "current_link_speed", "current_link_width", "local_cpulist"):
        file = folder / name
        run.note(name, file.read_text().strip() if file.exists() else None)
    run.note("libcuda", str(Path(loaded("libcuda.so")).resolve()))
    module = Path("/proc/driver/nvidia/version")
    run.note("kernel_module", module.read_text().splitlines()[0] if module.exists() else None)
    run.note("machine", platform.machine())
