"""What `pip install moiety` brings: the right files, for every machine that CUDA runs on."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

from moiety.version import __version__

ROOT = Path(__file__).resolve().parents[2]
NATIVE = (
    "libmoiety.so",
    "libmoiety-agent.so",
    "moiety-supervisor",
    "moiety-starter",
    "moiety-tasks",
    "simgpu/libcuda.so.1",
    "simgpu/libnvidia-ml.so.1",
    "simgpu/kernels.elf",
)


@pytest.fixture(scope="module")
def installed() -> Distribution:
    try:
        return distribution("moiety")
    except PackageNotFoundError:
        pytest.skip("moiety runs from its sources here: `make test` installs it")


def test_one_wheel_serves_every_python_and_every_glibc_since_2_17(installed: Distribution) -> None:
    lines = (installed.read_text("WHEEL") or "").splitlines()
    tags = [line for line in lines if line.startswith("Tag:")]
    assert tags == ["Tag: py3-none-manylinux_2_17_x86_64"]
    assert "Root-Is-Purelib: false" in lines


def test_the_version_stands_in_one_place(installed: Distribution) -> None:
    assert installed.version == __version__


def test_the_native_libraries_and_the_licence_are_in_it(installed: Distribution) -> None:
    files = {str(file) for file in installed.files or []}
    assert {f"moiety/_native/{name}" for name in NATIVE} <= files
    assert "moiety/py.typed" in files
    assert any(name.endswith("licenses/LICENSE") for name in files)


def test_nothing_of_the_checkout_is_in_it_by_accident(installed: Distribution) -> None:
    tops = {Path(str(file)).parts[0] for file in installed.files or []}
    assert tops <= {"moiety", f"moiety-{__version__}.dist-info", "..", "__pycache__"}


def test_the_libraries_ask_for_nothing_that_an_old_machine_lacks(installed: Distribution) -> None:
    native = Path(str(installed.locate_file("moiety/_native")))
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "symbols.py", native],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("installed")
def test_the_command_starts() -> None:
    command = Path(sys.executable).parent / "moiety"
    done = subprocess.run([command, "version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout
