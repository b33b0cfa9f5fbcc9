"""What is looked at before anything starts: the program, the native library and the driver."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from moiety.devices.native import native_dir
from moiety.model import errors
from tests.support.command_line import Cli
from tests.support.native import compile_c

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "tests" / "native" / "programs" / "stub_first.c"


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def elf(path: Path, *, bits: int = 64, machine: int = 62, interpreter: bytes | None = None) -> Path:
    """The head of an ELF program, which is all that is looked at."""
    ident = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    header = (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(4)
    header += bytes(8) + (64).to_bytes(8, "little") + bytes(8) + bytes(4)
    header += (64).to_bytes(2, "little") + (56).to_bytes(2, "little")
    header += (1 if interpreter else 0).to_bytes(2, "little") + bytes(6)
    body = b""
    if interpreter:
        size = len(interpreter).to_bytes(8, "little")
        body = (3).to_bytes(4, "little") + bytes(4) + (120).to_bytes(8, "little") + bytes(16)
        body += size + size + bytes(8) + interpreter
    path.write_bytes(ident + header + body)
    path.chmod(0o755)
    return path


def test_programs_that_cannot_be_shared_are_refused_before_anything_starts(
    cli: Cli, tmp_path: Path
) -> None:
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    programs: dict[Path, type[errors.MoietyError]] = {
        elf(tmp_path / "bits32", bits=32, machine=3): errors.WrongArchitecture,
        elf(tmp_path / "arm", machine=183, interpreter=loader): errors.WrongArchitecture,
        elf(tmp_path / "static"): errors.StaticProgram,
        elf(tmp_path / "musl", interpreter=b"/lib/ld-musl-x86_64.so.1\0"): errors.MuslProgram,
        script(tmp_path / "script", f"#!{tmp_path}/static -x\n"): errors.StaticProgram,
        script(tmp_path / "lost", "#!/no/such/interpreter\n"): errors.ProgramNotFound,
    }
    for program, error in programs.items():
        found = cli("run", "--", str(program))
        assert found.returncode == error.exit_code, (program, found.stderr)
        assert program.name in found.stderr
    assert not cli.is_served


def test_a_script_runs_through_its_interpreter(cli: Cli, tmp_path: Path) -> None:
    program = script(tmp_path / "hello", "#!/usr/bin/env -S sh\necho hello $1\n")
    assert cli("run", "--", str(program), "you").stdout == "hello you\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs away")
def test_a_setuid_program_is_refused(cli: Cli, tmp_path: Path) -> None:
    program = elf(tmp_path / "gains", interpreter=b"/lib64/ld-linux-x86-64.so.2\0")
    os.chown(program, 12345, -1)
    program.chmod(0o755 | stat.S_ISUID)
    found = cli("run", "--", str(program))
    assert found.returncode == errors.SecureProgram.exit_code
    assert "setuid" in found.stderr


def test_unchecked_programs_are_started_all_the_same(cli: Cli, tmp_path: Path) -> None:
    program = script(tmp_path / "lost", "#!/no/such/interpreter\n")
    found = cli("run", "--no-check", "--", str(program))
    assert found.returncode == 126
    assert cli.is_served


def test_without_the_native_library_nothing_starts(cli: Cli, tmp_path: Path) -> None:
    found = cli("run", "--", "true", MOIETY_NATIVE=str(tmp_path))
    assert found.returncode == errors.NativeLibraryMissing.exit_code
    assert not cli.is_served


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a driver")
def test_without_a_driver_nothing_starts(cli: Cli) -> None:
    found = cli("run", "--", "true", MOIETY_SIMGPU="")
    assert found.returncode == errors.NoDriver.exit_code
    assert "MOIETY_SIMGPU" in found.stderr
    assert not cli.is_served


def test_a_driver_without_the_calls_is_too_old(cli: Cli, pretended: Path) -> None:
    found = cli("run", "--", "true", MOIETY_SIMGPU="", LD_LIBRARY_PATH=str(pretended / "simgpu"))
    assert found.returncode == errors.DriverTooOld.exit_code
    assert "cuMemAddressReserve" in found.stderr


def test_a_card_that_nobody_makes_is_named(cli: Cli) -> None:
    native = native_dir()
    if native is None:
        pytest.skip("the stand-in driver is not built")
    surroundings = {"MOIETY_NATIVE": str(native), "MOIETY_SIMGPU": "GTX9"}
    found = cli("run", "--", "true", **surroundings)
    assert found.returncode == errors.NoGpu.exit_code
    assert "no GPU model 'GTX9'" in found.stderr
    assert "no GPU model 'GTX9'" in cli("doctor", **surroundings).stdout


def test_a_driver_that_is_no_library_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    surroundings = {"MOIETY_SIMGPU": "", "LD_LIBRARY_PATH": str(tmp_path)}
    found = cli("run", "--", "true", **surroundings)
    assert found.returncode == errors.NoDriver.exit_code
    assert "no library" in found.stderr
    assert "is not a library" in cli("doctor", **surroundings).stdout
    assert not cli.is_served


@pytest.mark.parametrize(
    ("what", "said"), [("STUB", "a stub of the CUDA toolkit"), ("HELPER", "has the driver's name")]
)
def test_a_library_that_is_no_driver_is_refused_and_named(
    cli: Cli, tmp_path: Path, what: str, said: str
) -> None:
    """As the toolkit's, which many a build machine has in LD_LIBRARY_PATH."""
    flags = (f"-I{ROOT / 'native'}", f"-D{what}")
    compile_c([STUB], tmp_path / "libcuda.so.1", shared=True, flags=flags)
    surroundings = {"MOIETY_SIMGPU": "", "LD_LIBRARY_PATH": str(tmp_path)}
    found = cli("run", "--", "true", **surroundings)
    assert found.returncode == errors.NoDriver.exit_code
    assert said in found.stderr
    assert str(tmp_path) in found.stderr
    assert not cli.is_served
    driver = json.loads(cli("doctor", "-o", "json", **surroundings).stdout)
    (told,) = (finding for finding in driver if finding["about"] == "driver")
    assert told["level"] == "bad"
    assert said in told["text"]


def test_the_doctor_finds_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    found = json.loads(cli("doctor", "-o", "json").stdout)
    by_subject = {finding["about"]: finding for finding in found}
    assert by_subject["GPU 0"]["level"] == "ok"
    assert by_subject["driver"]["text"].endswith("CUDA 12.4")
    assert by_subject["driver calls"]["level"] == "bad"  # the pretended driver has none

    without = cli("doctor", MOIETY_NATIVE=str(tmp_path))
    assert without.returncode == 1
    assert "libmoiety.so is not in" in without.stdout
