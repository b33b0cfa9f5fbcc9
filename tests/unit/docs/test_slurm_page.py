"""The reference of Slurm's options says what the table in the code says."""

from __future__ import annotations

from tools.slurm_page import MARK, PAGE, page

from moiety.slurm.options import OPTIONS


def test_the_page_is_what_the_table_says() -> None:
    text = PAGE.read_text()
    assert MARK in text
    assert text == page(text), "PYTHONPATH=src:. python tools/slurm_page.py writes it anew"


def test_every_option_has_its_line() -> None:
    text = PAGE.read_text()
    for option in OPTIONS:
        assert option.alias_of or f"`--{option.name}" in text, option.name
