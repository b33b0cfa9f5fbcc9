"""`moiety stop`: the short form of `moiety agent stop`."""

from moiety.cli.agent import stop

__all__ = ["stop"]
