"""The command line as a user meets it: whole processes, an agent that is started on demand."""

from __future__ import annotations

import json
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.model import errors
from moiety.testing.waiting import until
from tests.support.command_line import Cli

GIB = 1 << 30


def test_the_program_gets_its_environment_arguments_and_exit_code(cli: Cli) -> None:
    source = (
        "import os, sys; print(os.environ['LD_PRELOAD'], os.environ['MOIETY_SOCKET'],"
        "*sys.argv[1:]); sys.exit(7)"
    )
    found = cli("run", "--", sys.executable, "-c", source, "--memory-limit", "--", "-q", "a b")

    assert (found.returncode, found.stderr) == (7, "")
    preload, socket, *rest = found.stdout.split()
    assert preload.endswith("/libmoiety.so")
    assert Path(socket).parent.parent == cli.agent.directory.workloads
    assert rest == ["--memory-limit", "--", "-q", "a", "b"]


def test_what_was_preloaded_stays_so(cli: Cli) -> None:
    found = cli("run", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="libc.so.6")
    first, second = found.stdout.strip().split(":")
    assert first.endswith("/libmoiety.so")
    assert second == "libc.so.6"


def test_the_stand_in_driver_comes_first_in_the_library_path(cli: Cli) -> None:
    found = cli("run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/opt/x:/opt/y")
    assert found.stdout.strip() == f"{cli.environment['MOIETY_NATIVE']}/simgpu:/opt/x:/opt/y"


def test_a_signal_reaches_the_program(cli: Cli) -> None:
    running = cli.start("run", "--", sys.executable, "-c", "print('up', flush=True); input()")
    assert running.stdout
    assert running.stdout.readline() == "up\n"
    running.send_signal(signal.SIGTERM)
    running.communicate()
    assert running.returncode == -signal.SIGTERM


def test_a_broken_pipe_ends_the_program_as_without_us(cli: Cli) -> None:
    source = "import signal; print(signal.getsignal(signal.SIGPIPE))"
    shell = 'grep SigIgn /proc/self/status; exec "$0" -c "$1"'
    found = cli("run", "--", "sh", "-c", shell, sys.executable, source)
    ignored = int(found.stdout.split()[1], 16)
    assert not ignored & 1 << signal.SIGPIPE - 1


def test_disabled_means_unshared_and_says_so(cli: Cli) -> None:
    found = cli("run", "--", "sh", "-c", "echo -$LD_PRELOAD-", MOIETY_DISABLE="1", LD_PRELOAD="")
    assert found.stdout == "--\n"
    assert "unshared" in found.stderr
    assert cli("run", "-q", "--", "true", MOIETY_DISABLE="1").stderr == ""
    refused = cli("run", "--", "true", MOIETY_DISABLE="true")
    assert refused.returncode == errors.BadSetting.exit_code
    assert "MOIETY_DISABLE: 'true' is neither 0 nor 1" in refused.stderr
    assert not cli.is_served


def test_readers_work_without_an_agent(cli: Cli) -> None:
    for command in ("ps", "status"):
        found = cli(command)
        assert (found.returncode, found.stderr) == (0, "")
        assert "no agent is running" in found.stdout
    assert json.loads(cli("ps", "-o", "json").stdout) == []
    assert json.loads(cli("status", "-o", "json").stdout) is None
    assert cli("agent", "status").returncode == 3
    assert cli("agent", "stop").returncode == 0
    assert not cli.is_served


SHARER = """
import os, sys
from tests.support.wire_fakes import Shim
from tests.support.foreground import uuid_of
shim = Shim(os.environ["MOIETY_SOCKET"])
shim.hello("train.py")
shim.attach(uuid_of(0))
shim.allocated(0, 3 << 30)
print("up", flush=True)
sys.stdin.read()
"""


def test_a_program_is_served_also_where_nothing_can_be_written_down(cli: Cli) -> None:
    spoil = (
        "import os, pathlib\n"
        "notes = pathlib.Path(os.environ['MOIETY_SOCKET']).with_name('clients')\n"
        "notes.rmdir(); notes.touch()\n"
    )
    running = cli.start("run", "--", sys.executable, "-c", spoil + SHARER)
    assert running.stdout
    assert running.stdout.readline() == "up\n"
    assert [row["pid"] for row in json.loads(cli("ps", "-o", "json").stdout)] == [running.pid]
    running.communicate("")
    until(lambda: json.loads(cli("ps", "-o", "json").stdout) == [], "its end")


