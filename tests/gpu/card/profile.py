"""What follows from the facts: a simgpu profile of this card, and a table for people."""

from __future__ import annotations

from typing import Any

Facts = dict[str, dict[str, Any]]
"""by section and name"""

MODELS = ("H200", "H100", "A100", "L40S", "V100", "T4")
FULL = {"H100": "H100-80", "A100": "A100-80"}


def dig(facts: Facts, path: str) -> Any:
    """A fact by section, name and what is inside it, joined by dots; None when it is not there."""
    found: Any = facts
    for word in path.split("."):
        if not isinstance(found, dict) or word not in found:
            return None
        found = found[word]
    return found


def first(facts: Facts, *paths: str) -> Any:
    """The first of these facts that is there."""
    return next((value for path in paths if (value := dig(facts, path)) is not None), None)


def by_size(pattern: str, *sizes: str) -> list[str]:
    """Names of the same fact for pieces of several sizes, the one to prefer first."""
    return [pattern.format(size) for size in sizes]


LARGE = ("1gib", "256mib", "64mib", "2mib")
CHUNK = ("64mib", "2mib", "256mib")


def rate(value: Any, factor: float = 1.0) -> str | None:
    """10^9 bytes a second, as a profile says it."""
    return None if value is None else f"{round(value * factor, 3)}GB/s"


def micros(value: Any) -> str | None:
    """Microseconds, as a profile says it."""
    return None if value is None else f"{round(value, 3)}us"


def per_gib(value: Any) -> str | None:
    """Seconds for each GiB, as a rate."""
    return None if not value else f"{round((1 << 30) / 1e9 / value, 3)}GB/s"


def settings(facts: Facts) -> dict[str, str | None]:
    """The profile's keys; None where the fact is missing."""
    # simgpu collects small costs and pays them together, so only its means are right; a card's
    # medians are better than its means, because the first of many calls is often far dearer
    typical = "mean_us" if dig(facts, "identity.simulated") else "median_us"

    def chunk(call: str) -> str | None:
        return micros(first(facts, *by_size(f"chunks.chunk_{{}}.{call}.{typical}", *CHUNK)))

    def alloc(call: str) -> str | None:
        return micros(first(facts, *by_size(f"chunks.alloc_{{}}.{call}.{typical}", *CHUNK)))

    def link(way: str) -> str | None:
        return rate(first(facts, *by_size(f"links.pinned_{{}}.{way}_gb_per_s", *LARGE)))

    def number(path: str) -> str | None:
        value = dig(facts, path)
        return None if value is None else str(value)

    def only(beginning: str, what: str) -> Any:
        links = facts.get("links", {})
        return next((links[n].get(what) for n in links if n.startswith(beginning)), None)

    memory, kernel = dig(facts, "identity.memory_mib"), dig(facts, "calls.kernel_ns")
    residue = first(facts, "contexts.primary.launch.card_mib", "contexts.primary.primary.card_mib")
    pinned = per_gib(dig(facts, "links.registered_memfd_huge_elsewhere.register_first_s_per_gib"))
    version = dig(facts, "identity.cuda_version")
    return {
        "memory": None if memory is None else f"{memory}MiB",
        "residue": None if residue is None else f"{round(residue)}MiB",
        "h2d": link("h2d"),
        "d2h": link("d2h"),
        "duplex": rate(duplex(facts)),
        "pageable": rate(only("pageable_", "h2d_gb_per_s")),
        "bandwidth": rate(only("inside_", "copy_gb_per_s"), 2.0),
        "register": pinned
        or per_gib(dig(facts, "links.registered_private.register_first_s_per_gib")),
        "alloc": alloc("alloc"),
        "free": alloc("free"),
        "reserve": chunk("reserve"),
        "create": chunk("create"),
        "map": chunk("map"),
        "access": chunk("access"),
        "unmap": chunk("unmap"),
        "release": chunk("release"),
        "launch": None if kernel is None else f"{kernel}ns",
        "fault": micros(fault_us(facts)),
        "engines": number("identity.attributes.copy_engines"),
        "multiprocessors": number("identity.attributes.multiprocessors"),
        "cc_major": number("identity.attributes.cc_major"),
        "cc_minor": number("identity.attributes.cc_minor"),
        "driver": None if version is None else str(version),
    }


def duplex(facts: Facts) -> float | None:
    """Of both directions together: never less than one of them reaches alone."""
    ways = ("duplex", "h2d", "d2h")
    rates = [first(facts, *by_size(f"links.pinned_{{}}.{w}_gb_per_s", *LARGE)) for w in ways]
    return None if rates[0] is None else max(r for r in rates if r is not None)


def fault_us(facts: Facts) -> float | None:
    """Of one fault of 2 MiB, without the move."""
    whole = dig(facts, "managed.fault_us_per_2mib")
    link = first(facts, *by_size("links.pinned_{}.h2d_gb_per_s", *LARGE))
    if whole is None or not link:
        return None
    return float(max(whole - (2 << 20) / link / 1e3, 0.0))


def profile(facts: Facts) -> str:
    """The text of a file for MOIETY_SIMGPU."""
    name = str(dig(facts, "identity.name") or "unknown").removesuffix(" (simgpu)")
    model = next((FULL.get(m, m) for m in MODELS if m in name), "A100-80")
    lines = ["# measured by tests/gpu/facts.py", f"model = {model}", f"name = {name}"]
    for key, value in settings(facts).items():
        lines.append(f"{key} = {value}" if value is not None else f"# {key}: not measured")
    return "\n".join(lines) + "\n"


