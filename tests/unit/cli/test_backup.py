"""`moiety backup` and `moiety restore`: what they say, and to whom they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moiety.cli.backup import backup
from moiety.cli.restore import restore
from moiety.model.errors import PoolRunning, StoreBroken
from moiety.pool.paths import PoolPaths, pool_paths
from moiety.pool.store.database import StoreFiles
from tests.support.pool_store import submitted


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PoolPaths:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    return pool_paths()


def test_a_copy_is_made_and_put_back(paths: PoolPaths, tmp_path: Path) -> None:
    files = StoreFiles(paths)
    files.writer.write(submitted).result(60)
    copy = tmp_path / "copy.db"
    made = CliRunner().invoke(backup, [str(copy)], catch_exceptions=False)
    assert made.output == f"the store of the pool is in {copy}, 0.1 MiB\n"
    refused = CliRunner().invoke(restore, [str(copy)])
    assert isinstance(refused.exception, PoolRunning)
    files.close()
    done = CliRunner().invoke(restore, [str(copy)], catch_exceptions=False)
    (old,) = paths.folder.glob("pool-before-*.db")
    assert done.output.splitlines() == [
        f"{copy} is the store of the pool now; `moiety up` begins with it",
        f"the one before is {old}",
    ]
    again = CliRunner().invoke(restore, [str(old), "-o", "json"], catch_exceptions=False)
    assert json.loads(again.output)["file"] == str(old)


@pytest.mark.usefixtures("paths")
def test_a_pool_that_never_was_has_no_copy(tmp_path: Path) -> None:
    found = CliRunner().invoke(backup, [str(tmp_path / "copy.db")])
    assert isinstance(found.exception, StoreBroken)
    assert not (tmp_path / "copy.db").exists()
