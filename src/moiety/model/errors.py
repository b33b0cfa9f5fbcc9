"""Everything that can go wrong, each with what happened, what to try, and an exit code.

    MoietyError
    ├── InvalidValue (also a ValueError)          65
    │   ├── BadArgument                           64   the command line as a whole
    │   ├── InvalidSize                           66   --memory-limit banana
    │   ├── InvalidDuration                       67
    │   ├── InvalidFraction                       68
    │   ├── InvalidPriority                       69
    │   ├── RequestAboveLimit                     84   --gpu 0.5 --gpu-limit 0.3
    │   ├── MemoryAboveLimit                      75
    │   ├── LimitTooSmall                         85   --memory-limit 1
    │   ├── InvalidMode                           88
    │   ├── InvalidGang                          103   --gang-size without --gang
    │   └── KeptManaged                           89   --mode managed --memory 1GiB
    ├── InternalError                             70   our own mistake
    ├── SystemRefusal                             74   the disk is full, say
    ├── AmountError                                    more than there is
    │   ├── LimitAboveCapacity                    71
    │   ├── CapacityAboveGpu                      72
    │   ├── CapacityMismatch                      73   the agent already shares out another amount
    │   ├── ShareTaken                            77   others were promised too much of it
    │   ├── UserLimit                            110   more than the file lets this user have
    │   └── ArenaAboveHost                        87   --arena 100GiB on a small machine
    ├── ProtocolError                             76   a message that makes no sense
    ├── InstallationError
    │   ├── NativeLibraryMissing                  78
    │   ├── ScreenMissing                         79
    │   └── PlotMissing                          123
    ├── GpuError
    │   ├── NoDriver                              80
    │   ├── DriverTooOld                          81
    │   ├── NoGpu                                 82
    │   └── GpuOwned                              83   by another agent
    ├── AgentError
    │   ├── NoAgent                               90   nobody answers in this directory
    │   ├── AgentNotYours                         91
    │   ├── AgentSilent                           92   it did not answer, or not as it should
    │   ├── AgentVersion                          93
    │   ├── AgentAlreadyRunning                   94
    │   ├── AgentBusy                             95
    │   ├── AgentStopping                         96
    │   ├── BadRequest                            97
    │   ├── BadAgentDirectory                     98
    │   ├── WorkloadUnknown                       99
    │   ├── WorkloadAmbiguous                    102   several have that name
    │   ├── ContainerShareInUse                  119
    │   ├── ContainerShareUnknown                120
    │   ├── MetricsRefused                       108   nothing can listen at that address
    │   ├── NotAllowed                           109   it takes an administrator, or its owner
    │   └── TooMany                              112   conversations or programs of one user
    ├── FileError
    │   ├── FileExists                           100
    │   ├── FileNotWritable                      101
    │   ├── TraceInvalid                         121   a line of a trace makes no sense
    │   ├── TraceMissing                         122
    │   └── ScenarioInvalid                      124   a case that makes no sense
    ├── ClusterRefusal                           113   no API server, or one that says no
    ├── PodRefusal                               114   a pod's share is not, or stays as it is
    ├── ConfigError
    │   ├── BadConfigFile                        115   a file of settings that cannot be read
    │   └── BadSetting                           116   a name or a value in it or the environment
    └── ProgramError
        ├── WrongArchitecture                    104
        ├── SecureProgram                        105   setuid, setgid, capabilities
        ├── StaticProgram                        106
        ├── MuslProgram                          107
        ├── ToolRefused                          117   a debugger that would hold the GPU for ever
        ├── ImageUnfit                           118   no program in such a container can be shared
        ├── ProgramNotExecutable                 126   as env(1)
        └── ProgramNotFound                      127   as env(1)

A class without a number is never raised itself. Numbers are never used again for something else:
scripts rely on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moiety.model.format import format_bytes, format_fraction, plain

EXIT_UNKNOWN: Final = 70


class MoietyError(Exception):
    """Something failed in a way we know: `what` happened, and as a `hint` what to try."""

    exit_code: int = EXIT_UNKNOWN

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        return from_parts, (type(self).__name__, self.what, self.hint, self.exit_code)

    def render(self) -> str:
        """For a terminal: one line what happened, one line what to try."""
        hint = f"\n  try: {plain(self.hint)}" if self.hint else ""
        what = "\n".join(map(plain, self.what.split("\n")))
        return f"moiety: {what}{hint}"


def from_parts(kind: str, what: str, hint: str, exit_code: int) -> MoietyError:
    """The error that another process had: of class `kind` if there is one, else a MoietyError."""
    found = _classes(MoietyError).get(kind, MoietyError)
    error = found.__new__(found)
    MoietyError.__init__(error, what, hint)
    if exit_code != found.exit_code:
        error.exit_code = exit_code
    return error


def _classes(base: type[MoietyError]) -> dict[str, type[MoietyError]]:
    found = {base.__name__: base}
    for below in base.__subclasses__():
        found |= _classes(below)
    return found


# What was typed


class InvalidValue(MoietyError, ValueError):
    """A value that cannot be read; without a hint, the help of the command that was typed is it."""

    exit_code = 65

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)


class BadArgument(InvalidValue):
    """The command line, or the agent's options, do not make sense together."""

    exit_code = 64

    @classmethod
    def of(cls, error: ValueError, hint: str) -> BadArgument:
        """The same as another error says, with its own hint if it has one."""
        return cls(str(error), getattr(error, "hint", "") or hint)


