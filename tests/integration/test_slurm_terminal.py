"""`srun --pty` in a user's terminal: what the program sees, which keys reach it, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system.processes import start_time
from moiety.slurm.install import install
from tests.support.pool_node import MakePool, PoolNode
from tests.support.terminal import Terminal


@pytest.fixture
def pool(make_pool: MakePool) -> PoolNode:
    found = make_pool("2xA100-80:memory=96MiB")
    found.up()
    return found


@pytest.fixture
def terminal(pool: PoolNode, tmp_path: Path) -> Terminal:
    install(tmp_path / "bin")
    env = dict(pool.node.env) | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    return Terminal(env, tmp_path)


WHAT = (
    "test -t 0 -a -t 1 -a -t 2 && echo all three; stty size; ps -o stat= -p $$; "
    "echo $SLURM_PTY_WIN_COL $SLURM_PROCID; exit 9"
)
CATCHES = "trap 'echo caught; exit 5' INT; trap 'stty size' WINCH; echo ready; "
LOOP = "while :; do sleep 0.05; done"


def test_the_first_process_has_a_terminal_of_its_own(terminal: Terminal) -> None:
    for tasks in ("-n1", "-n2"):
        code, seen = terminal.run("srun", tasks, "--pty", "bash", "-c", WHAT)
        words = [line for line in seen.splitlines() if not line.startswith("srun: ")]
        assert code == 9
        at = words.index("all three")
        assert words[at + 1] == "33 101"
        assert "s" in words[at + 2], "it leads a session"
        assert words[at + 3] == "101 0"
        assert words.count("all three") == 1, "the others see no terminal"


def test_keys_sizes_and_signals_reach_the_program(terminal: Terminal) -> None:
    code, seen = terminal.run(
        "srun", "--pty", "bash", "-c", CATCHES + LOOP,
        steps=((b"ready", (20, 60)), (b"20 60", b"\x03")),
    )  # fmt: skip
    assert (code, "caught" in seen) == (5, True), seen
    code, seen = terminal.run(
        "srun", "--pty", "sh", "-c", "echo ready; exec sleep 600", steps=((b"ready", b"\x03"),)
    )
    assert (code, "task 0: Interrupt" in seen) == (130, True), seen


def test_a_shell_with_job_control_is_interrupted_without_ending(terminal: Terminal) -> None:
    code, seen = terminal.run(
        "srun", "--pty", "bash", "--norc", "-i",
        steps=(
            (b"# " if os.geteuid() == 0 else b"$ ", b"sh -c 'echo r''uns; exec sleep 600'\n"),
            (b"runs\r\n", b"\x03"),
            (b"^C", b"echo st''ill; exit 4\n"),
        ),
    )  # fmt: skip
    assert (code, "still" in seen) == (4, True), seen


READS = "trap 'echo caught' INT; read line; echo said $line; test -t 0 || (: </dev/tty)"


def test_without_the_option_keys_are_those_of_srun(terminal: Terminal) -> None:
    for tasks in ("-n1", "-n2"):
        code, seen = terminal.run(
            "srun", tasks, "bash", "-c", f"[ $SLURM_PROCID = 1 ] && exit; echo ready; {READS}",
            steps=((b"ready", b"\x03"), (b": running", b"hello\n")),
        )  # fmt: skip
        assert "caught" not in seen, "the first interrupt only asks for another"
        assert "said hello" in seen
        assert (code, "/dev/tty: No such device" in seen) == (1, True), seen


def test_two_interrupts_end_a_step(terminal: Terminal) -> None:
    loops = ("bash", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done")
    twice = ((b"ready", b"\x03"), (b": running", b"\x03"))
    for options, steps in (((), twice), (("--quit-on-interrupt",), twice[:1])):
        code, seen = terminal.run("srun", *options, *loops, steps=steps)
        assert code == 137
        assert "srun: forcing job termination" in seen
        assert "Killed" not in seen.replace("Force", "")
    code, seen = terminal.run(
        "srun", "-X", "sh", "-c", "echo ready; exec sleep 600", steps=twice[:1]
    )
    assert (code, "task 0: Interrupt" in seen) == (130, True), seen


def test_where_the_output_is_no_terminal_the_option_is_disregarded(terminal: Terminal) -> None:
    code, seen = terminal.run("sh", "-c", "srun --pty sh -c '[ -t 1 ] || echo none' | cat")
    assert code == 0
    assert "srun: error: Not using a pseudo-terminal, disregarding --pty option" in seen
    assert "none" in seen.splitlines()
    code, seen = terminal.run("sh", "-c", "srun --pty sh -c '[ -t 0 ] && cat' </dev/null")
    assert code == 0, seen


BACKGROUND = "set -m; sleep 600 & echo $! >sleeps; echo ready; wait"


@pytest.mark.parametrize("program", ["srun", "salloc"])
@pytest.mark.parametrize(
    "act",
    [("cancel",), ("update", "--time", "0.01s"), ("requeue",), ("kill", "cancel")],
    ids=" ".join,
)
def test_what_a_command_has_started_ends_with_its_job(
    pool: PoolNode, terminal: Terminal, tmp_path: Path, program: str, act: tuple[str, ...]
) -> None:
    def ends() -> None:
        if act[0] == "kill":
            pool.kill()
            pool.up()
        if act[0] == "requeue":
            subprocess.run(
                [tmp_path / "bin" / "scontrol", "requeue", "1"], env=pool.node.env, check=True
            )
            return
        verb, *more = act[-1:] if act[0] == "kill" else act
        done = pool.node.cli(verb, "1", *more)
        assert done.returncode == 0, done.stderr

    code, seen = terminal.run(program, "bash", "-c", BACKGROUND, steps=((b"ready", ends),))
    assert code, seen
    assert start_time(int((tmp_path / "sleeps").read_text())) is None


def test_an_interactive_shell_ends_with_its_allocation(pool: PoolNode, terminal: Terminal) -> None:
    prompt = b"# " if os.geteuid() == 0 else b"$ "
    typed = b"sleep 600 & echo sle''eps\n"
    code, seen = terminal.run(
        "salloc", steps=((prompt, typed), (b"sleeps", lambda: pool.node.cli("cancel", "1")))
    )
    assert code, seen


STORM = """
import os, signal, time
from moiety.slurm.step.runner import StepRules, StepRun, StepTask

os.setpgid(0, 0)
signal.signal(signal.SIGINT, lambda *_: None)
parent = os.getpid()
if os.fork() == 0:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent:
        os.killpg(parent, signal.SIGINT)
        time.sleep(0.0002)
    os._exit(0)
tasks = [StepTask(rank, ["/bin/true"], dict(os.environ), None, None, None) for rank in range(200)]
run = StepRun(tasks, StepRules(is_typed_at=True))
for task in tasks:
    run._start(task)
os._exit(any([task.process.wait() for task in tasks]))
"""


def test_what_is_typed_while_a_task_starts_does_not_end_it() -> None:
    assert subprocess.run([sys.executable, "-c", STORM], timeout=60, check=False).returncode == 0
