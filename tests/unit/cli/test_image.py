"""What is said of an image, and which ones are refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from moiety.cli.image import Image, check
from moiety.devices.elf import exported, needed, read_elf
from moiety.model import errors

X86_64, AARCH64 = 62, 183


def elf(interpreter: str | None, machine: int = X86_64, bits: int = 64) -> bytes:
    """A program that asks for a loader, as far as anybody reads it."""
    header = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    wanted = (interpreter or "").encode() + b"\0"
    count = int(interpreter is not None)
    fields = (2, machine, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    header += struct.pack("<HHIQQQIHHHHHH", *fields)
    return header + struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(wanted), 0, 1) + wanted


def put(root: Path, inside: str, content: bytes) -> None:
    path = root / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """One with glibc 2.31 and a program."""
    if os.uname().machine != "x86_64":
        pytest.skip("its programs are for x86_64")
    put(tmp_path, "lib64/ld-linux-x86-64.so.2", b"")
    libc = b"...GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\n"
    put(tmp_path, "lib/x86_64-linux-gnu/libc.so.6", libc)
    put(tmp_path, "usr/bin/train", elf("/lib64/ld-linux-x86-64.so.2"))
    return Image(tmp_path)


def test_a_program_for_glibc_can_be_shared(image: Image) -> None:
    assert check(image, "train") == ["glibc 2.31", "train (/usr/bin/train) can be shared"]


def test_an_image_with_musl_is_refused_whatever_it_starts(tmp_path: Path) -> None:
    put(tmp_path, "lib/ld-musl-x86_64.so.1", b"")
    with pytest.raises(errors.ImageUnfit, match="musl, as in Alpine"):
        check(Image(tmp_path), None)


def test_a_program_for_musl_is_refused_beside_glibc(image: Image) -> None:
    put(image.root, "opt/tool", elf("/lib/ld-musl-x86_64.so.1"))
    with pytest.raises(errors.MuslProgram):
        check(image, "/opt/tool")


def test_a_glibc_that_is_too_old_is_refused(image: Image) -> None:
    libc = b"GNU C Library stable release version 2.12, by Roland McGrath\n"
    put(image.root, "lib/x86_64-linux-gnu/libc.so.6", libc)
    with pytest.raises(errors.ImageUnfit, match=r"glibc is 2\.12, moiety needs 2\.17"):
        check(image, "train")


def test_a_program_for_another_machine_is_refused(image: Image) -> None:
    put(image.root, "usr/bin/train", elf("/lib/ld-linux-aarch64.so.1", AARCH64))
    with pytest.raises(errors.WrongArchitecture):
        check(image, "train")


def test_what_is_static_may_start_what_can_be_shared(image: Image) -> None:
    put(image.root, "sbin/init", elf(None))
    assert "/sbin/init is statically linked" in check(image, "/sbin/init")[1]


def test_a_script_is_judged_by_what_runs_it(image: Image) -> None:
    put(image.root, "usr/bin/start", b"#!/usr/bin/env train --now\n")
    put(image.root, "usr/bin/env", elf("/lib64/ld-linux-x86-64.so.2"))
    assert check(image, "start")[1] == "start (/usr/bin/train) can be shared"


def test_links_of_an_image_lead_to_its_own_files(image: Image) -> None:
    (image.root / "bin").symlink_to("/usr/bin")
    (image.root / "usr/bin/python").symlink_to("../../../../usr/bin/train")
    assert check(image, "/bin/python")[1] == "/bin/python can be shared"
    (image.root / "loop").symlink_to("/loop")
    assert not image.has("/loop")
    assert check(image, "/loop")[1] == "/loop is not in it"


def test_what_an_image_preloads_itself_is_named(image: Image) -> None:
    put(image.root, "etc/ld.so.preload", b"/usr/lib/libjemalloc.so.2\n")
    assert "libjemalloc.so.2) is hidden" in check(image, None)[-1]


def test_nothing_of_an_image_blocks_who_looks(image: Image) -> None:
    for file in ("lib/x86_64-linux-gnu/libc.so.6", "etc/ld.so.preload", "bin/pipe"):
        path = image.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert image.glibc() is None
    assert check(image, None) == [
        "no C library is found: only statically linked programs, which are not shared"
    ]
    for read in (read_elf, exported, needed):
        with pytest.raises(OSError, match="not a regular file"):
            read(image.root / "bin/pipe")


def test_no_more_is_read_of_a_file_than_it_may_have(image: Image) -> None:
    before = image.glibc()
    for file in ("lib/x86_64-linux-gnu/libc.so.6", "etc/ld.so.preload"):
        path = image.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, 1 << 40)  # of holes
    assert image.glibc() == before
    assert len(image.content("etc/ld.so.preload", 4096)) == 4096
    assert check(image, None)


@pytest.mark.parametrize("program", ["", "/", ".", "..", "a\0b", "\ud800", "x" * 5000, "/x" * 5000])
def test_no_name_of_a_program_is_too_much(image: Image, program: str) -> None:
    assert check(image, program)[1:] == [f"{program} is not in it"]
