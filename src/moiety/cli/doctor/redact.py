"""Takes private data out of the text of a bug report.

It removes data that is private on this machine: home directories, names of people and of the
machine, and values of environment variables that look like secrets. It also removes text that looks
private on any machine: tokens in their usual forms, passwords in URLs, keys, and command lines in
logs.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ALLOWED: Final = re.compile(
    r"MOIETY_(?!.*(?:TOKEN|SECRET|KEY|PASSWORD))\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|"
    r"CUDA_MPS_\w+|CUDA_MODULE_LOADING|CUDA_LAUNCH_BLOCKING|NVIDIA_VISIBLE_DEVICES|"
    r"NVIDIA_DRIVER_CAPABILITIES|PYTORCH_CUDA_ALLOC_CONF|PYTORCH_ALLOC_CONF|"
    r"XLA_PYTHON_CLIENT_\w+|TF_FORCE_GPU_ALLOW_GROWTH|LD_PRELOAD|LD_LIBRARY_PATH|"
    r"XDG_RUNTIME_DIR|XDG_CONFIG_HOME|LANG|TERM|NO_COLOR"
)
"""Names of variables whose values may be shown."""
SECRET_NAME: Final = re.compile(
    r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|DSN", re.IGNORECASE
)
SECRET_LEAST: Final = 6
"""The shortest secret that is replaced; shorter values are parts of too many words."""
PEOPLE_UID: Final = 1000
NAME_LEAST: Final = 3

GONE: Final = "<removed>"
_NAMES: Final = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|token|secret|credentials?|cookie|signature|(?<=[?&])sig|auth"
    r"(?:orization)?|(?:api|access|account|shared|private|encryption)[_-]?key)"
)
_VALUE: Final = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&}\"']+)"
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), GONE),
    (re.compile(r"\b(line|argv|cwd|packet|arguments)=(?:\"(?:[^\"\\]|\\.)*\"|\S+)"), rf"\1={GONE}"),
    (re.compile(r"://[^/\s\"'<>]+@"), f"://{GONE}@"),
    (re.compile(r"\b((?:set-)?cookie: *).+", re.IGNORECASE), rf"\1{GONE}"),
    (
        re.compile(rf"({_NAMES}\w*[\"']?\s*[=:]\s*)(?:bearer\s+|basic\s+)?{_VALUE}", re.IGNORECASE),
        rf"\1{GONE}",
    ),
    (re.compile(rf"((?<![\w-])--?[\w-]*{_NAMES}[\w-]*\s+){_VALUE}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(rf"((?:^|\s)(?:-u|--user)\s+)[^\s:]+:{_VALUE}"), rf"\1{GONE}"),
    (re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), GONE),
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_live_|xox[abprs]-|hf_|AKIA|ASIA|npm_|"
            r"pypi-|dckr_pat_|AIza|ya29\.|SG\.|shpat_|nvapi-|AGE-SECRET-KEY-)[\w.-]{12,}"
        ),
        GONE,
    ),
    (re.compile(r"(hooks\.slack\.com/services/|discord\.com/api/webhooks/)\S+"), rf"\1{GONE}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), GONE),
    # The length of AWS keys, and of other keys without a prefix.
    (re.compile(r"(?<![\w/+.-])[0-9a-f]{40}(?![\w/+=.-])"), GONE),
    (
        re.compile(
            r"(?<![\w/+.-])(?=[^\s]{0,39}[0-9])(?=[^\s]{0,39}[a-z])(?=[^\s]{0,39}[A-Z])"
            r"[A-Za-z0-9][A-Za-z0-9/+]{39}(?![\w/+=.-])"
        ),
        GONE,
    ),
    (re.compile(r"/(home|Users)/(?!<)[^/\s\"':,;)]+"), r"/\1/<user>"),
    (
        re.compile(r"\b(user |user:|users\.)(?!root\b|\*|<)([\w][\w.-]*?)(?=[).,:\s\"]|$)"),
        r"\1<user>",
    ),
    (
        re.compile(r"[\w.+-]+@[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?!service|slice|scope)[a-z]{2,}\b"),
        "<mail>",
    ),
)
_SECRET_KEY: Final = re.compile(_NAMES, re.IGNORECASE)
DROPPED: Final = frozenset({"argv", "cwd", "line", "packet", "arguments", "cmdline"})
"""Keys of documents whose values are command lines, or parts of command lines."""


class Redactor:
    """Knows what is private on this machine; `text` and `value` return the rest."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        home: str | None = None,
        people: Iterable[str] | None = None,
        homes: Iterable[str] = (),
        host: str | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        home = os.path.expanduser("~") if home is None else home
        if people is None:
            accounts = everybody()
            people = [each.pw_name for each in accounts]
            homes = [each.pw_dir for each in accounts if each.pw_uid >= PEOPLE_UID]
        host = socket.gethostname() if host is None else host
        secrets = {
            value
            for name, value in environment.items()
            if len(value) >= SECRET_LEAST
            and SECRET_NAME.search(name)
            and not ALLOWED.fullmatch(name)
        }
        secrets |= {json.dumps(value)[1:-1] for value in secrets}  # as logs and documents have it
        self._secrets = sorted(secrets, key=len, reverse=True)
        folders = {home, os.path.realpath(home), *homes}
        self._homes = sorted((each for each in folders if len(each) > 1), key=len)
        words = [(name, "<user>") for name in people if len(name) >= NAME_LEAST]
        words += [(part, "<host>") for part in {host, host.split(".")[0]} if len(part) > 2]
        self._words = [
            (re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])"), instead)
            for word, instead in sorted(words, key=lambda each: -len(each[0]))
            if word not in ("root", "localhost")
        ]

    def text(self, text: str) -> str:
        """The text without private parts."""
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
        """A JSON document without private parts in any text, and without command lines."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): GONE if _is_private(key, inner) else self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def environment(self, environment: Mapping[str, str]) -> list[str]:
        """NAME=VALUE of the variables whose values may be shown, and the number of the others."""
        told = [name for name in sorted(environment) if ALLOWED.fullmatch(name)]
        lines = [f"{name}={self.text(environment[name])}" for name in told]
        return [*lines, f"# {len(environment) - len(told)} others are not told"]


def _is_private(key: object, inner: object) -> bool:
    if key in DROPPED:
        return True
    return isinstance(inner, str) and bool(_SECRET_KEY.search(str(key)))


def everybody() -> list[pwd.struct_passwd]:
    """Accounts of people on this machine: listed accounts, users with processes, and this user.

    A directory service may not list its users: it is asked for the users of running processes.
    """
    found = {}
    with contextlib.suppress(OSError):
        found = {each.pw_uid: each for each in pwd.getpwall() if each.pw_uid >= PEOPLE_UID}
    for uid in _running() | {os.getuid(), int(os.environ.get("SUDO_UID", "0") or 0)}:
        with contextlib.suppress(KeyError, OSError):
            found.setdefault(uid, pwd.getpwuid(uid))
    return [each for each in found.values() if each.pw_name != "nobody"]


def _running() -> set[int]:
    """Users of the running processes, without system accounts."""
    uids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            uids.add(folder.stat().st_uid)
    return {uid for uid in uids if uid >= PEOPLE_UID}
