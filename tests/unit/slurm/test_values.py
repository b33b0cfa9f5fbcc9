"""The values of options are read as Slurm reads them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.slurm.errors import JobRefused
from moiety.slurm.submit import values
from moiety.slurm.submit.values import Gpus, WarnSignal


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-0", 86400),
        ("1-2:03", 93780),
        ("1-2:03:04", 93784),
        ("0", None),
        ("infinite", None),
        ("UNLIMITED", None),
        ("-1", None),
    ],
)
def test_times(text: str, seconds: int | None) -> None:
    assert values.seconds(text, "time") == seconds


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "1-", "-5", "1-2-3", "1.5", "1d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(JobRefused, match="Invalid --time specification"):
        values.seconds(text, "time")


def test_limits_are_counted_in_minutes_rounded_up() -> None:
    assert [values.minutes(each) for each in (None, 1, 60, 61)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("4096", 4096), ("4096M", 4096), ("4G", 4096), ("32GB", 32768), ("32gb", 32768),
     ("1T", 1 << 20), ("1025K", 2), ("0", 0)],
)  # fmt: skip
def test_sizes(text: str, mebibytes: int) -> None:
    assert values.mebibytes(text, "mem") == mebibytes


@pytest.mark.parametrize("text", ["", "x", "1.5G", "-32", "32Gfoo", "32 G", "4096B", "=", "1GiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(JobRefused, match="Invalid --mem specification"):
        values.mebibytes(text, "mem")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu", Gpus(1)),
        ("gpu:2", Gpus(2)),
        ("gpu:a100:2", Gpus(2, "a100")),
        ("gpu:v100", Gpus(1, "v100")),
        ("gpu:2,gpu:1", Gpus(3)),
        ("gpu:a100:2(S:0-1)", Gpus(2, "a100")),
        ("gres:gpu:1", Gpus(1)),
        ("none", Gpus(0)),
        ("gpu:0", Gpus(0)),
    ],
)
def test_gres_of_gpus(text: str, gpus: Gpus) -> None:
    assert values.gres(text) == gpus


@pytest.mark.parametrize("text", ["nvme:1", "gpu:1,lscratch:200", "shard:4", "gpu:a:b:1", "gpu:a:"])
def test_gres_that_is_no_gpu_is_refused(text: str) -> None:
    with pytest.raises(JobRefused, match=r"Invalid generic resource \(gres\) specification"):
        values.gres(text)


def test_gpus_have_a_number_a_model_or_both() -> None:
    assert values.gpus("2", "gpus") == Gpus(2)
    assert values.gpus("a100:2", "gpus") == Gpus(2, "a100")
    assert values.gpus("a100", "gpus") == Gpus(1, "a100")
    with pytest.raises(JobRefused):
        values.gpus("a:b:1", "gpus")


def test_nodes_are_one_or_a_range() -> None:
    assert (values.nodes("1"), values.nodes("1-4")) == ((1, 1), (1, 4))
    for text, said in (("x", "not a valid node count"), ("4-1", "is less than"), ("0", "invalid")):
        with pytest.raises(JobRefused, match=said):
            values.nodes(text)


def test_arrays_have_lists_ranges_steps_and_a_limit() -> None:
    assert values.array("1-5:2,9%3") == ((1, 3, 5, 9), 3)
    assert values.array("[0-1]") == ((0, 1), 0)
    for text in ("", "a", "5-1", "1-2:0", "0-2000", "1%x", "1,,2"):
        with pytest.raises(JobRefused, match="Invalid job array specification"):
            values.array(text)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("USR1", WarnSignal(10, 60, False)),
        ("SIGUSR2@90", WarnSignal(12, 90, False)),
        ("B:15@30", WarnSignal(15, 30, True)),
        ("RB:usr1@0", WarnSignal(10, 0, True)),
        ("R:USR1@5", WarnSignal(10, 5, False)),
    ],
)
def test_signals_before_the_end(text: str, signal: WarnSignal) -> None:
    assert values.warn_signal(text) == signal


@pytest.mark.parametrize("text", ["", "FOO@10", "USR1@100000", "X:USR1", "USR1@x", "0", "99"])
def test_what_is_no_signal(text: str) -> None:
    with pytest.raises(JobRefused, match="Invalid --signal specification"):
        values.warn_signal(text)


@pytest.mark.parametrize(
    ("text", "pools"),
    [
        ("afterok:12:13,afterany:14_3", "afterok:12:13,afterany:14_3"),
        ("AfterOK:1?singleton", "afterok:1?singleton"),
        ("after:1+5", "after:1+5"),
        ("12:13", "afterany:12:13"),
        ("aftercorr:4_*", "aftercorr:4_*"),
    ],
)
def test_dependencies_are_told_to_the_pool(text: str, pools: str) -> None:
    assert values.dependency(text) == pools


@pytest.mark.parametrize(
    "text", ["", "foo:1", "afterok", "afterok:x", "singleton:1", "afterok:1,singleton?2"]
)
def test_what_is_no_dependency(text: str) -> None:
    with pytest.raises(JobRefused, match="failed: Job dependency problem"):
        values.dependency(text)


def test_mail_types_are_known() -> None:
    assert values.mail_type("END,fail,TIME_LIMIT_80") == "END,fail,TIME_LIMIT_80"
    assert values.mail_type("END,ERROR") == "END,ERROR", "Slurm takes it for the one that is known"
    with pytest.raises(JobRefused, match="Invalid --mail-type specification"):
        values.mail_type("FOO")


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    for read in (
        lambda: values.seconds(text, "time"),
        lambda: values.mebibytes(text, "mem"),
        lambda: values.gres(text),
        lambda: values.gpus(text, "gpus"),
        lambda: values.nodes(text),
        lambda: values.array(text),
        lambda: values.warn_signal(text),
        lambda: values.dependency(text),
        lambda: values.count(text, "ntasks"),
    ):
        with suppress(JobRefused):  # and no other error
            assert read() is not False
