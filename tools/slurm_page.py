"""Writes the tables of docs/reference-slurm.md anew, from the one in the code."""

from __future__ import annotations

from pathlib import Path

from moiety.slurm.options import ALL, Argument, Effect, Option, options_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference-slurm.md"
MARK = "<!-- The tables below are written by tools/slurm_page.py. -->\n"
TITLES = {
    Effect.HONOURED: "Honoured",
    Effect.NOTED: "Noted",
    Effect.REFUSED: "Refused",
}
HEAD = "| option | programs | here |\n|---|---|---|\n"


def spelled(option: Option) -> str:
    """An option as people type it."""
    value = {Argument.NONE: "", Argument.REQUIRED: "=…", Argument.OPTIONAL: "[=…]"}[option.argument]
    short = f"`-{option.short}` " if option.short else ""
    return f"{short}`--{option.name}{value}`"


def _name(row: tuple[tuple[str, str], list[str]]) -> str:
    return row[0][0].partition("--")[2]


def table(effect: Effect) -> str:
    """All options that have this effect, by name."""
    rows: dict[tuple[str, str], list[str]] = {}
    for program in ALL:
        for option in options_of(program):
            if option.effect is effect and not option.alias_of:
                rows.setdefault((spelled(option), option.words), []).append(program)
    lines = [
        f"| {name} | {', '.join(programs) if len(programs) < len(ALL) else 'all'} | {words} |\n"
        for (name, words), programs in sorted(
            rows.items(), key=lambda row: row[0][0].split("--")[1]
        )
    ]
    return f"\n## {TITLES[effect]}\n\n{HEAD}{''.join(lines)}"


def page(text: str) -> str:
    """The page with its tables as they are now."""
    before, mark, _ = text.partition(MARK)
    return before + mark + "".join(map(table, Effect))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
