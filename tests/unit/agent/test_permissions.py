"""Who may come to a socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.system import permissions
from tests.support.users import ALICE, BOB, OtherUser, Raised, open_folder

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users")


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        (made / "w").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(made / "w" / "s"))
            listener.listen()
            yield made / "w"


def comes_in(uid: int, path: Path) -> bool:
    with OtherUser(uid, os.environ) as user:
        user.do(f"code = socket.socket(socket.AF_UNIX).connect_ex({str(path)!r})")
        code = user.do("code")
    assert code in (0, errno.EACCES)
    return bool(code == 0)


def test_ones_own_is_ones_own(folder: Path) -> None:
    permissions.open_to(folder, folder / "s", os.getuid())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o600


@needs_root
@pytest.mark.parametrize("lists", [True, False])
def test_one_user_and_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch, lists: bool) -> None:
    def unknown(*arguments: object) -> None:
        del arguments
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if not lists:
        monkeypatch.setattr(os, "setxattr", unknown)
    permissions.open_to(folder, folder / "s", ALICE)
    assert comes_in(ALICE, folder / "s")
    assert not comes_in(BOB, folder / "s")
    assert folder.stat().st_uid == 0  # nobody puts something else there
    with OtherUser(ALICE, os.environ) as alice, pytest.raises(Raised, match="Permission"):
        alice.do(f"os.listdir({str(folder)!r})")


@needs_root
def test_a_group_and_no_other(folder: Path) -> None:
    os.chmod(folder, 0o711)
    permissions.open_to_group(folder / "s", 0o660, ALICE)
    assert comes_in(ALICE, folder / "s")  # whose group has the same number
    assert not comes_in(BOB, folder / "s")
