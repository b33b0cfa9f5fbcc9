"""Batch scripts: which lines count, and which scripts are none."""

from __future__ import annotations

import pytest

from moiety.slurm.errors import JobRefused
from moiety.slurm.submit.script import read, split, wrapped

SCRIPT = b"""#!/bin/bash -l
# a comment
##SBATCH -n 1
# SBATCH -n 2
  #SBATCH -n 3

#SBATCH -J "a b" --comment='x # y' # the rest
#SBATCH
#SBATCH-N1
#SBATCH\t-c 4
echo
#SBATCH -n 5
"""


def test_lines_count_at_column_0_until_the_first_command() -> None:
    script = read(SCRIPT)
    assert script.interpreter == ["/bin/bash", "-l"]
    assert script.lines == [["-J", "a b", "--comment=x # y"], ["-N1"], ["-c", "4"]]
    assert script.text.encode() == SCRIPT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a#b c", ["a"]),
        ('"a#b" c', ["a#b", "c"]),
        ("--mem 4G\t-n2", ["--mem", "4G", "-n2"]),
        ('x="a b"c', ["x=a bc"]),
        (r"a\ b", ["a\\", "b"]),
        (r"a\"b", ['a"b']),
        ("''", [""]),
        ("$HOME", ["$HOME"]),
        ("", []),
    ],
)
def test_words_have_quotes_and_no_variables(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Batch script is empty"),
        (b" \n\t\n", "contains only whitespace"),
        (b"echo\n", "does not look like a batch script"),
        (b"\n#!/bin/sh\n", "does not look like a batch script"),
        (b"#!/bin/sh\r\necho\r\n", "DOS line breaks"),
        (b"#!/bin/sh\n#SBATCH -n 1\r\n", "DOS line breaks"),
        (b"#!/bin/sh\n\0\n", "null character"),
        (b"#!\necho\n", "names no interpreter"),
        (b"#!/bin/sh\n#SBATCH --comment=it's\n", "Unmatched `'`"),
        (b"#!/bin/sh\n" + b"#" * (3 << 20), "larger than 2 MiB"),
    ],
)
def test_what_is_no_script_is_refused_in_slurms_words(content: bytes, said: str) -> None:
    with pytest.raises(JobRefused, match=said):
        read(content)


def test_any_bytes_after_the_first_line_are_kept() -> None:
    content = b"#!/usr/bin/env python3\n# \xe9\xff\n"
    script = read(content)
    assert script.interpreter == ["/usr/bin/env", "python3"]
    assert (script.encoding, script.text.encode(script.encoding)) == ("latin-1", content)


def test_a_wrapped_command_is_a_script_of_sh() -> None:
    script = read(wrapped("echo 'a b' && exit 3"))
    assert script.interpreter == ["/bin/sh"]
    assert script.text.endswith("\n\necho 'a b' && exit 3\n")
    assert script.lines == []