class InvalidSize(InvalidValue):
    """An amount of memory that cannot be read."""

    exit_code = 66

    def __init__(self, text: str, problem: str = "is not a size") -> None:
        super().__init__(
            f"{text!r} {problem}", "a number with a unit: 20GiB, 512MiB, 1.5g, 2GB (= 2000 MB)"
        )


class InvalidDuration(InvalidValue):
    """A length of time that cannot be read."""

    exit_code = 67

    def __init__(self, text: str, problem: str = "is not a duration") -> None:
        super().__init__(
            f"{text!r} {problem}", "a number with a unit: 50ms, 1.5s, 2min, 1h30min; plain: seconds"
        )


class InvalidFraction(InvalidValue):
    """A part of a GPU that cannot be read."""

    exit_code = 68

    def __init__(self, text: str, problem: str = "is not a part of a GPU") -> None:
        super().__init__(f"{text!r} {problem}", "a number above 0, at most 1, such as 0.5 or 50%")


class InvalidGang(InvalidValue):
    """A gang that cannot be, or a program that cannot be of it."""

    exit_code = 103

    def __init__(self, problem: str, hint: str = "--gang NAME --gang-size N") -> None:
        super().__init__(problem, hint)


class InvalidPriority(InvalidValue):
    """A priority that does not exist."""

    exit_code = 69

    def __init__(self, text: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no priority {text!r}", f"one of {', '.join(known)}")


class RequestAboveLimit(InvalidValue):
    """More of a GPU's time was to be guaranteed than may be had."""

    exit_code = 84

    def __init__(self, request: float, limit: float) -> None:
        super().__init__(
            f"{format_fraction(request)} of a GPU cannot be guaranteed to whoever may have "
            f"at most {format_fraction(limit)}",
            f"--gpu {limit:g} or less, or --gpu-limit {request:g} or more",
        )


class MemoryAboveLimit(InvalidValue):
    """More memory was to be kept on the GPU than may be allocated."""

    exit_code = 75

    def __init__(self, request: int, limit: int) -> None:
        super().__init__(
            f"{format_bytes(request)} cannot be kept for whoever may allocate "
            f"at most {format_bytes(limit)}",
            f"--memory {_flag(limit)} or less, or a larger --memory-limit",
        )


class InvalidMode(InvalidValue):
    """A mode that does not exist."""

    exit_code = 88

    def __init__(self, text: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no mode {text!r}", f"one of {', '.join(known)}")


class KeptManaged(InvalidValue):
    """Memory was to be kept on the GPU that the driver moves as it likes."""

    exit_code = 89

    def __init__(self, request: int) -> None:
        super().__init__(
            f"{format_bytes(request)} cannot be kept on the GPU in managed mode, where the "
            "driver moves pages",
            "--mode swap, or no --memory (for a program that runs: --memory none)",
        )


class LimitTooSmall(InvalidValue):
    """A memory limit under which nothing at all could be allocated."""

    exit_code = 85

    def __init__(self, limit: int, least: int) -> None:
        super().__init__(
            f"with a memory limit of {format_bytes(limit)} nothing could be allocated: GPU memory "
            f"is given out in pieces of {format_bytes(least)}",
            f"--memory-limit {_flag(least)} or more",
        )


class InternalError(MoietyError):
    """A mistake of our own."""

    exit_code = 70

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"this should not happen: {problem}",
            "the same once more with MOIETY_DEBUG=1, and tell us",
        )


class SystemRefusal(MoietyError):
    """The system refused something that nearly always works, such as to write what was printed."""

    exit_code = 74

    def __init__(self, error: OSError) -> None:
        on = f"{error.filename}: " if error.filename else ""
        super().__init__(
            f"the system refuses: {on}{error.strerror or error}",
            "`moiety doctor`; the same once more with MOIETY_DEBUG=1 shows where",
        )


# More than there is


class AmountError(MoietyError):
    """More was named than there is."""


class LimitAboveCapacity(AmountError):
    """A limit that no GPU here could ever give."""

    exit_code = 71

    def __init__(self, limit: int, possible: int) -> None:
        super().__init__(
            f"a memory limit of {format_bytes(limit)} is more than any GPU here can give, "
            f"{format_bytes(possible)}",
            f"--memory-limit {_flag(possible)} or less, or none for the whole GPU",
        )


class CapacityAboveGpu(AmountError):
    """The agent was told to share out more than a GPU has."""

    exit_code = 72

    def __init__(self, capacity: int, gpu: int, total: int, possible: int) -> None:
        super().__init__(
            f"{format_bytes(capacity)} cannot be shared out: of the {format_bytes(total)} that "
            f"GPU {gpu} has, {format_bytes(possible)} can be",
            f"--capacity {_flag(possible)} or less, or none for all that can be",
        )


class CapacityMismatch(AmountError):
    """The agent that runs shares out another amount than was asked for."""

    exit_code = 73

    def __init__(self, running: int | None, wanted: int | None) -> None:
        super().__init__(
            f"the agent shares out {_capacity(running)} of each GPU, not {_capacity(wanted)}",
            "the same command without --capacity, or `moiety stop` first",
        )


class ShareTaken(AmountError):
    """What was asked for cannot be guaranteed beside what others were promised."""

    exit_code = 77

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)


