"""What a CDI specification of ours says, and the options that say the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from moiety.agent.system import cdi
from moiety.cli.container import _must_be_ours
from moiety.model.errors import BadArgument, FileExists

FOLDER = Path("/var/lib/moiety/containers/train")
SHIM = Path("/usr/lib/moiety/libmoiety.so")


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A driver of NVIDIA's, as far as it is looked at."""
    monkeypatch.delenv("MOIETY_SIMGPU", raising=False)
    names = ("libcuda.so", "libnvidia-ml.so", "libnvidia-gpucomp.so", "libother.so")
    for name in names:
        (tmp_path / f"{name}.570.86").touch()
    for name in names[:2]:
        (tmp_path / f"{name}.1").symlink_to(f"{name}.570.86")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(cdi, "NVIDIA_SPECS", (str(tmp_path / "cdi"),))
    monkeypatch.setattr(cdi, "nvidia_nodes", lambda: ["/dev/nvidiactl", "/dev/nvidia0"])
    return tmp_path / "libcuda.so.1"


def test_a_specification_has_shim_socket_loader_driver_and_devices(real: Path) -> None:
    spec = cdi.specification("train", cdi.edits(FOLDER, SHIM, real))
    assert (spec["cdiVersion"], spec["kind"]) == ("0.3.0", "moiety.dev/gpu")
    (device,) = spec["devices"]
    assert device["name"] == "train"
    inside = {m["containerPath"]: m for m in device["containerEdits"]["mounts"]}
    assert inside["/opt/moiety/libmoiety.so"]["hostPath"] == str(SHIM)
    assert inside["/etc/ld.so.preload"]["hostPath"] == str(FOLDER / "preload")
    assert inside["/opt/moiety/socket"]["hostPath"] == str(FOLDER / "socket")
    assert inside["/usr/lib64/libcuda.so.1"]["hostPath"] == str(real.parent / "libcuda.so.570.86")
    assert "/usr/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.570.86" in inside
    assert not any("libother" in path for path in inside)
    assert all("ro" in mount["options"] for mount in inside.values())
    nodes = [node["path"] for node in device["containerEdits"]["deviceNodes"]]
    assert nodes == ["/dev/nvidiactl", "/dev/nvidia0"]


def test_nothing_in_it_takes_the_place_of_what_an_image_sets(real: Path) -> None:
    spec = cdi.specification("train", cdi.edits(FOLDER, SHIM, real))
    variables = spec["devices"][0]["containerEdits"]["env"]
    assert [each.partition("=")[0] for each in variables] == ["MOIETY_SOCKET"]


def test_where_nvidia_has_a_specification_the_driver_comes_from_there(
    real: Path, tmp_path: Path
) -> None:
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    found = cdi.edits(FOLDER, SHIM, real)
    assert found.devices == []
    assert not any("libcuda" in mount.inside for mount in found.mounts)
    options = "--device nvidia.com/gpu=all --device moiety.dev/gpu=train"
    assert cdi.by_device("train", found) == options


def test_the_options_by_hand_say_the_same(real: Path) -> None:
    found = cdi.edits(FOLDER, SHIM, real)
    words = shlex.split(cdi.by_hand(found))
    assert words.count("-v") == len(found.mounts)
    assert f"{SHIM}:/opt/moiety/libmoiety.so:ro" in words
    assert shlex.join(words).startswith("--device /dev/nvidiactl --device /dev/nvidia0 -v ")
    assert "MOIETY_SOCKET=/opt/moiety/socket/shim.sock" in words


@pytest.mark.parametrize("name", ["a", "train", "alice.train-7_b", "a" * 32])
def test_names_that_are_devices_too_are_taken(name: str) -> None:
    assert cdi.check_name(name) == name


@pytest.mark.parametrize("name", ["", "7b", "Train", "a/b", "..", "a b", "train-", "a" * 33, "ä"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(BadArgument, match="cannot name a share"):
        cdi.check_name(name)


def test_a_file_of_another_is_kept_and_no_option_is_named_that_there_is_not(tmp_path: Path) -> None:
    file = tmp_path / "nvidia.yaml"
    _must_be_ours(file)
    file.write_text(f'{{"kind": "{cdi.KIND}"}}')
    _must_be_ours(file)
    file.write_text('{"kind": "nvidia.com/gpu"}')
    with pytest.raises(FileExists) as refused:
        _must_be_ours(file)
    assert "another name" in str(refused.value.hint)
    assert "--force" not in str(refused.value.hint)


def test_a_simulated_driver_brings_the_shims_kernels_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOIETY_SIMGPU", "A100-80")
    monkeypatch.setenv("MOIETY_SIMGPU_STATE", str(tmp_path))
    found = cdi.edits(FOLDER, SHIM, tmp_path / "libcuda.so.1")
    folders = {Path(m.inside).parent for m in found.mounts if m.inside.endswith("libcuda.so.1")}
    beside = {Path(m.inside).parent for m in found.mounts if m.inside.endswith("kernels.elf")}
    assert beside == folders != set()
