"""Programs with phases on the GPU and without, each of which needs almost all of its memory."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.support.alternating import Alternating, Program

PART, MOVE_S, SPELL_S = 0.96, 0.074, 0.85
HANDOFF_S = MOVE_S * (2 * PART - 1) / PART
WARM, SPELLS = 4, 20


def regular(spell_s: float, pause_s: float) -> Program:
    """Every phase is as long as the last one."""
    return Program(lambda: spell_s, lambda: pause_s)


def ideal_s(pause_s: float) -> float:
    """What two equal ones take at least: all their work, and what is between two spells."""
    return 2 * SPELLS * SPELL_S + (2 * SPELLS - 1) * min(HANDOFF_S, pause_s) + pause_s


@pytest.mark.parametrize("pause_s", [0.094, 0.4, 0.85])
def test_two_regular_programs_change_places_between_their_spells(pause_s: float) -> None:
    node = Alternating(
        [regular(SPELL_S, pause_s), regular(SPELL_S, pause_s)], part=PART, move_s=MOVE_S
    )
    node.run_until(WARM)
    node.revokes = 0
    took_s = node.run_until(SPELLS)
    assert took_s <= 1.03 * ideal_s(pause_s)
    assert node.revokes <= 2 * SPELLS + 1


@pytest.mark.parametrize("handoff_s", [0.01, 0.02, 0.035, 0.05])
def test_short_phases_lose_little_more_than_the_moves(handoff_s: float) -> None:
    programs = [regular(0.1, 0.1), regular(0.1, 0.1)]
    node = Alternating(programs, part=PART, move_s=handoff_s * PART / (2 * PART - 1))
    node.run_until(12)
    best_s = 2 * SPELLS * 0.1 + (2 * SPELLS - 1) * handoff_s + 0.1
    assert node.run_until(SPELLS) <= 1.06 * best_s


def test_pauses_that_are_sometimes_short_are_waited_for() -> None:
    pauses = itertools.cycle([0.3] * 8 + [0.01] * 2)
    program = Program(lambda: 0.05, lambda: next(pauses))
    node = Alternating([program, regular(1e6, 0.0)], part=PART, move_s=0.03)
    node.run(20.0)
    node.revokes, before = 0, program.spells
    node.run(60.0)
    # two for each of eight spells, and none for a short pause: else it is two for each spell
    assert node.revokes <= 1.7 * (program.spells - before)


@pytest.mark.parametrize("pause_s", [0.094, 0.85])
@pytest.mark.parametrize("seed", range(4))
def test_and_nearly_so_if_their_phases_vary(pause_s: float, seed: int) -> None:
    chance = random.Random(seed)

    def program() -> Program:
        return Program(
            lambda: SPELL_S * chance.uniform(0.95, 1.05), lambda: pause_s * chance.uniform(0.9, 1.1)
        )

    node = Alternating([program(), program()], part=PART, move_s=MOVE_S)
    node.run_until(WARM)
    assert node.run_until(SPELLS) <= 1.07 * ideal_s(pause_s)


def test_who_never_pauses_is_not_at_a_disadvantage_for_long() -> None:
    always = regular(1e6, 0.0)
    phases = regular(1.3 * 9 * MOVE_S, 0.03)
    node = Alternating([always, phases], part=PART, move_s=MOVE_S)
    node.run(60.0)
    assert always.worked_s >= 0.45 * (always.worked_s + phases.worked_s)
    assert phases.worked_s >= 0.4 * (always.worked_s + phases.worked_s)


def test_short_pauses_do_not_end_turns() -> None:
    loads = [regular(0.1, 0.03), regular(0.1, 0.03)]
    node = Alternating(loads, part=PART, move_s=MOVE_S)
    node.run(5.0)
    node.revokes = 0
    node.run(20.0)
    assert node.revokes * HANDOFF_S <= 0.13 * 20.0