class UserLimit(AmountError):
    """More than the file of users lets somebody have."""

    exit_code = 110

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(
            f"{problem} ({where})",
            "less, or ending another program of yours; administrators change that file "
            "(`moiety agent reload`)",
        )


class ArenaAboveHost(AmountError):
    """The host has not enough free memory for the arena that the agent was told to have."""

    exit_code = 87

    def __init__(self, arena: int, possible: int) -> None:
        super().__init__(
            f"{format_bytes(arena)} of host memory for evicted data cannot be had: "
            f"{format_bytes(possible)} can, by what is free now and what this cgroup may use",
            f"--arena {_flag(possible)} or less, or none for what seems fit",
        )


class ProtocolError(MoietyError):
    """A message that makes no sense, from a client or from an agent."""

    exit_code = 76

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"a message makes no sense: {problem}",
            "the same version of moiety on both sides (`moiety version`)",
        )


# The installation


class InstallationError(MoietyError):
    """A part of moiety itself is not there."""


class NativeLibraryMissing(InstallationError):
    """libmoiety.so, or the stand-in driver, is not where it should be."""

    exit_code = 78

    def __init__(self, library: str) -> None:
        super().__init__(
            f"{library} is not where moiety was installed",
            "installing moiety again (the wheel is for x86-64 Linux with glibc), "
            "or MOIETY_NATIVE=<build directory>",
        )


class ScreenMissing(InstallationError):
    """The library that draws the screen of `moiety top` was not installed with moiety."""

    exit_code = 79

    def __init__(self) -> None:
        super().__init__(
            "textual, which draws this screen, is not installed",
            "`pip install 'moiety[top]'`; `moiety top --once` does without",
        )


