"""Completion that is imported when a shell asks for it: no command starts slower because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from moiety.cli.completion import Complete
    from moiety.config.setting import Setting


def completed(name: str) -> Complete:
    """The function of this name in moiety.cli.completion."""

    def complete(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        from moiety.cli import completion

        found: list[CompletionItem] = getattr(completion, name)(ctx, param, word)
        return found

    return complete


def completed_as(setting: Setting) -> Complete:
    """Completes the value of a setting, if it has a list of words."""

    def complete(ctx: click.Context, param: click.Parameter, word: str) -> list[CompletionItem]:
        from moiety.cli.completion import of_setting

        found = of_setting(setting)
        return found(ctx, param, word) if found else []

    return complete
