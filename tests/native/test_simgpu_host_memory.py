"""What the stand-in driver's GPU memory takes of the host's, and what is left in it."""

from __future__ import annotations

from pathlib import Path

from tests.support.simgpu_programs import MIB, Build, Keeper


def test_freed_memory_stays_with_its_process_up_to_a_bound(
    build: Build, gpu: dict[str, str]
) -> None:
    small = gpu | {"MOIETY_SIMGPU": gpu["MOIETY_SIMGPU"] + ",keep=64MiB"}
    one, two = (Keeper(build("simgpu_keep"), small) for _ in range(2))
    one.use(128 * MIB)
    assert one.host_bytes == 0
    one.use(48 * MIB)
    assert one.host_bytes == 48 * MIB
    two.use(32 * MIB)
    assert two.host_bytes == 0
    two.use(16 * MIB)
    assert two.host_bytes == 16 * MIB
    # What is kept in the wrong size makes way, so that a process never takes more than at its peak.
    assert one.say(f"take {64 * MIB}") == "taken"
    assert one.host_bytes == 0
    one.kill()
    three = Keeper(build("simgpu_keep"), small)
    three.use(48 * MIB)
    assert three.host_bytes == 48 * MIB
    for each in (one, two, three):
        each.end()


def test_memory_that_is_never_touched_costs_the_host_nothing(
    build: Build, gpu: dict[str, str]
) -> None:
    one = Keeper(build("simgpu_keep"), gpu)
    for _ in range(3):
        assert one.say(f"take {64 * MIB}") == "taken"
        assert one.say("free") == "freed"
    assert one.host_bytes == 0
    one.end()


def test_no_process_sees_what_another_left(build: Build, gpu: dict[str, str]) -> None:
    first = Keeper(build("simgpu_keep"), gpu)
    first.use(200 * MIB)
    second = Keeper(build("simgpu_keep"), gpu)
    assert second.say(f"take {200 * MIB}") == "taken"
    assert second.say("look") == "0 0"
    assert second.say("free") == "freed"
    first.kill()
    assert second.say(f"take {240 * MIB}") == "taken"
    assert second.say("look") == "0 0"
    for each in (first, second):
        each.end()


def test_no_page_of_new_memory_is_as_it_was_left(build: Build, gpu: dict[str, str]) -> None:
    same = Keeper(build("simgpu_keep"), gpu)
    same.use(64 * MIB)
    assert same.say(f"take {64 * MIB}") == "taken"
    assert same.say("look").split()[1] == "0"
    same.end()


def test_poison_covers_what_was_left(build: Build, gpu: dict[str, str]) -> None:
    same = Keeper(build("simgpu_keep"), gpu | {"MOIETY_SIMGPU_POISON": "1"})
    same.use(8 * MIB)
    assert same.say(f"take {8 * MIB}") == "taken"
    assert same.say("look") == f"{8 * MIB} 0"
    same.end()


def test_only_the_small_shared_state_lies_in_shared_memory(
    build: Build, gpu: dict[str, str]
) -> None:
    state = Path(gpu["MOIETY_SIMGPU_STATE"])

    def left() -> set[str]:
        files = list(state.iterdir())
        assert sum(one.stat().st_blocks * 512 for one in files) < 4 * MIB
        beside = {one.name for one in state.parent.iterdir() if one.name.startswith(state.name)}
        assert beside == {state.name}
        return {one.name for one in files}

    one = Keeper(build("simgpu_keep"), gpu)
    one.use(64 * MIB)
    one.end()
    assert left() == {"alive", "gpus", "lock"}
    two = Keeper(build("simgpu_keep"), gpu)
    two.use(64 * MIB)
    two.kill()
    Keeper(build("simgpu_keep"), gpu).end()
    assert left() == {"alive", "gpus", "lock"}
    two.end()
