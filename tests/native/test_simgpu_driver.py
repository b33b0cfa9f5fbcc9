"""The stand-in driver's promises, each held by a C program that knows nothing of how it is made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.simgpu_programs import MIB, Build, run


@pytest.mark.parametrize(
    "what",
    ["streams", "vmm", "lookup", "graphs", "capture", "fork", "modules", "pools", "kept", "words"],
)
def test_keeps_the_drivers_rules(what: str, build: Build, gpu: dict[str, str]) -> None:
    assert run(build(f"simgpu_{what}"), gpu) == "ok\n"


def test_graphs_made_by_hand_do_what_they_say(
    build: Build, gpu: dict[str, str], tmp_path: Path
) -> None:
    assert run(build("simgpu_nodes"), gpu, tmp_path) == "ok\n"
    older = gpu | {"MOIETY_SIMGPU": f"{gpu['MOIETY_SIMGPU']},driver=12040"}
    older["MOIETY_SIMGPU_STATE"] += "-older"
    assert run(build("simgpu_nodes"), older, tmp_path) == "ok\n"
    shutil.rmtree(older["MOIETY_SIMGPU_STATE"], ignore_errors=True)


@pytest.mark.parametrize(
    ("card", "processors", "has_clusters"), [("A100-80", 108, 0), ("H100", 132, 1), ("T4", 40, 0)]
)
def test_a_launch_has_the_limits_of_its_card(
    build: Build, gpu: dict[str, str], card: str, processors: int, has_clusters: int
) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{card}:memory=256MiB,residue=2MiB"}
    assert run(build("simgpu_launches"), env, processors, has_clusters) == "ok\n"


def test_an_event_is_waited_for_by_another_process(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_shared_events"), gpu) == "ok\n"


def test_two_gpus_are_two(build: Build, gpu: dict[str, str]) -> None:
    two = gpu | {"MOIETY_SIMGPU": "2x" + gpu["MOIETY_SIMGPU"]}
    assert run(build("simgpu_peers"), two) == "ok\n"


def test_an_address_of_two_gpus_reaches_both(build: Build, gpu: dict[str, str]) -> None:
    two = gpu | {"MOIETY_SIMGPU": "2xH100:memory=256MiB,residue=2MiB"}
    assert run(build("simgpu_multicast"), two) == "ok\n"


def test_older_cards_have_no_multicast(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_multicast"), gpu) == "cannot\n"


def test_poisoned_memory_is_never_zero(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_vmm"), gpu | {"MOIETY_SIMGPU_POISON": "1"}) == "ok\n"


def test_copies_take_at_least_what_the_link_takes(build: Build, gpu: dict[str, str]) -> None:
    one, both, pageable = map(float, run(build("simgpu_copies"), gpu).split())
    seconds = 32 * MIB / 2e9
    assert one >= seconds
    assert both >= seconds
    assert pageable >= 2 * seconds


@pytest.mark.parametrize("limit", ["duplex=2GB/s", "engines=1"])
def test_directions_slow_each_other_down_where_the_card_says_so(
    limit: str, build: Build, gpu: dict[str, str]
) -> None:
    limited = gpu | {"MOIETY_SIMGPU": f"{gpu['MOIETY_SIMGPU']},{limit}"}
    one, both, _ = map(float, run(build("simgpu_copies"), limited).split())
    assert one >= 32 * MIB / 2e9
    assert both >= 2 * 32 * MIB / 2e9


def test_the_short_name_of_the_only_such_card_will_do(build: Build, gpu: dict[str, str]) -> None:
    short = gpu | {"MOIETY_SIMGPU": "h100:memory=256MiB,residue=2MiB"}
    assert run(build("simgpu_vmm"), short) == "ok\n"


def test_managed_memory_faults_once_when_it_fits(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_managed"), gpu, 64, 3).split() == ["32", "0", "0", "free", "254"]


def test_managed_memory_thrashes_when_it_does_not(build: Build, gpu: dict[str, str]) -> None:
    said = run(build("simgpu_managed"), gpu, 384, 3).split()
    assert said[:3] == ["192", "192", "192"]
