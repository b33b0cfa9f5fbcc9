"""`srun --pty` in a user's terminal, beside real Slurm's."""

from __future__ import annotations

import re

import pytest

from tests.slurm.side import Side
from tests.support.terminal import Step, Terminal

CATCHES = "trap 'echo caught; exit 5' INT; trap 'stty size' WINCH; echo ready; "
LOOP = "while :; do sleep 0.05; done"
OF_SRUN = re.compile(r"srun: [^\n]*\n?")
STEP = re.compile(r"StepId=\S+")
RACES = re.compile("CANCELLED AT|Job step aborted|: Interrupt$|queued and|has been allocated")
"""Lines that depend on how soon the processes end or the job begins."""
SHELL = (
    (b"# ", b"stty size; echo on$((40 + 2))e\n"),
    (b"on42e\r\n# ", b"sh -c 'echo r''uns; exec sleep 600'\n"),
    (b"runs\r\n", b"\x03"),
    (b"^C\r\n# ", b"echo st''ill; exit 4\n"),
)


def run(side: Side, words: tuple[str, ...], steps: tuple[Step, ...]) -> tuple[int, list[str]]:
    """The exit code, and the lines of the program; those of `srun` itself are left out."""
    terminal = Terminal(side.env | {"TERM": "dumb", "PS1": "# "}, side.folder)
    code, seen = terminal.run("srun", "--pty", *words, steps=steps)
    return code, OF_SRUN.sub("", seen).splitlines()


READY = "echo ready; exec sleep 600"
INTERRUPT = (b"ready", b"\x03")
AGAIN = (b": running", b"\x03")


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("sh", "-c", READY), (INTERRUPT, AGAIN)),
        (("-n2", "sh", "-c", f"[ $SLURM_PROCID = 0 ] || exec sleep 600; sleep 0.3; {READY}"),
         (INTERRUPT, AGAIN)),
        (("-X", "sh", "-c", READY), (INTERRUPT,)),
        (("--quit-on-interrupt", "sh", "-c", READY), (INTERRUPT,)),
        (("sh", "-c", "echo ready; read line; echo said $line; (: </dev/tty) 2>&1"),
         (INTERRUPT, (b": running", b"hello\n"))),
    ],
    ids=["twice", "of two", "passed on", "at once", "reads"],
)  # fmt: skip
def test_interrupts_without_a_terminal_of_its_own_are_alike(
    theirs: Side, ours: Side, words: tuple[str, ...], steps: tuple[Step, ...]
) -> None:
    found = []
    for side in (theirs, ours):
        terminal = Terminal(side.env | {"TERM": "dumb"}, side.folder)
        code, seen = terminal.run("srun", *words, steps=steps)
        lines = [STEP.sub("StepId=N", line) for line in seen.replace("^C", "").splitlines()]
        found.append((code, sorted(line for line in lines if not RACES.search(line))))
    assert found[1] == found[0]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("sh", "-c", "test -t 0 -a -t 1 -a -t 2 && echo all; stty size; exit 9"), ()),
        (("-n2", "sh", "-c", "test -t 0 -a -t 1 && echo $SLURM_PROCID $SLURM_NTASKS"), ()),
        (("sh", "-c", "echo $SLURM_PTY_WIN_ROW $SLURM_PTY_WIN_COL; ps -o stat= -p $$"), ()),
        (("sh", "-c", "echo ready; read line; echo said $line"), ((b"ready", b"hello\n"),)),
        (("bash", "-c", CATCHES + LOOP), ((b"ready", (20, 60)), (b"20 60", b"\x03"))),
        (("sh", "-c", "echo ready; exec sleep 600"), ((b"ready", b"\x03"),)),
        (("bash", "--norc", "-i"), SHELL),
    ],
    ids=["sees", "of two", "variables", "reads", "traps", "interrupted", "shell"],
)
def test_a_terminal_is_alike(
    theirs: Side, ours: Side, words: tuple[str, ...], steps: tuple[Step, ...]
) -> None:
    there = run(theirs, words, steps)
    assert run(ours, words, steps) == there
    assert there[1], "it says something"