class PlotMissing(InstallationError):
    """The library that draws plots was not installed with moiety."""

    exit_code = 123

    def __init__(self) -> None:
        super().__init__(
            "matplotlib, which draws plots, is not installed",
            "`pip install 'moiety[plot]'`; the same without --plot prints the numbers",
        )


# The GPUs


class GpuError(MoietyError):
    """There is no GPU that could be shared."""


class NoDriver(GpuError):
    """NVIDIA's driver cannot be loaded."""

    exit_code = 80

    def __init__(self, problem: str = "libcuda.so.1 is nowhere to be found") -> None:
        super().__init__(
            f"there is no NVIDIA driver to use: {problem}",
            "`nvidia-smi` on this machine; without a GPU: MOIETY_SIMGPU=A100-80",
        )


class DriverTooOld(GpuError):
    """The driver lacks calls that moiety is built on."""

    exit_code = 81

    def __init__(self, path: str, lacking: Sequence[str]) -> None:
        super().__init__(
            f"the driver {path} is too old: it has no {', '.join(lacking)}",
            "a driver of the 470 branch or newer (CUDA 11.4)",
        )


class NoGpu(GpuError):
    """The driver is there but no GPU, or not the one that was named."""

    exit_code = 82

    def __init__(self, wanted: Sequence[int] | None = None, problem: str = "") -> None:
        named = f" with the index {', '.join(map(str, wanted))}" if wanted else ""
        because = f": {problem}" if problem else ""
        super().__init__(
            f"there is no GPU{named} here{because}",
            "`nvidia-smi -L` lists them; without a GPU: MOIETY_SIMGPU=A100-80",
        )


class GpuOwned(GpuError):
    """Another agent has this GPU: two would both promise the same memory."""

    exit_code = 83

    def __init__(self, gpu: int, uuid: str, owner: str) -> None:
        super().__init__(
            f"GPU {gpu} ({uuid}) belongs to another agent: {owner or 'unknown'}",
            "using that agent (MOIETY_AGENT=system, or MOIETY_DIR=its directory), ending it "
            "(`moiety agent stop` by its user, or kill), or --gpus for the others",
        )


# The agent


class AgentError(MoietyError):
    """The agent and the command could not come together."""


class NoAgent(AgentError):
    """No agent serves this directory."""

    exit_code = 90

    def __init__(self, directory: str, *, shared: bool = False) -> None:
        if shared:
            super().__init__(
                f"no agent of all users runs in {directory}",
                "an administrator: systemctl start moiety, or moiety agent start --system; "
                "an agent of your own: MOIETY_AGENT=own",
            )
            return
        super().__init__(
            f"no agent runs in {directory}",
            "`moiety agent start` (`moiety run` does it too, for one of your own); MOIETY_DIR "
            "names another place, MOIETY_AGENT=own or system which one is meant",
        )


class AgentNotYours(AgentError):
    """The agent's directory belongs to another user."""

    exit_code = 91

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"the agent in {directory} belongs to another user",
            "an agent of your own: MOIETY_DIR=<a directory of yours>",
        )


class AgentSilent(AgentError):
    """The agent did not answer, or not as it should."""

    exit_code = 92

    def __init__(self, problem: str) -> None:
        super().__init__(f"the agent did not answer: {problem}", "`moiety doctor`")


class AgentVersion(AgentError):
    """Agent and command are of different versions."""

    exit_code = 93

    def __init__(self, agent: str, own: str) -> None:
        super().__init__(
            f"the agent that runs is moiety {agent}, this is {own}",
            "ending it with its own version; the next command starts one of this version",
        )


class AgentAlreadyRunning(AgentError):
    """A second agent for the same directory."""

    exit_code = 94

    def __init__(self, directory: str, owner: str) -> None:
        super().__init__(
            f"an agent runs in {directory} already: {owner or 'unknown'}",
            "`moiety status` to see it, `moiety stop` to end it",
        )


class AgentBusy(AgentError):
    """The agent is in use and was asked to end."""

    exit_code = 95

    def __init__(self, programs: Sequence[str]) -> None:
        super().__init__(
            f"the agent is in use by {', '.join(programs)}",
            "ending these first, or --force: they keep running, the next agent takes them over",
        )


