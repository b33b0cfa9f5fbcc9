"""Which jobs the options of a command mean; none that narrows its answer is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from moiety.slurm.labels import JobLabels
from moiety.slurm.show import options, sacct, scancel, scontrol, selection, sinfo, squeue
from moiety.slurm.show.options import UsageError
from moiety.slurm.show.selection import Wanted, matches
from tests.support.slurm_rows import NOW_S, job_of, ran

PROGRAMS = (squeue, scancel, sacct, sinfo, scontrol)
ONE_MACHINE = frozenset({"clusters", "cluster", "federation", "local", "sibling", "ctld", "cron"})
"""They mean nothing with one cluster; another cluster's name is refused."""
AS_EVER = frozenset(
    {
        "all", "array-unique", "details", "duplicates", "exact", "future", "hide", "hurry",
        "interactive", "noconvert", "priority", "quiet", "responding", "sort", "unused",
        "use-local-uid", "verbose", "version", "whole-hetjob",
    }
)  # fmt: skip
"""What is shown with them is what is shown without; docs/reference-slurm-commands.md has them."""
SAID = JobLabels(qos="debug", reservation="course", wckey="w1", licenses="a:2,b")


def wanted_of(program: ModuleType, *words: str) -> Wanted:
    given, _ = options.read(program.NAME, words, program.OPTIONS)
    if program is scancel:
        return scancel._wanted(given, ())
    found = sacct.wanted_of(given, NOW_S) if program is sacct else squeue.wanted_of(given)
    assert isinstance(found, Wanted)
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.NAME))
def test_every_option_is_read_or_refused_or_means_nothing_here(program: ModuleType) -> None:
    assert program.__file__
    source = Path(program.__file__).read_text()
    table = re.search(r"^OPTIONS: Final = \{.*?^\}", source, re.DOTALL | re.MULTILINE)
    assert table
    rest = source.replace(table[0], "") + Path(str(selection.__file__)).read_text()
    labels = getattr(program, "LABELS", {})
    for name in (name.rstrip("=") for name in program.OPTIONS):
        is_read = name in labels or re.search(
            rf'(given\.(get|has|list)\(|given\[|_moment\(given, )[^)\n]*"{name}"', rest
        )
        is_refused = name in getattr(program, "ABSENT", ())
        assert is_read or is_refused or name in ONE_MACHINE | AS_EVER, name


@pytest.mark.parametrize(
    ("program", "words", "other"),
    [
        (scancel, ("--qos", "debug,x"), ("--qos", "x")),
        (scancel, ("-R", "course"), ("-R", "debug")),
        (scancel, ("--wckey=w1",), ("--wckey=w2",)),
        (scancel, ("-w", "gpu[1-2]"), ("-w", "gpu2")),
        (squeue, ("-q", "debug"), ("-q", "normal")),
        (squeue, ("-R", "course"), ("-R", "x")),
        (squeue, ("-L", "b"), ("-L", "c")),
        (squeue, ("-L", "a"), ("-L", "2")),
        (squeue, ("-w", "gpu1"), ("-w", "x")),
        (sacct, ("-q", "debug"), ("-q", "x")),
        (sacct, ("-W", "w1"), ("-W", "x")),
        (sacct, ("-N", "gpu1"), ("-N", "gpu[2-3]")),
    ],
)
def test_options_that_narrow_the_answer_do(
    monkeypatch: pytest.MonkeyPatch, program: ModuleType, words: Sequence[str], other: Sequence[str]
) -> None:
    monkeypatch.setattr(selection, "me", lambda: "root")
    job = job_of(SAID, **ran("running") | {"ended_s": None})
    assert matches(job, wanted_of(program, *words))
    assert not matches(job, wanted_of(program, *other))
    assert not matches(job_of(), wanted_of(program, *words)), "it said nothing, and waits"


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (sacct, ("--gid", "100"), "sacct: error: --gid cannot be used here"),
        (sinfo, ("-i", "5"), "sinfo: error: --iterate cannot be used here"),
        (scontrol, ("--json", "show", "job"), "scontrol: error: --json cannot be used here"),
        (squeue, ("-M", "other"), "squeue: error: No cluster 'other': there is only moiety"),
        (scancel, ("-w", "a[", "--me"), "scancel: error: Invalid node list: a["),
    ],
)
def test_what_would_change_the_answer_and_is_not_here_is_refused(
    program: ModuleType, words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(list(words)) == 1
    assert capsys.readouterr().err == f"{said}\n"


def test_our_own_cluster_and_all_of_them_are_this_one() -> None:
    for name in ("moiety", "all"):
        assert options.read("squeue", ["-M", name], squeue.OPTIONS)[0] == {"clusters": name}
    with pytest.raises(UsageError):
        options.read("squeue", ["-M", "moiety,b"], squeue.OPTIONS)
