"""What is asked about GPUs, whoever answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.devices import native
from moiety.devices.interface import uuid_bytes
from moiety.devices.nvml import Nvml, NvmlUnavailable
from moiety.testing.fakes import FakeDevices


def test_nvmls_text_and_cudas_bytes_name_the_same_gpu() -> None:
    text = "GPU-00112233-4455-6677-8899-aabbccddeeff"
    assert uuid_bytes(text) == bytes.fromhex("00112233445566778899aabbccddeeff")
    assert uuid_bytes(text.replace("GPU", "MIG")) == uuid_bytes(text)


@pytest.mark.parametrize("text", ["GPU-0011", "", "GPU-zz", "GPU-" + "00" * 17])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - fromhex and we say it differently
        uuid_bytes(text)


def test_paper_gpus_are_told_apart() -> None:
    devices = FakeDevices.of(1 << 30, 2 << 30)
    devices.processes[1] = {77: 5 << 20}
    assert [d.total_bytes for d in devices.inventory()] == [1 << 30, 2 << 30]
    assert len({d.uuid_bytes for d in devices.inventory()}) == 2
    assert devices.usage(1).used_bytes == 5 << 20
    assert devices.usage(0).processes == {}


def test_the_native_directory_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOIETY_NATIVE", str(tmp_path))
    assert native.native_dir() == tmp_path
    assert native.shim_path() is None
    (tmp_path / "libmoiety.so").touch()
    assert native.shim_path() == tmp_path / "libmoiety.so"
    assert native.simgpu_dir() == tmp_path / "simgpu"


def test_without_the_stand_in_nvml_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOIETY_SIMGPU", "A100-80")
    monkeypatch.setenv("MOIETY_NATIVE", str(tmp_path))
    with pytest.raises(NvmlUnavailable, match="does not load"):
        Nvml()
