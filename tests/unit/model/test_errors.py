from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator

import pytest

from moiety.cli.main import COMMANDS
from moiety.model import errors
from moiety.model.errors import ExitCode, MoietyError, from_parts

EXAMPLES = [
    errors.InvalidValue("'x' makes no sense", "y"),
    errors.BadArgument("--gpus and --capacity do not go together", "one of them"),
    errors.InvalidSize("banana"),
    errors.InvalidDuration("soon"),
    errors.InvalidFraction("half"),
    errors.InvalidPriority("urgent", ["low", "high"]),
    errors.RequestAboveLimit(0.5, 0.3),
    errors.MemoryAboveLimit(2 << 30, 1 << 30),
    errors.InvalidMode("paged", ["swap", "managed"]),
    errors.KeptManaged(1 << 30),
    errors.LimitAboveGpu(1.5),
    errors.InvalidGang("'a b' is no name of a gang"),
    errors.LimitTooSmall(1, 2 << 20),
    errors.InternalError("a lease without a tenant"),
    errors.SystemRefusal(OSError(28, "No space left on device")),
    errors.LimitAboveCapacity(limit=100 << 30, possible=78 << 30),
    errors.MemoryAboveGpu(memory=100 << 30, possible=78 << 30),
    errors.CapacityAboveGpu(capacity=100 << 30, gpu=0, total=80 << 30, possible=78 << 30),
    errors.CapacityMismatch(running=None, wanted=1 << 30),
    errors.ShareTaken("80 % are promised to others", "--gpu 0.2 or less"),
    errors.UserLimit("alice may have half of a GPU", "/etc/moiety/config.toml:3"),
    errors.ArenaAboveHost(arena=100 << 30, possible=20 << 30),
    errors.ProtocolError("type 99"),
    errors.NativeLibraryMissing("libmoiety.so"),
    errors.ScreenMissing(),
    errors.ArraysMissing(),
    errors.YamlMissing(),
    errors.PlotMissing(),
    errors.NoDriver(),
    errors.DriverTooOld("/usr/lib/libcuda.so.1", ["cuMemCreate", "cuMemMap"]),
    errors.NoGpu(wanted=(3,)),
    errors.GpuOwned(0, "GPU-1", "pid 7"),
    errors.GpusDrained([2, 3]),
    errors.NoAgent("/run/moiety"),
    errors.AgentNotYours("/run/moiety"),
    errors.AgentSilent("it closed the connection"),
    errors.AgentVersion(agent="0.1.0", own="0.2.0"),
    errors.AgentAlreadyRunning("/run/moiety", "pid 7"),
    errors.AgentBusy(["python (12)", "worker (13)"]),
    errors.AgentStopping(),
    errors.BadRequest("no such thing"),
    errors.BadAgentDirectory("/run/moiety", "it is a file"),
    errors.WorkloadUnknown("w7"),
    errors.UserUnknown("zoe"),
    errors.WorkloadAmbiguous("train", [3, 7]),
    errors.StillRunning("chat (pid 3)", "2 h"),
    errors.ContainerShareInUse("train", [12, 13]),
    errors.ContainerShareUnknown("train"),
    errors.MetricsRefused("127.0.0.1:9402", "Address already in use"),
    errors.NotAllowed("only root may end this agent"),
    errors.TooMany("alice has 64 conversations with the agent"),
    errors.NoPool("/run/moiety"),
    errors.PoolSilent("it ended at once", "/run/moiety/pool/server.log"),
    errors.PoolRunning("/run/moiety", "pid 7"),
    errors.PoolPromises(),
    errors.PoolMissing("uvicorn"),
    errors.PoolAccountUnusable("moiety", "there is no such user", "`useradd --system moiety`"),
    errors.StarterGone("No such file or directory"),
    errors.TooMuchWaiting(990, 20, 1000),
    errors.StoreBroken("pool.db", "file is not a database"),
    errors.StoreNewer(3, 1),
    errors.WorkUnknown("7"),
    errors.WorkAmbiguous("sweep", [3, 7]),
    errors.WorkStateWrong("workload 7 runs: it cannot be held", "`moiety cancel 7`"),
    errors.TooManyWatchers(64),
    errors.ProjectUnknown("nlp", ["default"]),
    errors.PoolFileInvalid("pool.yaml", "it has no projects"),
    errors.FileExists("trace.json"),
    errors.FileNotWritable("trace.json", "No space left on device"),
    errors.ClusterRefusal("GET /api/v1/pods: forbidden"),
    errors.PodRefusal("train", "it has no share of a GPU"),
    errors.BadConfigFile("config.toml", "it is not TOML"),
    errors.BadSetting("config.toml:3", "agent.turn", "there is no such setting", "turn-min"),
    errors.RecordingInvalid("events.recording", "line 3 is none of a recording"),
    errors.RecordingMissing("events.recording", "No such file or directory"),
    errors.TraceInvalid("jobs.csv", 7, "cpu_milli is negative: -1"),
    errors.TraceMissing("/data", "it has no nodes.csv"),
    errors.ScenarioInvalid("cases.json", "cases[3].queues", "there are two queues q"),
    errors.WrongArchitecture("prog", "32-bit x86"),
    errors.SecureProgram("sudo", "is setuid"),
    errors.StaticProgram("busybox"),
    errors.MuslProgram("ls"),
    errors.ImageUnfit("/rootfs", "its C library is musl", "an image with glibc"),
    errors.ToolRefused("ncu", "its counters are the whole GPU's", "MOIETY_DISABLE=1"),
    errors.ProgramNotExecutable("notes.txt"),
    errors.ProgramNotFound("trian.py"),
]


