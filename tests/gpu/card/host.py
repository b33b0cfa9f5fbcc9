"""The host and its kernel: what the shim and the agent need of them, GPU or not."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import threading
import time
from pathlib import Path

from tests.gpu.card.driver import MIB
from tests.gpu.card.run import Run

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_FUTEX, SYS_MEMBARRIER = 202, 324
MEMBARRIER_QUERY, MEMBARRIER_REGISTER_PRIVATE, MEMBARRIER_PRIVATE = 0, 16, 8
FUTEX_WAIT, FUTEX_WAKE = 0, 1
SEALS = {"shrink": 2, "grow": 4, "write": 8, "future_write": 16}
MADV_POPULATE_WRITE = 23


class Timespec(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def syscall(number: int, *arguments: object) -> int:
    """A system call; a negative errno where it fails."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *arguments)
    return -ctypes.get_errno() if result == -1 else int(result)


def outcome(result: int) -> str:
    """In words."""
    return "yes" if result >= 0 else errno.errorcode.get(-result, str(result))


def measure(run: Run) -> None:
    """All of it; needs no GPU."""
    with run.part("machine"):
        machine(run)
    with run.part("membarrier"):
        membarrier(run)
    with run.part("memfd"):
        seals(run)
    with run.part("populate"):
        populate(run)
    with run.part("futex"):
        futex(run)


def first_line(path: str) -> str:
    """Of a small file; empty when it is not there."""
    try:
        return Path(path).read_text().partition("\n")[0]
    except OSError:
        return ""


def machine(run: Run) -> None:
    """Kernel, cores, memory, limits."""
    run.note("kernel", platform.release())
    run.note("kernel_version", first_line("/proc/version"))
    run.note("libc", " ".join(platform.libc_ver()))
    run.note("python", platform.python_version())
    run.note("cores", len(os.sched_getaffinity(0)))
    models = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    run.note("cpu", models[0].partition(":")[2].strip() if models else "")
    memory = Path("/proc/meminfo").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) for line in memory}
    run.note("memory_mib", values.get("MemTotal", 0) // 1024)
    run.note("available_mib", values.get("MemAvailable", 0) // 1024)
    run.note("huge_pages_set_aside", values.get("HugePages_Total"))
    pages = "/sys/kernel/mm/transparent_hugepage"
    run.note("huge_pages", first_line(f"{pages}/enabled"))
    run.note("huge_pages_shmem", first_line(f"{pages}/shmem_enabled"))
    run.note("numa_nodes", len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))))
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    run.note("locked_memory_limit", [soft, hard])
    run.note("user", os.getuid())
    run.note("cgroup", first_line("/proc/self/cgroup"))
    shm = os.statvfs("/dev/shm")
    run.note("shm_free_mib", shm.f_bavail * shm.f_frsize // MIB)


def membarrier(run: Run) -> None:
    """Can the gate close without a fence in every call, and how long does it take?"""
    supported = syscall(SYS_MEMBARRIER, MEMBARRIER_QUERY, 0)
    run.note("membarrier", outcome(supported))
    run.note("membarrier_commands", max(supported, 0))
    registered = syscall(SYS_MEMBARRIER, MEMBARRIER_REGISTER_PRIVATE, 0)
    run.note("membarrier_register", outcome(registered))
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    began = time.perf_counter_ns()
    results = [syscall(SYS_MEMBARRIER, MEMBARRIER_PRIVATE, 0) for _ in range(100)]
    run.note("membarrier_us", round((time.perf_counter_ns() - began) / 100 / 1000, 2))
    run.note("membarrier_private", outcome(min(results)))
    stop.set()
    for thread in threads:
        thread.join()


def seals(run: Run) -> None:
    """Can the agent give away memory that only it can write?"""
    for name, bit in SEALS.items():
        fd = os.memfd_create("facts", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, mmap.PAGESIZE)
        own = mmap.mmap(fd, mmap.PAGESIZE) if name == "future_write" else None
        try:
            fcntl.fcntl(fd, 1033, bit)  # F_ADD_SEALS
            said = "yes"
            if own is not None:
                own[0] = 1
                said = "yes" if refuses_writing(fd) else "does not hold"
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, "?")
        finally:
            if own is not None:
                own.close()
            os.close(fd)
        run.note(f"seal_{name}", said)
    try:
        fd = os.memfd_create("facts", 4)  # MFD_HUGETLB
        os.close(fd)
        run.note("memfd_hugetlb", "yes")
    except OSError as error:
        run.note("memfd_hugetlb", errno.errorcode.get(error.errno or 0, "?"))


def refuses_writing(fd: int) -> bool:
    """Whether nobody can map it for writing any more."""
    try:
        mmap.mmap(fd, mmap.PAGESIZE).close()
    except PermissionError:
        return True
    return False


def populate(run: Run) -> None:
    """How fast memory is faulted in ahead of need: private, and in a memfd; one thread."""
    size = (64 if run.quick else 1024) * MIB
    for name in ("private", "memfd"):
        fd = -1
        if name == "memfd":
            fd = os.memfd_create("facts")
            os.ftruncate(fd, size)
        flags = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        for huge in (False, True):
            memory = mmap.mmap(fd, size, flags=flags)
            memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
            began = time.perf_counter()
            try:
                memory.madvise(MADV_POPULATE_WRITE)
                said: object = round(size / (1 << 30) / (time.perf_counter() - began), 3)
            except OSError as error:
                said = errno.errorcode.get(error.errno or 0, "?")
            run.note(f"populate_{name}{'_huge' if huge else ''}_gib_per_s", said)
            memory.close()
            if fd >= 0:
                os.ftruncate(fd, 0)
                os.ftruncate(fd, size)
        if fd >= 0:
            os.close(fd)


def futex(run: Run) -> None:
    """Can a client sleep on a lease word that it cannot write?"""
    fd = os.memfd_create("facts", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, mmap.PAGESIZE)
    own = mmap.mmap(fd, mmap.PAGESIZE)
    LIBC.mmap.restype = ctypes.c_void_p
    seen = LIBC.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), 1, 1, fd, ctypes.c_long(0))
    word = ctypes.c_uint32.from_buffer(own)
    results: list[int] = []
    woken: list[float] = []

    def sleep() -> None:
        limit = Timespec(5, 0)
        results.append(
            syscall(SYS_FUTEX, ctypes.c_void_p(seen), FUTEX_WAIT, 0, ctypes.byref(limit), None, 0)
        )
        woken.append(time.perf_counter())

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    time.sleep(0.05)
    word.value = 1
    began = time.perf_counter()
    count = syscall(SYS_FUTEX, ctypes.c_void_p(ctypes.addressof(word)), FUTEX_WAKE, 9, None)
    sleeper.join(6)
    run.note("futex_read_only", outcome(results[0]) if count == 1 or results[0] else "not woken")
    run.note("futex_wake_us", round((woken[0] - began) * 1e6, 1))
    LIBC.munmap(ctypes.c_void_p(seen), ctypes.c_size_t(mmap.PAGESIZE))
    del word
    own.close()
    os.close(fd)