class AgentStopping(AgentError):
    """The agent is about to end and takes nobody in."""

    exit_code = 96

    def __init__(self) -> None:
        super().__init__("the agent is about to end", "the same command again in a moment")


class BadRequest(AgentError):
    """The agent was asked for something that it does not know."""

    exit_code = 97

    def __init__(self, problem: str) -> None:
        super().__init__(f"the agent refused the request: {problem}", "`moiety doctor`")


class BadAgentDirectory(AgentError):
    """The agent's directory cannot be used: not writable, not ours, or its path is too long."""

    exit_code = 98

    def __init__(self, path: str, problem: str, *, shared: bool = False) -> None:
        hint = "MOIETY_DIR=<a directory of yours with a short path>"
        if shared:
            hint = "the same as root; or MOIETY_SYSTEM_DIR=<another directory with a short path>"
        super().__init__(f"{path} cannot be the agent's directory: {problem}", hint)


class WorkloadUnknown(AgentError):
    """No such program here."""

    exit_code = 99

    def __init__(self, workload: str) -> None:
        super().__init__(
            f"no program here is {workload!r}", "`moiety ps`: a tenant's number, pid or name"
        )


class WorkloadAmbiguous(AgentError):
    """A name that several have."""

    exit_code = 102

    def __init__(self, name: str, tenants: Sequence[int]) -> None:
        super().__init__(
            f"{len(tenants)} programs are called {name!r}: tenants {', '.join(map(str, tenants))}",
            "the number of one of them, or `moiety ps`",
        )


class NotAllowed(AgentError):
    """Only others may do that: an administrator, or whose program it is."""

    exit_code = 109

    def __init__(self, problem: str, hint: str = "root, or the user who runs the agent") -> None:
        super().__init__(problem, hint)


class TooMany(AgentError):
    """Somebody has as many of something as anybody may have."""

    exit_code = 112

    def __init__(self, problem: str, hint: str = "ending some of them") -> None:
        super().__init__(problem, hint)


class ContainerShareInUse(AgentError):
    """Processes in containers use a share that was to be removed."""

    exit_code = 119

    def __init__(self, name: str, pids: Sequence[int]) -> None:
        super().__init__(
            f"{len(pids)} processes use the share {name!r}: pid {', '.join(map(str, pids))}",
            "ending their containers first, or --force: they go on, until they need the agent",
        )


class ContainerShareUnknown(AgentError):
    """No share for containers has that name."""

    exit_code = 120

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no share for containers is called {name!r}",
            f"`moiety container ls`, or `moiety container spec --name {name}` to make it",
        )


# What is written


class FileError(MoietyError):
    """A file that was to be written."""


class MetricsRefused(AgentError):
    """The agent cannot listen where it was told to offer its metrics."""

    exit_code = 108

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"metrics cannot be offered at {address}: {problem}",
            "another --metrics address; 127.0.0.1:0 takes any port that is free",
        )


class FileExists(FileError):
    """It would have been overwritten."""

    exit_code = 100

    def __init__(self, path: str, instead: str = "another name, or --force to replace it") -> None:
        super().__init__(f"{path} is there already", instead)


class FileNotWritable(FileError):
    """It cannot be written, or not to its end."""

    exit_code = 101

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} cannot be written: {problem}", "a folder of yours with room, or `-` for stdout"
        )


# A cluster


class ClusterRefusal(MoietyError):
    """Kubernetes' API server is not known, does not answer, or says no."""

    exit_code = 113

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint or "kubectl auth can-i --list, with the same kubeconfig")


class PodRefusal(MoietyError):
    """A pod has no share, or its share cannot be what was asked for."""

    exit_code = 114

    def __init__(self, pod: str, problem: str, hint: str = "") -> None:
        super().__init__(f"pod {pod}: {problem}", hint or f"kubectl moiety explain {pod}")


# Settings


class ConfigError(MoietyError):
    """What settings are to be cannot be found out."""