def below(base: type[MoietyError]) -> Iterator[type[MoietyError]]:
    for error in base.__subclasses__():
        if not error.__module__.startswith(f"{errors.__name__}."):
            continue  # of somebody who builds on moiety, or of another test
        yield error
        yield from below(error)


def numbered() -> list[type[MoietyError]]:
    groups = MoietyError.exit_code
    return [
        error
        for error in below(MoietyError)
        if error.exit_code != groups or error is errors.InternalError
    ]


def test_every_error_with_a_number_is_shown_here() -> None:
    assert {type(error) for error in EXAMPLES} == set(numbered())


def test_exit_codes_are_those_of_sysexits_and_env() -> None:
    names = {
        "USAGE": os.EX_USAGE,
        "BAD_DATA": os.EX_DATAERR,
        "NO_INPUT": os.EX_NOINPUT,
        "UNAVAILABLE": os.EX_UNAVAILABLE,
        "INTERNAL": os.EX_SOFTWARE,
        "CANNOT_CREATE": os.EX_CANTCREAT,
        "IO_ERROR": os.EX_IOERR,
        "TEMPORARY": os.EX_TEMPFAIL,
        "PROTOCOL": os.EX_PROTOCOL,
        "NO_PERMISSION": os.EX_NOPERM,
        "CONFIGURATION": os.EX_CONFIG,
        "NOT_EXECUTABLE": 126,
        "NOT_FOUND": 127,
    }
    assert {code.name: code.value for code in ExitCode} == names
    assert {error.exit_code for error in numbered()} == set(ExitCode)


def test_every_error_can_be_imported_from_the_package() -> None:
    assert {error.__name__ for error in below(MoietyError)} <= set(errors.__all__)
    assert all(hasattr(errors, name) for name in errors.__all__)


def test_the_picture_of_the_tree_is_the_tree() -> None:
    drawn = dict(re.findall(r"[├└]── (\w+).*?\s{2,}(\d+)", errors.__doc__ or ""))
    assert drawn == {error.__name__: str(int(error.exit_code)) for error in numbered()}
    named = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    assert named == {error.__name__ for error in below(MoietyError)}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_says_in_two_lines_what_happened_and_what_to_try(error: MoietyError) -> None:
    first, second = error.render().split("\n")
    assert first == f"moiety: {error.what}"
    assert second == f"  try: {error.hint}"
    assert not error.what.endswith(".")
    assert str(error) == error.what


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: MoietyError) -> None:
    for copy in (
        pickle.loads(pickle.dumps(error)),
        from_parts(type(error).__name__, error.what, error.hint, error.exit_code),
    ):
        assert type(copy) is type(error)
        assert (copy.what, copy.hint, copy.exit_code) == (error.what, error.hint, error.exit_code)


def test_an_error_of_a_newer_version_keeps_its_words_and_its_number() -> None:
    error = from_parts("GpuOnFire", "GPU 0 burns", "water", 112)
    assert type(error) is MoietyError
    assert (error.render(), error.exit_code) == ("moiety: GPU 0 burns\n  try: water", 112)


def test_an_error_of_an_older_version_has_the_number_that_its_class_has_now() -> None:
    error = from_parts("NoAgent", "no agent runs in /run/moiety", "moiety agent start", 90)
    assert type(error) is errors.NoAgent
    assert (error.what, error.exit_code) == ("no agent runs in /run/moiety", ExitCode.UNAVAILABLE)


@pytest.mark.parametrize("number", [0, -1, 256])
def test_a_number_that_no_process_can_fail_with_is_not_taken_over(number: int) -> None:
    assert from_parts("GpuOnFire", "GPU 0 burns", "water", number).exit_code == ExitCode.INTERNAL


def test_a_limit_above_capacity_names_both_sizes_and_one_that_can_be_typed() -> None:
    error = errors.LimitAboveCapacity(limit=100 << 30, possible=(78 << 30) + 5)
    assert "100 GiB" in error.what
    assert "78 GiB" in error.what
    assert "79872MiB" in error.hint


def test_every_command_that_a_hint_names_exists() -> None:
    named = {name for e in EXAMPLES for name in re.findall(r"`moiety (\w+)", e.hint)}
    assert named
    assert named <= set(COMMANDS)
