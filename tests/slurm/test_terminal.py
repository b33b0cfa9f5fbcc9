"""`srun --pty` in a user's terminal, beside real Slurm's."""

from __future__ import annotations

import re

import pytest

from tests.slurm.side import Side
from tests.support.terminal import Step, Terminal

CATCHES = "trap 'echo caught; exit 5' INT; trap 'stty size' WINCH; echo ready; "
LOOP = "while :; do sleep 0.05; done"
OF_SRUN = re.compile(r"srun: [^\n]*\n?")
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
