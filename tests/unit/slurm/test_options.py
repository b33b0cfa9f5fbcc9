"""Options are read in the way, and refused with the words, of getopt_long."""

from __future__ import annotations

import pytest

from moiety.slurm.show import options
from moiety.slurm.show.options import UsageError

TABLE = {"jobs=": "j", "noheader": "h", "user=": "u", "usage": "", "start": "", "states=": "t"}


def test_options_stand_anywhere_and_may_be_shortened() -> None:
    line = ["12", "-hj1", "--user=ann", "--jobs", "2", "--sta", "13"]
    given, words = options.read("squeue", line, {**TABLE, "sta": ""})
    assert (given, words) == (
        {"noheader": "", "jobs": "1,2", "user": "ann", "sta": ""},
        ["12", "13"],
    )
    assert given.has("user", "nothing")
    assert given.list("jobs") == ["1", "2"]
    assert given.list("nothing") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bogus"], "unrecognized option '--bogus'"),
        (["-z"], "invalid option -- 'z'"),
        (["-j"], "option requires an argument -- 'j'"),
        (["--jobs"], "option '--jobs' requires an argument"),
        (["--noheader=1"], "option '--noheader' doesn't allow an argument"),
        (["--us", "x"], "option '--us' is ambiguous"),
    ],
)
def test_what_cannot_be_read_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        options.read("squeue", words, TABLE)
    assert refused.value.lines == (f"squeue: {said}", 'Try "squeue --help" for more information')
    assert options.usage(refused.value) == 1
    assert capsys.readouterr().err.count("\n") == 2
