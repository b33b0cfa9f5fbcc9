"""Writes the table of docs/configuration.md anew, from the one in the code."""

from __future__ import annotations

from pathlib import Path

from moiety.config.setting import Setting
from moiety.config.table import SETTINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
HEAD = "| setting | flag | environment | default | what it is |\n|---|---|---|---|---|\n"


def row(setting: Setting) -> str:
    """One setting as a line of the table."""
    cells = [
        f"`{setting.name}`" if setting.section else "",
        f"`{setting.flag}`" if setting.flag else "",
        f"`{setting.variable}`" if setting.variable else "",
        f"`{setting.default}`" if setting.default is not None else setting.unset,
        setting.help.rstrip("."),
    ]
    return "| " + " | ".join(cells) + " |\n"


def main() -> None:
    before, _, _ = PAGE.read_text().partition(HEAD)
    PAGE.write_text(before + HEAD + "".join(map(row, SETTINGS)))


if __name__ == "__main__":
    main()
