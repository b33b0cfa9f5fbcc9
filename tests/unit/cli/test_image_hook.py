"""The hook that looks at the images of pods: what it says, and that it imports little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moiety.agent.system import cdi
from moiety.model import errors


def run(bundle: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    config: dict[str, Any] = {"root": {"path": str(root)}, "process": {"args": list(arguments)}}
    (bundle / "config.json").write_text(json.dumps(config))
    hook = cdi.image_hook()
    assert hook["hookName"] == "createRuntime"
    state = json.dumps({"bundle": str(bundle)})
    return subprocess.run(hook["args"], input=state, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="no glibc here")
def test_what_can_be_shared_starts(tmp_path: Path) -> None:
    done = run(tmp_path, Path("/"), "/bin/true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_image_that_cannot_be_shared_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "root" / "lib").mkdir(parents=True)
    (tmp_path / "root" / "lib" / "ld-musl-x86_64.so.1").touch()
    done = run(tmp_path, tmp_path / "root", "/bin/true")
    assert done.returncode == errors.ImageUnfit.exit_code
    assert done.stderr.startswith("moiety: this image: its C library is musl")


def test_what_is_no_state_of_a_container_is_refused() -> None:
    hook = cdi.image_hook()
    done = subprocess.run(hook["args"], input="{", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no OCI state of a container" in done.stderr


def test_it_imports_nothing_that_only_the_agent_needs() -> None:
    code = "import sys, moiety.cli.image_hook; print(*(m for m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "click", "msgspec", "moiety.agent", "moiety.config"}
