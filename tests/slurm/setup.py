"""Puts real Slurm with its accounts, and mpirun, where the tests find them.

    python tests/slurm/setup.py

They are installed with apt-get where that may be done (root on Debian or Ubuntu) and they are not
there.
Exit code 0 also where they cannot be had: then the tests say so and are skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.containers.setup import CannotBeHadError, apt
from tests.support import slurm_accounts
from tests.support.slurm_oracle import missing

PACKAGES: Final = (
    "slurmctld", "slurmd", "slurm-client", "slurmdbd", "mariadb-server-core", "mariadb-client-core",
    "openmpi-bin",
)  # fmt: skip


def install() -> None:
    """Install them, and keep their services from starting.

    Raises:
        CannotBeHadError: they may not be installed, or the packages are not there.
    """
    if not missing() and not slurm_accounts.missing() and shutil.which("mpirun"):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotBeHadError("Slurm and mpirun are missing: only root on Debian installs them")
    print("setting up: Slurm and mpirun, by apt-get", flush=True)
    with contextlib.suppress(CannotBeHadError):  # one source of many that does not answer, say
        apt("update")
    apt("install", "-y", "--no-install-recommends", *PACKAGES)


def main() -> int:
    """Set up what can be had."""
    try:
        install()
    except (CannotBeHadError, subprocess.TimeoutExpired) as error:
        print(f"setting up: {error}; the tests that need it are skipped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
