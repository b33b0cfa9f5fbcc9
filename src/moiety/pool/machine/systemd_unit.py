"""The unit file with which systemd brings a machine's pool up, in a slice of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from moiety.agent.system.systemd_unit import quoted

UNIT: Final = """\
# Printed by `moiety up --unit`. Put it into /etc/systemd/system/moiety-pool.service, then
# systemctl daemon-reload && systemctl enable --now moiety-pool
[Unit]
Description=moiety: the pool of this machine
Requires=moiety.service
After=moiety.service remote-fs.target nss-user-lookup.target

[Service]
# The server and the starter stay in this unit. What runs goes on when it is stopped.
Type=oneshot
RemainAfterExit=yes
ExecStart={up}
ExecReload={up}
ExecStop={down}
{environment}\
KillMode=process
TimeoutStartSec=120
# Workloads have cgroups of their own below this unit's, with limits; Linux wants the processes
# of the unit itself in a leaf (systemd 254 and later; before, workloads have no limits).
Slice=moiety.slice
Delegate=yes
DelegateSubgroup=starter
TasksMax=infinity
LimitNOFILE=524288
LimitMEMLOCK=infinity
OOMPolicy=continue
# Not ProtectSystem, NoNewPrivileges and their like: programs of users are started here.

[Install]
WantedBy=multi-user.target
"""


def unit(arguments: Sequence[str] = (), *, environment: Sequence[tuple[str, str]] = ()) -> str:
    """The unit's text: `moiety up` of all users with these further arguments."""
    base = [sys.executable, "-m", "moiety"]
    given = [*environment, ("MOIETY_AGENT", "system")]
    lines = [f"Environment={quoted(f'{name}={value}', always=True)}\n" for name, value in given]
    return UNIT.format(
        up=_command([*base, "up", *arguments]),
        down=_command([*base, "down"]),
        environment="".join(lines),
    )


def _command(words: Sequence[str]) -> str:
    return " ".join(quoted(word).replace("$", "$$") for word in words)