TABLE = (
    ("driver, CUDA", "identity.driver_version", "identity.cuda_version"),
    ("memory, free MiB", "identity.memory_mib", "identity.free_mib"),
    ("NUMA node, PCIe generation, width", "identity.numa_node",
     "identity.nvml.pcie_generation_now", "identity.nvml.pcie_width_now"),
    ("VMM, POSIX fd, RDMA+VMM, pageable, concurrent", "identity.attributes.vmm",
     "identity.attributes.posix_fd_handles", "identity.attributes.rdma_with_vmm",
     "identity.attributes.pageable_memory_access",
     "identity.attributes.concurrent_managed_access"),
    ("lookups as exported, different; ladders different", "lookup.same_as_exported",
     "lookup.different", "lookup.ladders_different"),
    ("context: primary, created MiB", "contexts.primary.primary.card_mib",
     "contexts.created.created.card_mib"),
    ("launch call, launch to end us", "calls.launch.median_us",
     "calls.launch_to_end.median_us"),
    ("event record, query us", "calls.event_record.median_us",
     "calls.event_query_done.median_us"),
    ("wait 200 us: late by event, blocking, polled us", "calls.late_event.median_us",
     "calls.late_event_blocking.median_us", "calls.late_polled.median_us"),
    ("bounded launch ns: none, 1/4, 8/4, 64/8", "calls.bounded_launch.without_marks_ns",
     "calls.bounded_launch.every_1_depth_4_ns", "calls.bounded_launch.every_8_depth_4_ns",
     "calls.bounded_launch.every_64_depth_8_ns"),
    *((f"chunk {size}: create map access unmap release us",
       *(f"chunks.chunk_{size}.{c}.median_us"
         for c in ("create", "map", "access", "unmap", "release")))
      for size in ("2mib", "64mib", "256mib")),
    *((f"64 chunks of {size} at once: access, unmap us",
       f"chunks.range_of_64_{size}.access.median_us",
       f"chunks.range_of_64_{size}.unmap.median_us") for size in ("2mib", "64mib")),
    ("touching ms: alone, mapping here, in another process", "chunks.kernels_meanwhile.alone_ms",
     "chunks.kernels_meanwhile.while_mapping_ms",
     "chunks.kernels_meanwhile.while_another_process_maps_ms"),
    ("launch p99 us: alone, mapping, pinning", "chunks.launches_meanwhile.alone.p99_us",
     "chunks.launches_meanwhile.while_mapping.p99_us",
     "chunks.launches_meanwhile.while_pinning.p99_us"),
    *((f"pinned {size}: in, out, both GB/s",
       *(f"links.pinned_{size}.{w}_gb_per_s" for w in ("h2d", "d2h", "duplex")))
      for size in ("2mib", "64mib", "256mib", "1gib")),
    *((f"{kind}: in, out, both GB/s; register, again s/GiB",
       *(f"links.registered_{kind}.{k}" for k in (
           "h2d_gb_per_s", "d2h_gb_per_s", "duplex_gb_per_s", "register_first_s_per_gib",
           "register_again_s_per_gib")))
      for kind in ("private", "private_untouched", "private_huge", "memfd", "memfd_huge",
                   "memfd_huge_elsewhere")),
    *((f"hand-off by {size}: out s, in s, link s, ratio, wrong",
       *(f"cycle.chunks_{size}.{k}" for k in ("out_s", "in_s", "link_s", "ratio", "chunks_wrong")))
      for size in ("2mib", "64mib", "256mib")),
    ("duplex by 64mib: took s, link s, ratio, wrong",
     *(f"cycle.duplex_64mib.{k}" for k in ("took_s", "link_s", "ratio", "chunks_wrong"))),
    *((f"after a peer's {way}: free again ms, created ms, holds",
       *(f"fresh.after_{way}.{k}" for k in ("free_again_ms", "created_ms", "chunks_hold")))
      for way in ("release", "exit", "kill")),
    *((f"graph after remapping {size}: before, first after us, words wrong",
       *(f"remap.graph_{size}.{k}" for k in (
           "before.median_us", "first_after.median_us", "words_wrong")))
      for size in ("2mib", "64mib")),
    *((f"zeros in 64 chunks of {size}: GB/s; data: us; load ms",
       f"zeros.look_{size}.zeros_gb_per_s", f"zeros.look_{size}.data_us", "zeros.load_ms")
      for size in ("2mib", "64mib")),
    ("two processes copy: in+in, out+out, in+out GB/s",
     "beside.copies.h2d_beside_h2d_gb_per_s", "beside.copies.d2h_beside_d2h_gb_per_s",
     "beside.copies.h2d_beside_d2h_gb_per_s"),
    ("two processes compute: share, pause, turn ms", "beside.slices.beside_another.share",
     "beside.slices.beside_another.pause_median_ms", "beside.slices.beside_another.turn_median_ms"),
    *((f"calls of {name}: all, functions, export tables", f"traces.{name}.calls",
       f"traces.{name}.functions", f"traces.{name}.export_tables")
      for name in ("torch", "jax", "cupy")),
    ("managed: fault in, prefetch in, out GB/s", "managed.fault_in_gb_per_s",
     "managed.prefetch_in_gb_per_s", "managed.prefetch_out_gb_per_s"),
    ("membarrier, its us; future-write seal; read-only futex", "host.membarrier_private",
     "host.membarrier_us", "host.seal_future_write", "host.futex_read_only"),
)  # fmt: skip


def table(facts: Facts) -> str:
    """The facts that decide most, a line for each group; those that are missing as `-`."""
    rows = []
    for title, *paths in TABLE:
        values = [dig(facts, path) for path in paths]
        if any(value is not None for value in values):
            shown = "  ".join("-" if v is None else f"{v}" for v in values)
            rows.append(f"  {title:<55} {shown}")
    return "\n".join(rows)
