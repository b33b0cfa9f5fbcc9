"""The manual page says what `--help` says, in a form that man can read."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tools.man_page import PAGE, escaped, page, quoted

from moiety.cli.main import COMMANDS


def test_the_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == page(), "PYTHONPATH=src python -m tools.man_page writes it anew"


def test_every_command_has_its_place() -> None:
    text = page()
    for name in COMMANDS:
        assert f'.SS "moiety {name}' in text
    assert r'.B "\-\-gpu SHARE' in text or r'.B "\-\-gpu ' in text


def test_nothing_in_a_text_is_taken_for_a_macro() -> None:
    assert escaped(".TH") == r"\&.TH"
    assert escaped("a\\b --gpu `x`") == r"a\eb \-\-gpu x"
    assert quoted('say "yes"') == '"say ""yes"""'


def test_lists_in_a_help_text_keep_their_lines() -> None:
    shown = r"  in the environment       MOIETY_RUN_GPU=0.5"
    assert f"\n{shown}\n" in page()
    assert r"\eb" not in page(), "click's mark is one character, not a backslash and a letter"


def test_examples_without_a_reason_have_no_comma() -> None:
    assert "For example, :" not in page()
    assert ".PP\nFor example:\n.RS\nmoiety version\n.RE\n" in page()


def test_man_reads_it_without_a_complaint() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbu", PAGE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "EXIT STATUS" in done.stdout
