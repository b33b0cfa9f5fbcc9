"""The placements that the bench of eight GPUs compares, and what it makes of times."""

from __future__ import annotations

import pytest

from bench.many_gpus import BY_HAND, GPUS, PROGRAMS, Run, shown


def test_sixteen_unequal_programs_of_four_users_could_all_be_kept() -> None:
    assert len(PROGRAMS) == 16
    assert len({program.user for program in PROGRAMS}) == 4
    assert sum(program.share for program in PROGRAMS) <= GPUS
    needed = [p.gpu_ms / (p.gpu_ms + p.cpu_ms) for p in PROGRAMS]
    assert sum(needed) <= GPUS


def test_each_way_by_hand_names_a_gpu_for_each() -> None:
    for gpus in BY_HAND.values():
        assert len(gpus) == len(PROGRAMS)
        assert set(gpus) <= set(range(GPUS))
    owners: dict[int, set[str]] = {}
    for program, gpu in zip(PROGRAMS, BY_HAND["two GPUs for each user"], strict=True):
        owners.setdefault(gpu, set()).add(program.user)
    assert all(len(users) == 1 for users in owners.values())
    assert max(BY_HAND["each user from GPU 0 on"]) == 3


def test_the_table_has_each_program_and_the_totals() -> None:
    run = Run([0] * 16, [2 * program.alone_s for program in PROGRAMS], 9.0)
    assert run.slowdowns == pytest.approx([2.0] * 16)
    *_, total, mean, worst = shown({"moiety": run}).splitlines()
    assert (total.split(), mean.split(), worst.split()) == (
        ["all", "9.0", "s"],
        ["mean", "2.00"],
        ["worst", "2.00"],
    )
