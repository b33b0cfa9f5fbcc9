"""A spec is written as the supervisor reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.pool.starter.spec import UNLIMITED, Spec, encoded, is_id

PLAIN = Spec(
    id="w-1", attempt=3, uid=1000, gid=1001, groups=(1001, 27), arguments=("echo", "", "a=b")
)


def records(spec: Spec) -> list[str]:
    return encoded(spec).decode("utf-8", "surrogateescape").split("\0")[:-1]


def test_each_part_is_a_record_and_lists_keep_their_order() -> None:
    spec = replace(
        PLAIN,
        environment={"X": "1", "A": ""},
        umask=0o27,
        stdout="/log",
        resource_limits={"NOFILE": (10, UNLIMITED)},
        memory_bytes=5,
        pids=7,
        time_limit_s=1.5,
        keep_children=True,
    )
    found = records(spec)
    for record in (
        "id=w-1", "attempt=3", "uid=1000", "gid=1001", "groups=1001,27", "cwd=/", "umask=27",
        "open_mode=append", "stdout=/log", "rlimit.NOFILE=10:unlimited", "limit.memory_bytes=5",
        "limit.pids=7", "time_limit_s=1.500", "grace_s=10.000", "keep_children=1",
        "allow_new_privileges=0",
    ):  # fmt: skip
        assert found.count(record) == 1
    assert [each for each in found if each.startswith("arg=")] == ["arg=echo", "arg=", "arg=a=b"]
    assert [each for each in found if each.startswith("env=")] == ["env=X=1", "env=A="]


def test_what_is_not_asked_for_is_left_out() -> None:
    names = {record.partition("=")[0] for record in records(PLAIN)}
    assert not names & {"stdin", "stdout", "stderr", "limit.memory_bytes", "limit.pids", "env"}
    assert "time_limit_s=0.000" in records(PLAIN)


def test_the_shortest_time_limit_is_one() -> None:
    assert "time_limit_s=0.001" in records(replace(PLAIN, time_limit_s=0.0001))


@given(st.lists(st.binary(max_size=9).map(lambda each: each.replace(b"\0", b"1")), min_size=1))
def test_any_bytes_but_zero_pass_as_arguments(arguments: list[bytes]) -> None:
    content = encoded(replace(PLAIN, arguments=arguments))
    assert content.endswith(b"".join(b"arg=" + each + b"\0" for each in arguments))


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": ()},
        {"arguments": ("a\0b",)},
        {"environment": {"X": "\0"}},
        {"cwd": "/\0"},
        {"resource_limits": {"\0": (1, 1)}},
        {"id": "../x"},
        {"id": ""},
    ],
)
def test_what_cannot_be_written_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"zero byte|no id|needs a program"):
        encoded(replace(PLAIN, **changes))  # type: ignore[arg-type]


def test_names_of_files_may_be_of_any_bytes() -> None:
    assert b"cwd=/\xff\0" in encoded(replace(PLAIN, cwd="/\udcff"))


@pytest.mark.parametrize("text", ["w0", "a.b-c_D", "0", "x" * 64])
def test_ids_are_short_and_plain(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "-a", ".a", "a/b", "a b", "a\n", "ä", "x" * 65])
def test_other_names_are_no_ids(text: str) -> None:
    assert not is_id(text)
