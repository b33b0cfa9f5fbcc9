"""The set that the stand-in driver keeps free addresses in, without a driver: native/simgpu/mem."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [Path(__file__).with_name("interval_set.c"), ROOT / "native/simgpu/mem/interval_set.c"]
NONE = 2**64 - 1
ROOM = 64
"""all numbers of the random tests are below"""

Interval = tuple[int, int]


class IntervalSet:
    """One set of the C library, in a process of its own."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.intervals: list[Interval] = []

    def do(self, *words: object) -> int:
        """Carries out one command and returns its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        result, *intervals = self.process.stdout.readline().split()
        self.intervals = [(int(base), int(end)) for base, end in (i.split("-") for i in intervals)]
        return int(result)

    def members(self) -> set[int]:
        """All numbers of the set; it must be small."""
        return {n for base, end in self.intervals for n in range(base, end)}

    def end(self) -> int:
        """Ends the process and returns its exit status."""
        self.process.communicate(timeout=10)
        return self.process.returncode


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IntervalSet]:
    program = tmp_path_factory.mktemp("unit") / "interval_set"
    compile_c(SOURCES, program, flags=[f"-I{ROOT / 'native'}"])
    one = IntervalSet(program)
    yield one
    assert one.end() == 0


@pytest.fixture
def numbers(process: IntervalSet) -> IntervalSet:
    """An empty set."""
    process.do("clear")
    return process


def test_neighbours_become_one(numbers: IntervalSet) -> None:
    numbers.do("add", 0, 10)
    numbers.do("add", 20, 10)
    assert numbers.intervals == [(0, 10), (20, 30)]
    numbers.do("add", 10, 10)
    assert numbers.intervals == [(0, 30)]


def test_the_lowest_that_is_large_enough_is_taken(numbers: IntervalSet) -> None:
    numbers.do("add", 0, 4)
    numbers.do("add", 10, 100)
    numbers.do("add", 200, 8)
    assert numbers.do("take", 8, 1) == 10
    assert numbers.intervals == [(0, 4), (18, 110), (200, 208)]


def test_what_is_taken_is_aligned_and_the_rest_stays(numbers: IntervalSet) -> None:
    numbers.do("add", 5, 40)
    assert numbers.do("take", 16, 16) == 16
    assert numbers.intervals == [(5, 16), (32, 45)]


def test_the_smallest_that_is_large_enough_is_taken(numbers: IntervalSet) -> None:
    numbers.do("add", 0, 100)
    numbers.do("add", 200, 9)
    numbers.do("add", 300, 8)
    assert numbers.do("best", 8) == 300
    assert numbers.do("best", 8) == 200
    assert numbers.intervals == [(0, 100), (208, 209)]


def test_nothing_is_taken_where_there_is_too_little(numbers: IntervalSet) -> None:
    numbers.do("add", 0, 8)
    assert numbers.do("take", 9, 1) == NONE
    assert numbers.do("best", 9) == NONE
    assert numbers.do("at", 4, 5) == 0
    assert numbers.intervals == [(0, 8)]


def test_numbers_near_the_largest_are_kept_apart(numbers: IntervalSet) -> None:
    top = 2**63
    numbers.do("add", top, 2**62)
    assert numbers.do("at", top + 2**61, 2**61) == 1
    assert numbers.intervals == [(top, top + 2**61)]


COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, ROOM - 1), st.integers(1, 16)),
        st.tuples(st.just("take"), st.integers(1, 20), st.sampled_from([1, 2, 4, 8])),
        st.tuples(st.just("best"), st.integers(1, 20), st.just(0)),
        st.tuples(st.just("at"), st.integers(0, ROOM - 1), st.integers(1, 20)),
    ),
    max_size=40,
)


def _fits(intervals: list[Interval], size: int, alignment: int) -> int:
    """Where the lowest interval that is large enough has room."""
    for base, end in intervals:
        aligned = (base + alignment - 1) // alignment * alignment
        if aligned < end and size <= end - aligned:
            return aligned
    return NONE


def _fits_best(intervals: list[Interval], size: int) -> int:
    """Where the smallest interval that is large enough begins."""
    large = [(end - base, base) for base, end in intervals if end - base >= size]
    return min(large)[1] if large else NONE


@given(COMMANDS)
def test_it_is_a_set_of_numbers(process: IntervalSet, commands: list[tuple[str, int, int]]) -> None:
    process.do("clear")
    model: set[int] = set()
    for what, a, b in commands:
        before = process.intervals
        if what == "add":
            if model & set(range(a, a + b)):
                continue
            process.do("add", a, b)
            model |= set(range(a, a + b))
        elif what == "at":
            wanted = set(range(a, a + b))
            assert process.do("at", a, b) == (wanted <= model)
            model -= wanted if wanted <= model else set()
        else:
            expected = _fits(before, a, b) if what == "take" else _fits_best(before, a)
            words = ("take", a, b) if what == "take" else ("best", a)
            assert process.do(*words) == expected
            if expected != NONE:
                model -= set(range(expected, expected + a))
        ends = [n for interval in process.intervals for n in interval]
        assert ends == sorted(set(ends))  # sorted, none empty, none touching the next
        assert process.members() == model