class BadConfigFile(ConfigError):
    """A file of settings cannot be read as a whole."""

    exit_code = 115

    def __init__(self, path: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{path}: {problem}", hint or f"moiety config check {path}")


class BadSetting(ConfigError):
    """A setting with a name that is none, or with a value that it cannot have."""

    exit_code = 116

    def __init__(self, where: str, name: str, problem: str, hint: str = "") -> None:
        subject = "" if where == name else f"{name}: "
        super().__init__(f"{where}: {subject}{problem}", hint or "moiety config show")


class TraceInvalid(FileError):
    """A line of a trace cannot be what it says."""

    exit_code = 121

    def __init__(self, path: str, line: int, problem: str, hint: str = "") -> None:
        where = f"{path}, line {line}" if line else path
        super().__init__(
            f"{where}: {problem}",
            hint or "--bad report, which goes on without such lines and counts them",
        )


class TraceMissing(FileError):
    """There is no trace where one was said to be, or none of what goes with it."""

    exit_code = 122

    def __init__(self, path: str, problem: str, what: str = "trace", hint: str = "") -> None:
        super().__init__(
            f"there is no {what} in {path}: {problem}",
            hint
            or "a folder with nodes.csv and jobs.csv (docs/traces-of-pools.md), a file of jobs "
            "that ran, .csv or .jsonl (docs/howto-simulate.md), or none for the one that comes "
            "with moiety",
        )


class ScenarioInvalid(FileError):
    """A file of scenarios, or one of its cases, cannot be what it says."""

    exit_code = 124

    def __init__(self, path: str, where: str, problem: str) -> None:
        super().__init__(
            f"{path}{f', {where}' if where else ''}: {problem}",
            "a list of cases as docs/explanation-queues.md says",
        )


# The program to run


class ProgramError(MoietyError):
    """The program cannot be run, or not under a share."""

    def __init__(self, program: str, problem: str, hint: str) -> None:
        super().__init__(f"{program}: {problem}", hint)


class WrongArchitecture(ProgramError):
    """The program is for another machine than our library."""

    exit_code = 104

    def __init__(self, program: str, built_for: str, own: str = "x86_64") -> None:
        super().__init__(
            program, f"it is built for {built_for}, moiety for {own}", f"a build of it for {own}"
        )


class SecureProgram(ProgramError):
    """The loader ignores preloads in programs that gain rights when they start."""

    exit_code = 105

    def __init__(self, program: str, how: str) -> None:
        super().__init__(
            program,
            f"it {how}, and the loader preloads nothing into such programs",
            "a copy of it without these rights",
        )


class StaticProgram(ProgramError):
    """A statically linked program loads no libraries, so neither ours nor the driver's."""

    exit_code = 106

    def __init__(self, program: str) -> None:
        super().__init__(
            program,
            "it is statically linked, so nothing can be preloaded",
            "a dynamically linked build; if it only starts others: --no-check",
        )


class MuslProgram(ProgramError):
    """Our library, as NVIDIA's driver, is for glibc."""

    exit_code = 107

    def __init__(self, program: str) -> None:
        super().__init__(
            program,
            "it is linked against musl, the NVIDIA driver needs glibc",
            "a glibc build of it",
        )


class ImageUnfit(ProgramError):
    """What is in an image keeps the shim out of its programs."""

    exit_code = 118

    def __init__(self, image: str, problem: str, hint: str) -> None:
        super().__init__(image, problem, hint)


class ToolRefused(ProgramError):
    """A profiler, debugger or sanitizer that cannot do its work on a GPU that is shared."""

    exit_code = 117

    def __init__(self, tool: str, why: str, instead: str) -> None:
        super().__init__(f"{tool} cannot work on a shared GPU", why, f"{instead}; or --no-check")


class ProgramNotExecutable(ProgramError):
    """It is there but cannot be executed."""

    exit_code = 126

    def __init__(self, program: str, problem: str = "not executable", hint: str = "") -> None:
        usual = f"chmod +x, or its interpreter before it: python {program}"
        super().__init__(program, problem, hint or usual)


class ProgramNotFound(ProgramError):
    """There is no such program."""

    exit_code = 127

    def __init__(self, program: str) -> None:
        super().__init__(program, "not found", "its full path, or check PATH")


def _capacity(size: int | None) -> str:
    return "all" if size is None else format_bytes(size)


def _flag(size: int) -> str:
    """A size as it can be typed, rounded down."""
    return f"{size >> 20}MiB" if size >= 1 << 20 else str(size)
