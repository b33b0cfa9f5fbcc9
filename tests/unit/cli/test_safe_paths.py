"""Files of images: hostile links, and folders that become links while they are walked through."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.cli import safe_paths
from moiety.cli.safe_paths import is_file_beneath, open_beneath

SECRET = b"outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a folder and a file; beside it lies what must not be read."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "file").write_bytes(b"inside")
    return root


def content(root: Path, inside: str) -> bytes:
    with os.fdopen(open_beneath(root, inside), "rb") as file:
        return file.read()


def refused_with(root: Path, inside: str) -> int | None:
    """The number of the error with which a file is not opened; None if it is."""
    try:
        os.close(open_beneath(root, inside))
    except OSError as error:
        return error.errno
    return None


def test_absolute_links_begin_at_the_root(root: Path) -> None:
    (root / "folder").symlink_to("/etc")
    (root / "link").symlink_to("/folder/../etc/./file")
    for inside in ("link", "/link", "//folder//file", "folder/../etc/file", "../../etc/file"):
        assert content(root, inside) == b"inside"


@pytest.mark.parametrize(
    ("link", "target", "inside"),
    [
        ("link", "../secret", "link"),
        ("link", "/../../secret", "link"),
        ("link", "{outside}/file", "link"),
        ("parent", "../outside", "parent/file"),
        ("parent", "{outside}", "parent/file"),
        ("etc/parent", "../../../outside", "etc/parent/file"),
        ("link", "/proc/self/root{outside}/file", "link"),
        ("parent", "/proc/self/cwd", "parent/secret"),
        ("parent", "..", "parent/secret"),
        ("parent", "etc/../..", "parent/outside/file"),
    ],
)
def test_no_link_leads_out(root: Path, link: str, target: str, inside: str) -> None:
    (root / link).symlink_to(target.format(outside=root.parent / "outside"))
    with pytest.raises(FileNotFoundError):
        open_beneath(root, inside)
    assert not is_file_beneath(root, inside)


def test_a_folder_that_becomes_a_link_is_still_the_one_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open
    steps = []

    def opening(path: str, flags: int, **more: int) -> int:
        fd = real(path, flags, **more)
        if path == "etc":
            (root / "etc").rename(root / "was")
            (root / "etc").symlink_to(root.parent / "outside")
            steps.append(path)
        return fd

    monkeypatch.setattr(os, "open", opening)
    assert content(root, "etc/file") == b"inside"
    assert steps == ["etc"]


@pytest.mark.parametrize("becomes", ["a link", "a pipe"])
def test_a_file_that_changes_meanwhile_is_neither_followed_nor_waited_for(
    root: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    real = os.open
    file = root / "etc" / "file"

    def opening(path: str, flags: int, **more: int) -> int:
        if path == "file" and not flags & os.O_PATH:
            file.unlink()
            if becomes == "a link":
                file.symlink_to(root.parent / "secret")
            else:
                os.mkfifo(file)
        return real(path, flags, **more)

    monkeypatch.setattr(os, "open", opening)
    assert refused_with(root, "etc/file") in (errno.ELOOP, errno.EINVAL)
    assert not file.is_file() or file.is_symlink()


def test_what_has_no_end_is_refused(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "a").symlink_to("b/x")
    (root / "b").symlink_to("a/x")
    for number in range(50):
        (root / f"l{number}").symlink_to(f"l{number + 1}" if number < 49 else "etc/file")
    for inside in ("loop", "a/file", "l0"):
        assert refused_with(root, inside) == errno.ELOOP
    assert content(root, "l20") == b"inside"
    deep = root
    for _ in range(safe_paths.DEPTH_MAX + 1):
        deep = deep / "d"
    os.makedirs(deep)
    assert refused_with(root, "d/" * (safe_paths.DEPTH_MAX + 1) + "file") == errno.ENAMETOOLONG


def test_only_regular_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    for inside, number in (("pipe", errno.EINVAL), ("etc", errno.EISDIR), ("", errno.EISDIR),
                           ("etc/file/x", errno.ENOTDIR), ("etc/file/..", errno.ENOTDIR),
                           ("\0", errno.EINVAL), ("\ud800", errno.EINVAL)):  # fmt: skip
        assert refused_with(root, inside) == number, inside


@given(
    st.lists(
        st.sampled_from(["..", ".", "etc", "file", "up", "top", "out", "", "secret"]), max_size=12
    )
)
def test_whatever_path_is_asked_for_nothing_outside_is_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("beneath")
    (folder / "secret").write_bytes(SECRET)
    (folder / "root" / "etc").mkdir(parents=True)
    (folder / "root" / "etc" / "file").write_bytes(b"inside")
    (folder / "root" / "up").symlink_to("../../..")
    (folder / "root" / "etc" / "top").symlink_to("/")
    (folder / "root" / "etc" / "out").symlink_to(folder)
    open_before = len(os.listdir("/proc/self/fd"))
    try:
        assert content(folder / "root", "/".join(parts)) == b"inside"
    except OSError:
        pass
    assert len(os.listdir("/proc/self/fd")) == open_before
