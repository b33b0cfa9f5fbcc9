"""What real Slurm's `sacct` needs: slurmdbd, and a MariaDB of its own in the same folder."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from moiety.testing.waiting import until

PROGRAMS: Final = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db")
SLURMDBD: Final = """\
AuthType=auth/none
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""
CONFIGURATION: Final = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStorageTRES=gres/gpu
"""
"""Its lines in slurm.conf."""


def missing() -> list[str]:
    """The programs that are not installed."""
    folders = (Path("/usr/bin"), Path("/usr/sbin"))
    return [name for name in PROGRAMS if not any((each / name).exists() for each in folders)]


class Accounts:
    """The database and the daemon before it; both end with it."""

    def __init__(self, folder: Path, port: int, environment: dict[str, str]) -> None:
        """`environment` has the SLURM_CONF of a file that is there."""
        self._folder = folder
        own = environment | {"MYSQL_UNIX_PORT": str(folder / "database.sock")}
        options = ("--no-defaults", f"--datadir={folder / 'database'}", "--user=root")
        quick = ("--auth-root-authentication-method=normal", "--skip-test-db")
        subprocess.run(
            ["mariadb-install-db", *options, *quick], env=own, check=True, timeout=60,
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
        address = ("--skip-networking", f"--socket={own['MYSQL_UNIX_PORT']}")
        self._processes = [self._daemon(own, "mariadbd", *options, *address)]
        until((folder / "database.sock").exists, "the database listens")
        (folder / "slurmdbd.conf").write_text(SLURMDBD.format(folder=folder, port=port))
        os.chmod(folder / "slurmdbd.conf", 0o600)
        self._processes.append(self._daemon(own, "slurmdbd", "-D"))
        add = ("sacctmgr", "-i", "add", "cluster", "oracle")
        until(
            lambda: subprocess.run(add, env=own, capture_output=True, timeout=60).returncode == 0,
            "slurmdbd knows the cluster",
        )

    def _daemon(self, environment: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{words[0]}.out").open("wb") as output:
            return subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """End both; what is in the database is not needed any more."""
        for each in reversed(self._processes):
            each.send_signal(signal.SIGKILL)
            each.wait()
