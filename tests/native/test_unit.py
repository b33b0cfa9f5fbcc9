"""Parts of the shim without a driver: small programs that are linked with its own sources."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[2]
UNIT = Path(__file__).with_name("unit")
EXTENT = ("mem/extent", "mem/chunk", "mem/upcalls", "base/lock", "base/message")
SOURCES = {
    "heap": ("pool/heap", *EXTENT),
    "slab": ("mem/slab", *EXTENT),
    "victim": ("swap/victim", "mem/extent_table", *EXTENT),
    "budgets": (
        "mem/accounting",
        "mem/device",
        "mem/extent_table",
        "mem/free_cache",
        "agent/socket",
        "pool/decommit",
        "pool/heap",
        "swap/host_arena",
        "swap/clean",
        "swap/content_hash",
        "swap/damage",
        "swap/hash_check",
        "swap/restore",
        "swap/transfer",
        "swap/victim",
        "swap/zero_scan",
        *EXTENT,
    ),
    "bind": ("mem/vmm_bind", *EXTENT),
    "clean": ("swap/clean", "swap/host_arena", "mem/extent_table", "mem/free_cache", *EXTENT),
    "contexts": ("mem/device_contexts", "base/lock", "base/message"),
    "exports": ("ipc/export", "mem/extent_table", *EXTENT),
    "fences": ("pool/stream_fence", "base/lock"),
    "host_memory": ("swap/host_memory", "swap/host_arena", "base/lock", "base/message"),
    "once": ("base/message",),
    "pointer": ("hooks/cu_pointer", "base/lock", "base/message"),
    "queue_margin": ("gate/queue_margin",),
    "queue_room": ("gate/queue_room", "gate/launch_cost"),
    "states": EXTENT,
    "visible": ("base/visible_list", "base/environment"),
}
BROKEN = {
    "heap": ("pool/heap", "while (join_right(piece)) {", "if (join_right(piece)) {"),
    "slab": ("mem/slab", "slab->used -= slab->run[first];", "slab->used--;"),
    "victim": ("swap/victim", "return fits;", "return best_fits;"),
    "budgets": ("swap/restore", "transfer->device->restore_budget += chunk->bytes;", ";"),
    "clean": ("swap/clean", "chunk->content = CHUNK_DATA;\n    }\n}", "}\n}"),
    "bind": ("mem/vmm_bind", "unbind(binding, done);", ";"),
    "contexts": ("mem/device_contexts", "destroy_ends == ends", "destroy_ends >= ends"),
    "exports": ("ipc/export", "export->announced = true;", ";"),
    "fences": ("pool/stream_fence", "fence->gone = true;\n    }\n    own", "}\n    own"),
    "host_memory": ("swap/host_arena", "piece->is_lost = false;", ";"),
    "once": ("base/message", "atomic_exchange(said, true)", "atomic_load(said)"),
    "visible": ("base/visible_list", "return -1; /* of several */", "break;"),
    "pointer": (
        "hooks/cu_pointer",
        "return moves ? gate_enter() : NULL;",
        "return moves ? NULL : gate_enter();",
    ),
    "queue_margin": (
        "gate/queue_margin",
        "margin->late -= margin->late > 0;",
        ";",
    ),
    "queue_room": (
        "gate/launch_cost",
        "return expected_ns * markers->held / HELD_ALL;",
        "return expected_ns * (markers->held > 0);",
    ),
    "states": ("mem/chunk", "[CHUNK_DECOMMITTED] = true},", "},"),
}
"""a mistake in each: its program must notice"""


def built(name: str, native: Path, folder: Path) -> Path:
    """The program for one part, from the sources in `native`, with a debug build's assertions."""
    sources = [UNIT / f"{name}.c"]
    sources += [native / "shim" / f"{source}.c" for source in SOURCES[name]]
    flags = [f"-I{native}", f"-I{UNIT}", "-DMOIETY_DEBUG", "-Werror", "-Wno-unused-function"]
    return compile_c(sources, folder / name, flags=flags)


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SOURCES)
def test_it_holds(name: str, tmp_path: Path) -> None:
    done = run(built(name, ROOT / "native", tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_noticed(name: str, tmp_path: Path) -> None:
    native = tmp_path / "native"
    shutil.copytree(ROOT / "native" / "shim", native / "shim")
    for other in ("cuda", "wire"):
        (native / other).symlink_to(ROOT / "native" / other)
    source, right, wrong = BROKEN[name]
    file = native / "shim" / f"{source}.c"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    assert run(built(name, native, tmp_path)).returncode != 0


def test_threads_share_no_plain_flag_of_a_function() -> None:
    plain = re.compile(r"^ +static (bool|int|unsigned|u?int\d+_t) \w+( = [^;]*)?;", re.MULTILINE)
    files = {file.name: file.read_text() for file in (ROOT / "native" / "shim").rglob("*.c")}
    assert len(files) > 50
    assert {name: plain.findall(text) for name, text in files.items() if plain.search(text)} == {}


@pytest.mark.parametrize("wrong", ["state", "order", "twice", "drop"])
def test_a_debug_build_ends_at_what_must_not_be(wrong: str, tmp_path: Path) -> None:
    done = run(built("states", ROOT / "native", tmp_path), wrong)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.startswith("moiety: ")
