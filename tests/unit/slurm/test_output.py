"""The names of files: those of a job, and those of the processes of a step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moiety.slurm.step.output import LabelledPipe, is_by_rank, open_file, path_of
from moiety.slurm.submit.output import files_of, pool_pattern


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%j-%x-%A", "%j-%x-%A"),
        ("%5j", "%5j"),
        ("%J", "%j"),
        ("%N.%u.%s.%t.%n", "node.ann.batch.0.0"),
        ("%3N%3t", "node000"),
        ("%a", "4294967294"),
        ("c%%j", "c%%j"),
        ("%q%", "%%q%"),
        (r"b\%j", "b%%j"),
    ],
)
def test_patterns_become_the_pools(pattern: str, expected: str) -> None:
    assert pool_pattern(pattern, "node", "ann", is_array=False) == expected


def test_without_a_name_a_log_has_slurms_name() -> None:
    assert files_of("", "", False, "n", "u") == ("slurm-%j.out", "")
    assert files_of("", "e-%3a", True, "n", "u") == ("slurm-%A_%a.out", "e-%3a")


def test_processes_have_files_of_their_own() -> None:
    known = {"j": "12", "J": "12.0", "x": "name"}
    assert path_of("%x-%j-%3t-%J-%%-%q", 7, known, 0) == "name-12-007-12.0-%-%q"
    assert path_of(r"a\%t", 7, known, 0) == "a%t"
    assert (is_by_rank("o%t"), is_by_rank("o%2t"), is_by_rank("o%j")) == (True, True, False)


def test_folders_of_files_are_made_and_files_truncated_or_not(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out"
    for append, expected in ((False, "x"), (True, "xx"), (False, "x")):
        fd = open_file(str(path), append=append)
        os.write(fd, b"x")
        os.close(fd)
        assert path.read_text() == expected


def test_each_line_of_a_process_has_its_label() -> None:
    read, write = os.pipe()
    ours, theirs = os.pipe()
    pipe = LabelledPipe(read, theirs, b"1: ")
    for part in (b"a\nb", b"c\n", b"no end"):
        os.write(write, part)
        assert pipe.copy()
    os.close(write)
    assert not pipe.copy()
    os.close(theirs)
    assert os.read(ours, 100) == b"1: a\n1: bc\n1: no end\n"
    os.close(ours)
    os.close(read)
