"""Programs that do not fit together: turns, limits, and what happens when somebody is killed."""

from __future__ import annotations

from collections.abc import Sequence

from moiety.testing.node import Node, finish, kill
from tests.gpu.holds.setting import Running, Setting, said, turns

RIGHT = "0 words wrong\n"


def start(setting: Setting, node: Node, rounds: int) -> list[Running]:
    """All of them at once."""
    count = max(len(setting.workers), 2)
    return [
        node.run(setting.worker(i, setting.each_bytes, setting.rounds(rounds)))
        for i in range(count)
    ]


def must_be_right(programs: Sequence[Running]) -> None:
    """Every program found every word right."""
    for program in programs:
        out = said(program)
        assert out == RIGHT, out


def until_turns(node: Node, programs: Sequence[Running]) -> None:
    """Wait until each had a turn and somebody another one; an AssertionError if they end before."""

    def taken() -> bool:
        assert all(p.poll() is None for p in programs), "a program ended before all took turns"
        rows = [row["handoffs"] for row in node.json("ps")]
        return len(rows) == len(programs) and min(rows) > 0 and max(rows) > 1

    node.until(taken, "all have taken turns")


def take_turns(setting: Setting) -> str:
    """More memory than there is: turns, and every byte right."""
    with setting.node("turns") as node:
        programs = start(setting, node, 40)
        most = 0

        def ended() -> bool:
            nonlocal most
            most = max(most, turns(node))
            return all(program.poll() is not None for program in programs)

        node.until(ended, "all programs have ended")
        must_be_right(programs)
        assert most > len(programs), "nobody took turns"
        return f"{len(programs)} programs, {most} turns"


def fit_together(setting: Setting) -> str:
    """What fits runs side by side, and nothing moves."""
    with setting.node("fit") as node:
        size = setting.capacity_bytes // 4 // 8 * 8
        rounds = setting.rounds(30)
        programs = [node.run(setting.worker(i, size, rounds)) for i in range(2)]
        moved = 0
        while any(program.poll() is None for program in programs):
            moved = max([moved, *(row["evicted_bytes"] for row in node.json("ps"))])
        must_be_right(programs)
        assert moved == 0, f"{moved} bytes moved"
        return "nothing moved"


def refuse(setting: Setting) -> str:
    """A limit is an ordinary out-of-memory error."""
    with setting.node("refuse") as node:
        limit = setting.capacity_bytes // 4
        command = setting.worker(0, setting.each_bytes, 1, 0)
        code, _, err = finish(node.run(command, "--memory-limit", f"{limit}B"))
        assert code == 1, f"it ended with {code}: {err}"
        assert "error 2" in err or "OUT_OF_MEMORY" in err, err
        return f"refused at {limit >> 20} MiB"


def lose_a_program(setting: Setting) -> str:
    """One is killed in the middle; the others are right."""
    with setting.node("killed") as node:
        programs = start(setting, node, 90)
        until_turns(node, programs)
        kill(programs[0])
        must_be_right(programs[1:])
        return f"the other {len(programs) - 1} are right"


def lose_the_agent(setting: Setting) -> str:
    """The agent is killed in the middle; the next one takes over."""
    with setting.node("agent") as node:
        programs = start(setting, node, 90)
        until_turns(node, programs)
        assert node.agent is not None
        kill(node.agent)
        setting.start_agent(node)
        must_be_right(programs)
        return "all are right"


def managed_mode(setting: Setting) -> str:
    """--mode managed: programs that fit on the card even so, and every byte right."""
    with setting.node("managed") as node:
        free = min(gpu["total_bytes"] for gpu in node.json("status")["gpus"])
        size = min(setting.capacity_bytes // 4, free // 8) // 8 * 8
        rounds = setting.rounds(20)
        programs = [
            node.run(setting.worker(i, size, rounds), "--mode", "managed") for i in range(2)
        ]
        must_be_right(programs)
        return "two programs are right"
