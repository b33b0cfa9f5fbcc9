"""What `moiety --help` says about simulated cards, against simgpu's own list."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from moiety.cli.main import SIMULATED, moiety

ROOT = Path(__file__).resolve().parents[3]


def models() -> list[str]:
    """The names in simgpu's table."""
    text = (ROOT / "native/simgpu/shared/cards.c").read_text()
    return re.findall(r'\.model = "([^"]+)"', text)


def test_help_names_every_card_that_simgpu_knows() -> None:
    assert list(SIMULATED) == models()
    said = CliRunner().invoke(moiety, ["--help"]).output
    assert [m for m in models() if m not in said] == []


def test_every_number_of_a_card_has_its_source_on_the_page_about_them() -> None:
    table = (ROOT / "docs/simgpu-cards.md").read_text()
    head = next(line for line in table.splitlines() if line.startswith("| |"))
    assert [cell.strip() for cell in head.split("|")[2:-2]] == models()
    for field, row in (("memory_bytes", "memory, MiB"), ("multiprocessors", "multiprocessors"),
                       ("copy_engines", "copy engines"), ("clock_mhz", "clock, MHz")):  # fmt: skip
        line = next(line for line in table.splitlines() if line.startswith(f"| {row} "))
        shown = re.findall(r"\d+", line.removeprefix(f"| {row} "))[: len(models())]
        text = (ROOT / "native/simgpu/shared/cards.c").read_text()
        assert shown == re.findall(rf"\.{field} = (\d+)", text), row


def test_the_places_of_settings_are_shown_as_a_list() -> None:
    said = CliRunner().invoke(moiety, ["config", "--help"]).output
    assert "\n    in the environment       MOIETY_RUN_GPU=0.5\n" in said
    assert "\\b" not in said
