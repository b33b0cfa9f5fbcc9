"""Collects the files for a bug report in one archive, without secrets (redact.py)."""

from __future__ import annotations

import io
import os
import platform
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from moiety.agent.control import protocol
from moiety.agent.core.event_file import read
from moiety.agent.system.paths import Directory, find
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.redact import Redactor
from moiety.cli.doctor.talk import talk
from moiety.devices.native import is_simulated
from moiety.model import errors
from moiety.version import __version__
from moiety.wire.layout import VERSION

AnswerT = TypeVar("AnswerT", bound=protocol.Answer)

FOLDER: Final = "moiety-bundle"
LOG_BYTES: Final = 512 << 10
EVENTS: Final = 1000
TRACE_S: Final = 60.0
README: Final = """\
What `moiety doctor --bundle` collected for a bug report.

versions.json     of moiety, Python, the kernel and the driver
findings.txt      what `moiety doctor` says, and findings.json
status.json       the GPUs; ps.json, the programs; watch.json, who uses GPUs beside moiety
events.jsonl      what happened (moiety events)
agent.log         the end of the agent's log
config.json       every setting, with where it stands
environment.txt   variables that matter, by a list of names; no others
limits.txt        what processes may take here
gpus.json         what NVML says
trace.json        the last minute, for Perfetto
events.recording  the agent's last minutes, for `moiety agent replay`; names are numbers in it
missing.txt       what could not be collected, and why

Taken out: home directories, names of people and of this machine, command lines but for the name
of the program, and whatever looks like a password, a token or a key. Look through it before you
send it.
"""


def write(sink: IO[bytes], findings: list[Finding], redactor: Redactor | None = None) -> list[str]:
    """Write the archive; returns what could not be collected, a sentence each."""
    redactor = redactor or Redactor()
    missing: list[str] = []
    with tarfile.open(fileobj=sink, mode="w:gz", compresslevel=6) as archive:
        for name, collect in parts(findings).items():
            try:
                content = collect(redactor)
            except errors.MoietyError as error:
                missing.append(f"{name}: {error.what}")
                continue
            except Exception as error:  # the other files are still worth having
                missing.append(f"{name}: {redactor.text(repr(error))}")
                continue
            add(archive, name, content)
        add(archive, "missing.txt", "".join(f"{line}\n" for line in missing))
    return missing


def add(archive: tarfile.TarFile, name: str, text: str) -> None:
    """Add a file, without the name and the id of the user."""
    content = text.encode("utf-8", "replace")
    member = tarfile.TarInfo(f"{FOLDER}/{name}")
    member.size = len(content)
    member.mtime = int(time.time())
    archive.addfile(member, io.BytesIO(content))


def parts(findings: list[Finding]) -> dict[str, Callable[[Redactor], str]]:
    """The files by name, each with the function that collects it."""
    return {
        "README.txt": lambda _: README,
        "versions.json": lambda r: document(r, versions()),
        "findings.txt": lambda r: r.text("".join(map(_line, findings))),
        "findings.json": lambda r: document(r, findings),
        "status.json": lambda r: document(r, asked(protocol.Status(), protocol.NodeStatus)),
        "ps.json": lambda r: document(r, asked(protocol.Ps(), protocol.Processes).rows),
        "watch.json": lambda r: document(r, asked(protocol.WatchRequest(), protocol.Watched)),
        "events.jsonl": events,
        "agent.log": lambda r: log(r, find()),
        "config.json": lambda r: document(r, config()),
        "environment.txt": lambda r: "\n".join(r.environment(os.environ)) + "\n",
        "limits.txt": lambda r: r.text(limits()),
        "gpus.json": lambda r: document(r, gpus()),
        "trace.json": lambda r: document(r, trace()),
        "events.recording": recording,
    }


def document(redactor: Redactor, value: Any) -> str:
    """A JSON document without private values."""
    plain = redactor.value(msgspec.to_builtins(value))
    return msgspec.json.format(msgspec.json.encode(plain), indent=1).decode() + "\n"


