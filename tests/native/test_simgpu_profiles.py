"""Which GPUs the stand-in driver has: those of its description; a wrong one is explained."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moiety.testing.waiting import DEADLINE_S
from tests.support.simgpu_programs import MIB, Build, Holder, run


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "MOIETY_SIMGPU is not set"),
        ("A100-81", "use one of"),
        ("A100-80:memory=12", "memory=16GiB"),
        ("A100-80:speed=12", "the properties are driver, memory"),
        ("17xA100-80", "between 1 and 16"),
        ("/no/such/profile", "check the path"),
    ],
)
def test_a_wrong_description_is_explained(
    text: str, hint: str, build: Build, gpu: dict[str, str]
) -> None:
    done = subprocess.run(
        [build("simgpu_hold"), "0"],
        env=gpu | {"MOIETY_SIMGPU": text},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    first = done.stderr.splitlines()[0]
    assert first.startswith("simgpu: ")
    assert hint in first


def test_a_profile_may_stand_in_a_file(build: Build, gpu: dict[str, str], tmp_path: Path) -> None:
    profile = tmp_path / "small"
    profile.write_text("# a small one\nmodel = T4\nmemory = 64MiB\nresidue = 4MiB\n")
    holder = Holder(build("simgpu_hold"), gpu | {"MOIETY_SIMGPU": str(profile)}, 0)
    assert holder.said[:2] == [str(60 * MIB), str(64 * MIB)]
    holder.end()


def test_other_gpus_in_the_same_state_are_refused_while_it_is_used(
    build: Build, gpu: dict[str, str]
) -> None:
    other = gpu | {"MOIETY_SIMGPU": "T4:memory=64MiB,residue=2MiB"}
    first = Holder(build("simgpu_hold"), gpu, 0)
    done = subprocess.run(
        [build("simgpu_hold"), "0"],
        env=other,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert f"process {first.process.pid} uses" in done.stderr
    first.end()
    second = Holder(build("simgpu_hold"), other, 0)
    assert second.free_bytes == 62 * MIB
    second.end()


@pytest.mark.parametrize(("visible", "count"), [("1", 1), ("1,0", 2), ("0,7,1", 1), ("", 0)])
def test_only_visible_devices_are_seen(
    visible: str, count: int, build: Build, gpu: dict[str, str]
) -> None:
    env = gpu | {"MOIETY_SIMGPU": "2xT4:memory=64MiB", "CUDA_VISIBLE_DEVICES": visible}
    assert run(build("simgpu_count"), env) == f"{count}\n"
