"""The command line as a user meets it: whole processes, an agent that is started on demand."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.system.file_lock import is_held
from moiety.agent.system.paths import prepare
from moiety.devices.native import native_dir
from moiety.model import errors
from moiety.testing.waiting import DEADLINE_S, until
from tests.support.foreground import AgentProcess, pretended_native

GIB = 1 << 30


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), 16 * GIB)


class Cli:
    """The `moiety` command in surroundings of its own."""

    def __init__(self, folder: Path, native: Path) -> None:
        self.agent = AgentProcess(folder / "a", native)
        self.environment = self.agent.environment | {
            "MOIETY_AGENT_ARGS": "--idle-exit 5s --linger 0",
            "NO_COLOR": "1",
        }

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def is_served(self) -> bool:
        return self.agent.directory.control.exists()


@pytest.fixture
def cli(tmp_path: Path, pretended: Path) -> Iterator[Cli]:
    made = Cli(tmp_path, pretended)
    yield made

    def gone() -> bool:
        if made.is_served:
            made("agent", "stop", "--force")
        return not is_held(made.agent.directory.supervisor_lock)

    until(gone, "the end of the agent")


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def elf(path: Path, *, bits: int = 64, machine: int = 62, interpreter: bytes | None = None) -> Path:
    """The head of an ELF program, which is all that is looked at."""
    ident = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    header = (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(4)
    header += bytes(8) + (64).to_bytes(8, "little") + bytes(8) + bytes(4)
    header += (64).to_bytes(2, "little") + (56).to_bytes(2, "little")
    header += (1 if interpreter else 0).to_bytes(2, "little") + bytes(6)
    body = b""
    if interpreter:
        size = len(interpreter).to_bytes(8, "little")
        body = (3).to_bytes(4, "little") + bytes(4) + (120).to_bytes(8, "little") + bytes(16)
        body += size + size + bytes(8) + interpreter
    path.write_bytes(ident + header + body)
    path.chmod(0o755)
    return path


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


BAD_RUNS: list[tuple[str, list[str], type[errors.MoietyError], str]] = [
    ("a size that is none", ["--memory-limit", "banana", "true"], errors.InvalidSize, "'banana'"),
    ("a limit of nothing", ["--memory-limit", "0", "true"], errors.InvalidSize, "no memory at all"),
    ("a negative limit", ["--memory-limit", "-1GiB", "true"], errors.InvalidSize, "negative"),
    ("a unit that is none", ["--capacity", "3 apples", "true"], errors.InvalidSize, "apples"),
    ("no program", [], errors.BadArgument, "PROGRAM"),
    ("an option that is none", ["--banana", "true"], errors.BadArgument, "--banana"),
    ("a program that is not there", ["no-such-program"], errors.ProgramNotFound, "not found"),
    ("a path that is not there", ["./no/such/program"], errors.ProgramNotFound, "not found"),
    ("an empty name", [""], errors.ProgramNotFound, "not found"),
    ("a directory", ["/tmp"], errors.ProgramNotExecutable, "directory"),
    ("a device", ["/dev/null"], errors.ProgramNotExecutable, "neither a program"),
    ("a file that is no program", ["/etc/passwd"], errors.ProgramNotExecutable, "executed"),
    (
        "more than a whole GPU",
        ["--gpu", "1.7", "true"],
        errors.InvalidFraction,
        "more than a whole GPU",
    ),
    ("nothing of a GPU", ["--gpu", "0", "true"], errors.InvalidFraction, "is nothing"),
    ("a part that is none", ["--gpu", "half", "true"], errors.InvalidFraction, "'half'"),
    (
        "a limit of nothing at all",
        ["--gpu-limit", "0", "true"],
        errors.InvalidFraction,
        "is nothing",
    ),
    (
        "less than asked for",
        ["--gpu", "0.5", "--gpu-limit", "0.3", "true"],
        errors.RequestAboveLimit,
        "at most 30 %",
    ),
    (
        "less memory",
        ["--memory", "2GiB", "--memory-limit", "1GiB", "true"],
        errors.MemoryAboveLimit,
        "at most 1 GiB",
    ),
    (
        "more kept than any GPU has",
        ["--memory", "15GiB", "true"],
        errors.ShareTaken,
        "--memory 14080MiB or less",
    ),
    (
        "a class that is none",
        ["--priority", "urgent", "true"],
        errors.InvalidPriority,
        "low, normal, high",
    ),
    (
        "more than any GPU has",
        ["--memory-limit", "900GiB", "true"],
        errors.LimitAboveCapacity,
        "13.75 GiB",
    ),
    (
        "more than there is to share",
        ["--capacity", "900GiB", "true"],
        errors.CapacityAboveGpu,
        "16 GiB",
    ),
    (
        "more than can be shared",
        ["--capacity", "15GiB", "true"],
        errors.CapacityAboveGpu,
        "13.75 GiB",
    ),
    ("less than can be used", ["--capacity", "1MiB", "true"], errors.BadArgument, "2 MiB"),
]


@pytest.mark.parametrize(
    ("what", "arguments", "error", "says"), BAD_RUNS, ids=[b[0] for b in BAD_RUNS]
)
def test_bad_input_is_refused_with_a_sentence(
    cli: Cli, what: str, arguments: list[str], error: type[errors.MoietyError], says: str
) -> None:
    found = cli("run", *arguments, MOIETY_ERRORS="json")
    assert found.returncode == error.exit_code, what
    told = json.loads(found.stderr)
    assert (told["error"], told["exit_code"]) == (error.__name__, error.exit_code)
    assert says in told["what"] + told["try"]
    assert found.stdout == ""


def test_an_error_is_two_lines_for_people(cli: Cli) -> None:
    found = cli("run", "--gpu", "half", "true")
    first, second = found.stderr.splitlines()
    assert first == "moiety: --gpu: 'half' is not a part of a GPU"
    assert second.startswith("  try: ")


def test_programs_that_cannot_be_shared_are_refused_before_anything_starts(
    cli: Cli, tmp_path: Path
) -> None:
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    programs: dict[Path, type[errors.MoietyError]] = {
        elf(tmp_path / "bits32", bits=32, machine=3): errors.WrongArchitecture,
        elf(tmp_path / "arm", machine=183, interpreter=loader): errors.WrongArchitecture,
        elf(tmp_path / "static"): errors.StaticProgram,
        elf(tmp_path / "musl", interpreter=b"/lib/ld-musl-x86_64.so.1\0"): errors.MuslProgram,
        script(tmp_path / "script", f"#!{tmp_path}/static -x\n"): errors.StaticProgram,
        script(tmp_path / "lost", "#!/no/such/interpreter\n"): errors.ProgramNotFound,
    }
    for program, error in programs.items():
        found = cli("run", "--", str(program))
        assert found.returncode == error.exit_code, (program, found.stderr)
        assert program.name in found.stderr
    assert not cli.is_served


def test_a_script_runs_through_its_interpreter(cli: Cli, tmp_path: Path) -> None:
    program = script(tmp_path / "hello", "#!/usr/bin/env -S sh\necho hello $1\n")
    assert cli("run", "--", str(program), "you").stdout == "hello you\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs away")
def test_a_setuid_program_is_refused(cli: Cli, tmp_path: Path) -> None:
    program = elf(tmp_path / "gains", interpreter=b"/lib64/ld-linux-x86-64.so.2\0")
    os.chown(program, 12345, -1)
    program.chmod(0o755 | stat.S_ISUID)
    found = cli("run", "--", str(program))
    assert found.returncode == errors.SecureProgram.exit_code
    assert "setuid" in found.stderr


def test_unchecked_programs_are_started_all_the_same(cli: Cli, tmp_path: Path) -> None:
    program = script(tmp_path / "lost", "#!/no/such/interpreter\n")
    found = cli("run", "--no-check", "--", str(program))
    assert found.returncode == 126
    assert cli.is_served


def test_without_the_native_library_nothing_starts(cli: Cli, tmp_path: Path) -> None:
    found = cli("run", "--", "true", MOIETY_NATIVE=str(tmp_path))
    assert found.returncode == errors.NativeLibraryMissing.exit_code
    assert not cli.is_served


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a driver")
def test_without_a_driver_nothing_starts(cli: Cli) -> None:
    found = cli("run", "--", "true", MOIETY_SIMGPU="")
    assert found.returncode == errors.NoDriver.exit_code
    assert "MOIETY_SIMGPU" in found.stderr
    assert not cli.is_served


def test_a_driver_without_the_calls_is_too_old(cli: Cli, pretended: Path) -> None:
    found = cli("run", "--", "true", MOIETY_SIMGPU="", LD_LIBRARY_PATH=str(pretended / "simgpu"))
    assert found.returncode == errors.DriverTooOld.exit_code
    assert "cuMemAddressReserve" in found.stderr


def test_another_capacity_than_that_of_the_running_agent_is_refused(cli: Cli) -> None:
    assert cli("run", "--capacity", "4GiB", "--", "true").returncode == 0
    assert cli("run", "--", "true").returncode == 0
    found = cli("run", "--capacity", "5GiB", "--", "true")
    assert found.returncode == errors.CapacityMismatch.exit_code
    assert "4 GiB" in found.stderr
    assert "5 GiB" in found.stderr


def test_disabled_means_unshared_and_says_so(cli: Cli) -> None:
    found = cli("run", "--", "sh", "-c", "echo -$LD_PRELOAD-", MOIETY_DISABLE="1", LD_PRELOAD="")
    assert found.stdout == "--\n"
    assert "unshared" in found.stderr
    assert cli("run", "-q", "--", "true", MOIETY_DISABLE="1").stderr == ""
    refused = cli("run", "--", "true", MOIETY_DISABLE="true")
    assert refused.returncode == errors.BadSetting.exit_code
    assert "MOIETY_DISABLE: 'true' is neither 0 nor 1" in refused.stderr
    assert not cli.is_served


def test_a_debugged_error_shows_where(cli: Cli) -> None:
    assert "Traceback" in cli("run", "--", "no-such", MOIETY_DEBUG="1").stderr


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


def test_an_agent_of_another_version_is_named(cli: Cli) -> None:
    cli.agent.start()
    try:
        source = (
            "import moiety.version; moiety.version.__version__ = '9.9.9';"
            "from moiety.cli.main import main; main(['ps'])"
        )
        found = subprocess.run(
            [sys.executable, "-c", source], env=cli.environment, capture_output=True, text=True
        )
        assert found.returncode == errors.AgentVersion.exit_code
        assert "9.9.9" in found.stderr
    finally:
        cli.agent.kill()


@pytest.mark.parametrize("says", [b"good morning\n", b'{"is":"done"}\n'])
def test_whoever_answers_nonsense_is_no_agent_and_not_replaced(cli: Cli, says: bytes) -> None:
    directory = cli.agent.directory
    prepare(directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory.control))
        listening.listen()
        for command in (["ps"], ["run", "--", "true"]):
            running = cli.start(*command)
            connection, _ = listening.accept()
            with connection:
                connection.sendall(says)
                _, said = running.communicate()
            assert running.returncode == errors.AgentSilent.exit_code
            assert "did not answer" in said
    directory.control.unlink()


def test_an_agent_that_greets_with_another_version_is_named(cli: Cli) -> None:
    directory = cli.agent.directory
    prepare(directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory.control))
        listening.listen()
        running = cli.start("ps")
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b'{"is":"here","product":"9.9.9","wire":7,"pid":1,"new":true}\n')
            _, said = running.communicate()
    directory.control.unlink()
    assert running.returncode == errors.AgentVersion.exit_code
    assert "9.9.9" in said


@pytest.mark.parametrize("part", ["w", "agent.log", "start.lock"])
def test_a_directory_in_which_nothing_can_be_made_is_refused(
    cli: Cli, tmp_path: Path, part: str
) -> None:
    (tmp_path / "d").mkdir()
    wrong = tmp_path / "d" / part
    if part == "w":
        wrong.touch()
    else:
        wrong.mkdir()
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / "d"))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert str(wrong) in found.stderr
    assert "Traceback" not in found.stderr


def test_output_that_cannot_be_written_is_an_error_unless_nobody_reads_it(cli: Cli) -> None:
    for command in ("version", "ps", "doctor", "--help"):
        shell = f"{sys.executable} -m moiety {command}"
        full, closed, unread = (
            subprocess.run(
                ["bash", "-c", f"{shell} {where}"],
                env=cli.environment,
                capture_output=True,
                text=True,
            )
            for where in (">/dev/full", ">&-", "| :")
        )
        assert full.returncode == errors.SystemRefusal.exit_code
        assert "No space left" in full.stderr
        for found in (full, closed, unread):
            assert "Traceback" not in found.stderr


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


def test_a_mistyped_command_is_told_which_is_meant(cli: Cli) -> None:
    found = cli("statsu")
    assert found.returncode == errors.BadArgument.exit_code
    assert "Did you mean status?" in found.stderr
    assert "Did you mean" not in cli("frobnicate").stderr


def test_a_card_that_nobody_makes_is_named(cli: Cli) -> None:
    native = native_dir()
    if native is None:
        pytest.skip("the stand-in driver is not built")
    surroundings = {"MOIETY_NATIVE": str(native), "MOIETY_SIMGPU": "GTX9"}
    found = cli("run", "--", "true", **surroundings)
    assert found.returncode == errors.NoGpu.exit_code
    assert "no GPU model 'GTX9'" in found.stderr
    assert "no GPU model 'GTX9'" in cli("doctor", **surroundings).stdout


def test_a_driver_that_is_no_library_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    surroundings = {"MOIETY_SIMGPU": "", "LD_LIBRARY_PATH": str(tmp_path)}
    found = cli("run", "--", "true", **surroundings)
    assert found.returncode == errors.NoDriver.exit_code
    assert "no library" in found.stderr
    assert "is not a library" in cli("doctor", **surroundings).stdout
    assert not cli.is_served


def test_a_directory_with_a_long_name_is_refused(cli: Cli, tmp_path: Path) -> None:
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / ("x" * 100)))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert "107" in found.stderr


def test_a_directory_that_is_a_link_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = cli("run", "--", "true", MOIETY_DIR=str(tmp_path / "link"))
    assert found.returncode == errors.BadAgentDirectory.exit_code
    assert "link" in found.stderr


def test_the_doctor_finds_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    found = json.loads(cli("doctor", "-o", "json").stdout)
    by_subject = {finding["about"]: finding for finding in found}
    assert by_subject["GPU 0"]["level"] == "ok"
    assert by_subject["driver"]["text"].endswith("CUDA 12.4")
    assert by_subject["driver calls"]["level"] == "bad"  # the pretended driver has none

    without = cli("doctor", MOIETY_NATIVE=str(tmp_path))
    assert without.returncode == 1
    assert "libmoiety.so is not in" in without.stdout


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