def versions() -> Mapping[str, Any]:
    """The versions of moiety, Python, the system and the driver."""
    module = Path("/proc/driver/nvidia/version")
    return {
        "moiety": __version__,
        "protocol": VERSION,
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "kernel": f"{platform.system()} {platform.release()} {platform.version()}",
        "machine": platform.machine(),
        "system": _os_release(),
        "processors": os.cpu_count(),
        "simulated": is_simulated(),
        "nvidia_module": module.read_text() if module.exists() else "",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def asked(request: protocol.ControlRequest, kind: type[AnswerT]) -> AnswerT:
    """The agent's answer; raises NoAgent and the other AgentErrors."""
    with talk(find()) as call:
        return call.ask(request, kind)


def events(redactor: Redactor) -> str:
    """The last events of this agent and of earlier ones; from the file if it does not answer."""
    from moiety.cli.events import known

    directory = find()
    try:
        with talk(directory):
            found = list(known(directory))
    except errors.AgentError:
        found = list(read(directory.events))
    found = found[-EVENTS:]
    plain = (redactor.value(msgspec.to_builtins(event)) for event in found)
    return "".join(msgspec.json.encode(each).decode() + "\n" for each in plain)


def log(redactor: Redactor, directory: Directory) -> str:
    """The end of the agent's log; lines of JSON stay JSON."""
    with directory.log.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    if size > LOG_BYTES:
        lines = lines[1:]  # it may have been cut, and begin within a secret
    return redactor.text("\n".join(_log_line(redactor, line) for line in lines)) + "\n"


def _log_line(redactor: Redactor, line: str) -> str:
    if line.startswith("{"):
        try:
            return msgspec.json.encode(redactor.value(msgspec.json.decode(line))).decode()
        except msgspec.MsgspecError:
            pass
    return line


def config() -> list[Mapping[str, Any]]:
    """Every setting, and where its value comes from."""
    from moiety.cli.config import as_json, everything

    return [as_json(value) for value in everything()]


def limits() -> str:
    """The limits of a process, and the memory of the machine."""
    found = []
    for path in (
        "/proc/self/limits",
        "/proc/self/cgroup",
        "/proc/meminfo",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/max_map_count",
    ):
        try:
            found.append(f"# {path}\n{Path(path).read_text()}")
        except OSError as error:
            found.append(f"# {path}: {error.strerror}\n")
    return "\n".join(found)


def gpus() -> list[Mapping[str, Any]]:
    """What NVML reports of each GPU, with the pids of the processes that use it."""
    from moiety.cli.doctor.gpus import opened

    with opened() as devices:
        return [
            {
                "driver": devices.driver_version,
                "device": msgspec.to_builtins(device),
                "usage": msgspec.to_builtins(devices.usage(device.index), str_keys=True),
                "users": msgspec.to_builtins(devices.users(device.index, 0)),
            }
            for device in devices.inventory()
        ]


def trace() -> Any:
    """The last minute of the timeline."""
    from moiety.cli.trace import Line
    from moiety.trace.perfetto import trace as as_events
    from moiety.trace.recording import Recording

    with talk(find()):
        pass  # raises at once if the agent does not answer
    since_s = time.monotonic() - TRACE_S
    with Line(find()) as line:
        recording = Recording()
        recording.fetch(line.ask, since_s)
        recording.close(since_s)
    return as_events(recording, time.time())


def recording(redactor: Redactor) -> str:
    """The agent's latest events and instructions; raises NotAllowed for other users."""
    from moiety.cli.recording import recorded
    from moiety.trace.event_recording import write as write_recording

    with talk(find()) as call:
        fetched = recorded(call)
    sink = io.BytesIO()
    write_recording(sink, fetched, redactor.text)
    return sink.getvalue().decode()


def _line(finding: Finding) -> str:
    hint = f"\n      {finding.hint}" if finding.hint else ""
    return f"{finding.level:4}  {finding.about}: {finding.text}{hint}\n"


def _os_release(lines: Iterable[str] | None = None) -> str:
    if lines is None:
        try:
            lines = Path("/etc/os-release").read_text().splitlines()
        except OSError:
            return ""
    for line in lines:
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return ""
