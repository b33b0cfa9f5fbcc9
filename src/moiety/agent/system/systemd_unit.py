"""The unit file with which systemd runs an agent for all users of a node."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

UNIT: Final = """\
# Printed by `moiety agent unit`. Put it into /etc/systemd/system/moiety.service, then
# systemctl daemon-reload && systemctl enable --now moiety
[Unit]
Description=moiety: lets the programs of many users share this machine's GPUs
Documentation=man:systemd.service(5)
After=nvidia-persistenced.service
StartLimitIntervalSec=60
StartLimitBurst=20

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
{environment}\
# A new agent takes over from a killed one: programs that hold a GPU run on meanwhile.
Restart=on-failure
# A restart does not correct bad options or bad settings.
RestartPreventExitStatus=64 78
RestartSec=100ms
WatchdogSec=30
TimeoutStartSec=60
TimeoutStopSec=20
# /run/moiety is made by the agent, and outlives it: running programs know their sockets there.
RuntimeDirectory=moiety
RuntimeDirectoryMode=0711
RuntimeDirectoryPreserve=yes
StateDirectory=moiety
StateDirectoryMode=0711
LogsDirectory=moiety
LogsDirectoryMode=0711
# What evicted data takes is charged here: no MemoryMax below --arena.
LimitMEMLOCK=infinity
LimitNOFILE=65536
OOMScoreAdjust=-900
UMask=0077
{identity}\
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
LockPersonality=yes
# Not PrivateTmp, PrivateDevices, ProtectProc or PrivateUsers: agents of all users see each other's
# locks in /run/lock or /tmp, NVML needs the devices, and who a process is stands in /proc.

[Install]
WantedBy=multi-user.target
"""

_USER_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,30}")
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_ROOT: Final = """\
# chown: each program's socket is its user's. kill: --overdue kill. ptrace: the memory of others'
# processes by NVML, and what is written about them in /proc.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_SYS_PTRACE CAP_IPC_LOCK \
CAP_SYS_RESOURCE CAP_SYS_NICE
"""
_USER: Final = """\
User={user}
# kill: --overdue kill. ptrace: what is written about others' processes in /proc.
CapabilityBoundingSet=CAP_KILL CAP_SYS_PTRACE CAP_IPC_LOCK CAP_SYS_NICE
AmbientCapabilities=CAP_KILL CAP_SYS_PTRACE CAP_IPC_LOCK CAP_SYS_NICE
"""


def unit(
    arguments: Sequence[str] = (),
    *,
    user: str | None = None,
    environment: Sequence[tuple[str, str]] = (),
) -> str:
    """The unit's text: an agent with these further arguments, as root or as a user of its own.

    Raises ValueError for what cannot be a user's name.
    """
    if user is not None and not _USER_NAME.fullmatch(user):
        raise ValueError(f"{user!r} is no name of a user")
    command = [sys.executable, "-m", "moiety", "agent", "start", "--foreground", "--system"]
    command += ["--idle-exit", "0", "--log-format", "journal", *arguments]
    lines = [
        f"Environment={quoted(f'{name}={value}', always=True)}\n" for name, value in environment
    ]
    return UNIT.format(
        command=" ".join(quoted(word).replace("$", "$$") for word in command),
        environment="".join(lines),
        identity=_USER.format(user=user) if user else _ROOT,
    )


def quoted(word: str, *, always: bool = False) -> str:
    """A word as systemd reads it (systemd.syntax(7)): it is no shell, and % begins a specifier."""
    if always or not _PLAIN.fullmatch(word):
        escaped = word.replace("\\", r"\\").replace('"', r"\"")
        escaped = escaped.replace("\n", r"\n").replace("\t", r"\t").replace("\r", r"\r")
        word = f'"{escaped}"'
    return word.replace("%", "%%")
