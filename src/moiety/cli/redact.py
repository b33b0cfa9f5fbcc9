"""Takes out of text what a stranger who gets a bug report must not read.

What is known to be private here goes: home directories, names of people and of this machine, values
of environment variables that look like secrets. What looks private anywhere goes, too: tokens in
their usual forms, passwords in URLs, keys, and whatever a log says of command lines.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

ALLOWED: Final = re.compile(
    r"MOIETY_(?!.*(?:TOKEN|SECRET|KEY|PASSWORD))\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|"
    r"CUDA_MPS_\w+|CUDA_MODULE_LOADING|CUDA_LAUNCH_BLOCKING|NVIDIA_VISIBLE_DEVICES|"
    r"NVIDIA_DRIVER_CAPABILITIES|PYTORCH_CUDA_ALLOC_CONF|PYTORCH_ALLOC_CONF|"
    r"XLA_PYTHON_CLIENT_\w+|TF_FORCE_GPU_ALLOW_GROWTH|LD_PRELOAD|LD_LIBRARY_PATH|"
    r"XDG_RUNTIME_DIR|XDG_CONFIG_HOME|LANG|TERM|NO_COLOR"
)
"""names of variables whose values are told"""
SECRET_NAME: Final = re.compile(
    r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|DSN", re.IGNORECASE
)
SECRET_LEAST: Final = 6
"""a shorter value stands in too many words to be replaced"""
PEOPLE_UID: Final = 1000
NAME_LEAST: Final = 3

GONE: Final = "<removed>"
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), GONE),
    (re.compile(r"\b(line|argv|cwd|packet|arguments)=(?:\"(?:[^\"\\]|\\.)*\"|\S+)"), rf"\1={GONE}"),
    (re.compile(r"://[^/@\s:]+:[^/@\s]+@"), f"://{GONE}@"),
    (
        re.compile(
            r"((?:pass(?:word|wd)?|token|secret|api[_-]?key|access[_-]?key|credential|auth"
            r"(?:orization)?)\w*[\"']?\s*[=:]\s*)(?:bearer\s+|basic\s+)?"
            r"(?:\"[^\"]*\"|'[^']*'|[^\s,;}\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{GONE}",
    ),
    (re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), GONE),
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|hf_|AKIA|ASIA|npm_|pypi-)"
            r"[\w-]{12,}"
        ),
        GONE,
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), GONE),
    (re.compile(r"/(home|Users)/(?!<)[^/\s\"':,;)]+"), r"/\1/<user>"),
)
DROPPED: Final = frozenset({"argv", "cwd", "line", "packet", "arguments", "cmdline"})
"""keys of documents whose values are command lines, or parts of them"""


class Redactor:
    """What is private on this machine; `text` and `value` give back what may be told."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        home: str | None = None,
        people: Iterable[str] | None = None,
        host: str | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        home = os.path.expanduser("~") if home is None else home
        people = names_of_people() if people is None else people
        host = socket.gethostname() if host is None else host
        secrets = {
            value
            for name, value in environment.items()
            if len(value) >= SECRET_LEAST
            and SECRET_NAME.search(name)
            and not ALLOWED.fullmatch(name)
        }
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._homes = sorted({h for h in (home, os.path.realpath(home)) if len(h) > 1}, key=len)
        words = [(name, "<user>") for name in people if len(name) >= NAME_LEAST]
        words += [(part, "<host>") for part in {host, host.split(".")[0]} if len(part) > 2]
        self._words = [
            (re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])"), instead)
            for word, instead in sorted(words, key=lambda each: -len(each[0]))
            if word not in ("root", "localhost")
        ]

    def text(self, text: str) -> str:
        """Without what is private."""
        for secret in self._secrets:
            text = text.replace(secret, GONE)
        for home in reversed(self._homes):
            text = re.sub(rf"{re.escape(home)}(?![\w-])", "~", text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        for pattern, instead in self._words:
            text = pattern.sub(instead, text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON document without what is private: every text in it, and no command lines."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): GONE if key in DROPPED else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def environment(self, environment: Mapping[str, str]) -> list[str]:
        """NAME=VALUE of the variables whose values may be told, and how many others there are."""
        told = [name for name in sorted(environment) if ALLOWED.fullmatch(name)]
        lines = [f"{name}={self.text(environment[name])}" for name in told]
        return [*lines, f"# {len(environment) - len(told)} others are not told"]


def names_of_people() -> list[str]:
    """Of everybody with an account on this machine that is not the system's own, and of us."""
    try:
        accounts = pwd.getpwall()
        own = pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return []
    people = {a.pw_name for a in accounts if a.pw_uid >= PEOPLE_UID and a.pw_name != "nobody"}
    return sorted(people | {own})