def test_ps_and_status_show_who_shares(cli: Cli) -> None:
    running = cli.start("run", "--memory-limit", "4GiB", "--", sys.executable, "-c", SHARER)
    assert running.stdout
    assert running.stdout.readline() == "up\n"

    titles, row = cli("ps").stdout.splitlines()
    assert titles.split() == [
        *("TENANT", "PID", "PROGRAM", "GPU", "STATE", "SHARE", "RECEIVED", "ALLOCATED"),
        *("RESIDENT", "LIMIT", "EVICTED", "HAND-OFFS", "WAITED", "REASON"),
    ]
    assert str(running.pid) in row
    assert "holding" in row
    for title, value in (("ALLOCATED", "3 GiB"), ("LIMIT", "4 GiB")):
        assert titles.index(title) + len(title) == row.index(value) + len(value)
    (shown,) = json.loads(cli("ps", "-o", "json").stdout)
    assert shown["pid"] == running.pid
    assert shown["allocated_bytes"] == 3 * GIB

    agent, _, gpu = cli("status").stdout.splitlines()
    assert "1 tenant in 1 workload" in agent
    assert "13.75 GiB" in gpu
    assert json.loads(cli("status", "-o", "json").stdout)["gpus"][0]["holders"] == [shown["tenant"]]

    refused = cli("stop")
    assert refused.returncode == errors.AgentBusy.exit_code
    assert f"train.py (pid {running.pid})" in refused.stderr
    running.communicate("")
    until(lambda: json.loads(cli("ps", "-o", "json").stdout) == [], "its end")
    assert cli("stop").returncode == 0
    assert cli("agent", "status").returncode == 3


def test_an_agent_is_started_with_options_and_refuses_bad_ones(cli: Cli) -> None:
    for arguments in (["--turn-min", "soon"], ["--gpus", "a"], ["--arena", "much"]):
        found = cli("agent", "start", *arguments)
        assert found.returncode == errors.BadArgument.exit_code
        assert arguments[0] in found.stderr
    for gpus in ("7", "0,7"):
        found = cli("agent", "start", "--gpus", gpus)
        assert found.returncode == errors.NoGpu.exit_code
        assert "index 7 here" in found.stderr

    found = cli("agent", "start", "--arena", "100GiB", MOIETY_HOST_MEMORY="24GiB")
    assert found.returncode == errors.ArenaAboveHost.exit_code
    assert "--arena 23347MiB or less" in found.stderr
    assert not cli.is_served

    started = cli("agent", "start", "--arena", "3GiB", "--turn-min", "50ms", "--overdue", "kill")
    assert started.returncode == 0, started.stderr
    status = json.loads(cli("agent", "status", "-o", "json").stdout)
    assert "is" not in status
    assert status["arena_bytes"] == 3 * GIB
    assert f"pid {status['pid']}" in started.stdout
    again = cli("agent", "start")
    assert again.returncode == errors.AgentAlreadyRunning.exit_code


def test_an_agent_in_the_foreground_ends_with_ctrl_c(cli: Cli) -> None:
    running = cli.start("agent", "start", "--foreground")
    until(lambda: cli.is_served, "the agent")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 0
    assert "got SIGINT" in said


@pytest.mark.parametrize("where", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_programs_are_run_and_events_told_where_streams_are_closed(cli: Cli, where: str) -> None:
    """As services and cron jobs are started; the program finds them closed, too."""
    told = cli.agent.directory.path.parent / "told"
    look = f"[ -e /proc/self/fd/1 ] && [ -e /proc/self/fd/2 ] && exit 9; echo it ran > {told}"
    for command in (f"run --quiet -- bash -c {shlex.quote(look)}", "events"):
        shell = f"{sys.executable} -m moiety {command} {where}"
        found = subprocess.run(["bash", "-c", shell], env=cli.environment, capture_output=True)
        assert (found.returncode, found.stderr) == (0, b"")
    assert told.read_text() == "it ran\n"


def time_of_ended_children_s() -> float:
    """Processor time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_and_version_are_quick(cli: Cli) -> None:
    assert "protocol 1" in cli("version").stdout
    before_s = time_of_ended_children_s()
    assert "Run a program" in cli("--help").stdout
    assert time_of_ended_children_s() - before_s < 2  # 0.05 s; of a processor, whatever else runs
    modules = "import sys; import moiety.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", modules], env=cli.environment, capture_output=True, text=True
    ).stdout.split()
    assert not {"msgspec", "structlog", "asyncio", "pynvml"} & set(loaded)
    modules = "import sys; import moiety.cli.run; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", modules], env=cli.environment, capture_output=True, text=True
    ).stdout.split()
    assert not {"structlog", "asyncio", "pynvml", "moiety.agent.core.runtime"} & set(loaded)


def test_a_workload_is_named_as_asked(cli: Cli) -> None:
    running = cli.start("run", "--name", "night run", "--", sys.executable, "-c", SHARER)
    assert running.stdout
    assert running.stdout.readline() == "up\n"
    assert [row.program for row in cli.agent.ps()] == ["night run"]
    with cli.agent.call() as call:
        assert call.ask(protocol.Ping(), protocol.Done)
    running.communicate("")
