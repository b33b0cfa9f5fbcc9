"""Lists of hosts: what `scontrol show hostnames` and `hostlist` make of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.slurm.show import hostlist


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu", ["gpu"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("a,b[1-2]-ib,c", ["a", "b1-ib", "b2-ib", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_brackets_are_expanded(text: str, hosts: list[str]) -> None:
    assert hostlist.expand(text) == hosts


@pytest.mark.parametrize("text", ["n[1-", "n]1[", "n[b-c]", "n[3-1]", "n[1-99999999]", "n[[1]]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        hostlist.expand(text)


def test_neighbours_become_ranges() -> None:
    assert hostlist.compress(["a1", "a2", "a3", "b"]) == "a[1-3],b"
    assert hostlist.compress(["n08", "n09", "n10", "n12"]) == "n[08-10,12]"
    assert hostlist.compress(["n9", "n10"]) == "n[9-10]"
    assert hostlist.compress(["gpu1"]) == "gpu1"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 200)), max_size=20))
def test_what_is_compressed_expands_to_the_same(pairs: list[tuple[str, int]]) -> None:
    hosts = [f"{name}{number:03d}" for name, number in pairs]
    assert hostlist.expand(hostlist.compress(hosts)) == hosts
