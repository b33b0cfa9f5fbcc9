"""Programs that have closed their standard descriptors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Node, finish


def test_nothing_of_ours_takes_the_place_of_a_closed_stderr(
    make_node: Callable[[str], Node], build: Callable[[str], Path], tmp_path: Path
) -> None:
    """What the program prints would be written into its counters, or be sent to the agent."""
    node = make_node("A100-80:memory=64MiB,residue=1MiB")
    node.start_agent()
    found = tmp_path / "found"
    assert finish(node.run([build("no_stderr"), found]))[0] == 0
    places = found.read_text().splitlines()
    assert len(places) == 3
    assert not [place for place in places if "moiety-" in place or "socket:" in place]
