"""tools/mutants: its patches still apply, and a sample has mistakes that are some."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants.__main__ import figure
from tools.mutants.areas import AREAS, ROOT, files, nearest
from tools.mutants.mutant import Fate
from tools.mutants.patches import patches


def test_every_patch_applies_and_its_tests_are_there() -> None:
    for mutant in patches():
        assert mutant.text != (ROOT / mutant.path).read_text()
        ((file, *options),) = mutant.tests
        text = (ROOT / file).read_text()
        if "-k" in options:
            assert options[options.index("-k") + 1] in text, mutant.name


@pytest.mark.parametrize("area", AREAS)
def test_every_module_of_an_area_has_tests(area: str) -> None:
    assert len(files(area)) > 5
    for file in files(area):
        for tests in nearest(area, file):
            paths = [Path(test.removeprefix("--ignore=")) for test in tests]
            assert all((ROOT / path).exists() for path in paths), tests


def test_a_sample_is_that_of_its_seed() -> None:
    pytest.importorskip("cosmic_ray")
    from tools.mutants.sample import is_only_typing, sample

    names = [mutant.name for mutant in sample(7, 4)]
    assert names == [mutant.name for mutant in sample(7, 4)]
    assert names != [mutant.name for mutant in sample(8, 4)]
    assert is_only_typing("def f(a: int | None) -> str: ...", "def f(a: int & None): ...")
    assert not is_only_typing("def f(a: int = 1) -> str: ...", "def f(a: int = 2) -> str: ...")


def test_the_figure_names_those_that_live() -> None:
    fates = {"one": Fate.NOTICED, "two": Fate.ALIVE, "three": Fate.TIMED_OUT, "four": Fate.UNKNOWN}
    found = figure(fates, seed=3)
    assert (found.value, found.samples) == (1, 3)
    assert found.note == "seed 3, 3 tried, 1 of them until time was up; two"
