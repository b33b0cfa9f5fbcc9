"""An agent goes after its programs where memory runs out, as far as the kernel lets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system import oom_protection
from moiety.agent.system.oom_protection import SCORE, lower_score
from moiety.agent.system.systemd_unit import unit

CAP_IPC_LOCK, CAP_SYS_RESOURCE = 14, 24

PROBE = """
import re
from pathlib import Path
from moiety.agent.system import oom_protection
mapped = bytes(1 << 20)
done = oom_protection.lock_pages()
status = Path("/proc/self/status").read_text()
print(done, re.search(r"VmLck:\\s+(\\d+)", status)[1])
"""


def has(capability: int) -> bool:
    """Whether this process, and so one that it starts, has a right of root's."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s+(\w+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> capability & 1)


@pytest.mark.parametrize(("before", "after"), [(0, SCORE), (500, SCORE), (-950, -950)])
def test_the_score_is_lowered_and_never_raised(tmp_path: Path, before: int, after: int) -> None:
    file = tmp_path / "oom_score_adj"
    file.write_text(f"{before}\n")
    assert lower_score(file) == after == int(file.read_text())


def test_what_the_kernel_does_not_allow_is_no_error(tmp_path: Path) -> None:
    assert lower_score(tmp_path / "none") is None
    if os.geteuid() == 0:
        return  # root may write any file
    file = tmp_path / "oom_score_adj"
    file.write_text("100\n")
    file.chmod(0o400)
    assert lower_score(file) == 100


def test_the_kernel_takes_the_score() -> None:
    """In a process of its own, whose score stays lowered."""
    source = "from moiety.agent.system.oom_protection import *; print(lower_score())"
    said = int(subprocess.check_output([sys.executable, "-c", source], text=True))
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert said == (min(own, SCORE) if has(CAP_SYS_RESOURCE) else own)


def test_pages_are_locked_where_that_is_allowed() -> None:
    done, kib = subprocess.check_output([sys.executable, "-c", PROBE], text=True).split()
    assert (int(kib) > 1024) == (done == "True")
    if has(CAP_IPC_LOCK):
        assert done == "True"


def test_who_runs_an_agent_gives_it_the_right() -> None:
    assert re.search(rf"^OOMScoreAdjust={SCORE}$", unit(), re.MULTILINE)
    assert "CAP_SYS_RESOURCE" in unit()
    root = Path(__file__).resolve().parents[3]
    assert "SYS_RESOURCE" in (root / "deploy" / "base" / "node.yaml").read_text()
    assert oom_protection.SCORE > -1000
