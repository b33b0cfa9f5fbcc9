"""The unit file with which systemd runs an agent for all users of a node."""

from __future__ import annotations

import shlex
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
    """The unit's text: an agent with these further arguments, as root or as a user of its own."""
    command = [sys.executable, "-m", "moiety", "agent", "start", "--foreground", "--system"]
    command += ["--idle-exit", "0", "--log-format", "journal", *arguments]
    # A percent sign begins a specifier of systemd's.
    typed = shlex.join(command).replace("%", "%%")
    lines = [f'Environment="{name}={value}"\n'.replace("%", "%%") for name, value in environment]
    return UNIT.format(
        command=typed,
        environment="".join(lines),
        identity=_USER.format(user=user) if user else _ROOT,
    )
