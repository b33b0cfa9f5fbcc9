"""Reads the values of Slurm's options: times, sizes, counts, GPUs, arrays, signals."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

from moiety.slurm.errors import JobRefused, OptionRefused

UNLIMITED: Final = ("infinite", "unlimited")
SIZE_UNITS: Final = {"": 1, "k": 0, "m": 1, "g": 1 << 10, "t": 1 << 20}
"""MiB of one; kibibytes are rounded up."""
ARRAY_MAX: Final = 1001
"""Slurm's usual MaxArraySize: an index is smaller than this."""
SIGNAL_S: Final = 60
DEPENDED: Final = r"[0-9]{1,17}(_([0-9]{1,7}|\*))?(\+[0-9]{1,7})?"
DEPENDS: Final = {
    "after": "after",
    "afterany": "afterany",
    "afterburstbuffer": "afterany",
    "aftercorr": "aftercorr",
    "afternotok": "afternotok",
    "afterok": "afterok",
}
"""By Slurm's word: the pool's."""
MAIL: Final = (
    "none", "begin", "end", "fail", "requeue", "all", "stage_out", "invalid_depend",
    "array_tasks", "time_limit", "time_limit_90", "time_limit_80", "time_limit_50",
)  # fmt: skip


def invalid(option: str) -> OptionRefused:
    """Slurm's usual words for a value that makes no sense."""
    return OptionRefused(f"Invalid --{option} specification")


def count(text: str, option: str, least: int = 1) -> int:
    """A whole number."""
    if not re.fullmatch(r"\+?[0-9]{1,9}", text) or int(text) < least:
        raise OptionRefused(f'Invalid numeric value "{text}" for --{option}.')
    return int(text)


def seconds(text: str, option: str) -> int | None:
    """M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; None: no limit."""
    if text.lower() in UNLIMITED or text == "-1":
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not found or len(text) > 20:
        raise invalid(option)
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))
        hours, minutes, rest = numbers
        total = ((int(days) * 24 + hours) * 60 + minutes) * 60 + rest
    elif len(numbers) == 3:
        total = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    else:
        total = numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)
    return total or None  # 0 is none, as the partition says


def minutes(total_s: int | None) -> int:
    """Slurm counts whole minutes, rounded up; 0: no limit."""
    return -(-total_s // 60) if total_s else 0


def mebibytes(text: str, option: str) -> int:
    """4096, 4096M, 4G, 4GB: MiB."""
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.strip().lower())
    if not found or (not found[2] and text.lower().endswith("b")):
        raise invalid(option)
    amount = int(found[1])
    return -(-amount // 1024) if found[2] == "k" else amount * SIZE_UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Gpus:
    """A number of GPUs, and the model that was named."""

    number: int
    model: str = ""


def gpus(text: str, option: str) -> Gpus:
    """2, a100:2, a100; several, separated by commas, count together."""
    total, model = 0, ""
    for part in text.split(","):
        name, colon, number = part.rpartition(":")
        if not colon and not part.isdecimal():
            name, number = part, "1"
        if not number.isdecimal() or ":" in name or len(number) > 6:
            raise invalid(option)
        total += int(number)
        model = name or model
    return Gpus(total, model)


def gres(text: str) -> Gpus:
    """gpu, gpu:2, gpu:a100:2 of `--gres`; raises JobRefused for what is no GPU."""
    found, model = 0, ""
    for written in text.split(","):
        part = written.partition("(")[0].removeprefix("gres:").removeprefix("gres/")
        kind, *rest = part.split(":")
        if part in ("", "none"):
            continue
        if kind != "gpu":
            raise JobRefused(
                f"Invalid generic resource (gres) specification: there is no {kind[:40]!r} here",
                "--gres=gpu:1; a part of a GPU: moiety submit --gpu 0.5",
            )
        if len(rest) > 2:
            raise JobRefused("Invalid generic resource (gres) specification")
        number = "1"
        if rest and rest[-1].isdecimal():
            number = rest.pop()
        elif len(rest) == 2 or (rest and not rest[-1]):
            raise JobRefused("Invalid generic resource (gres) specification")
        if len(number) > 6:
            raise JobRefused("Invalid generic resource (gres) specification")
        found += int(number)
        model = rest[0] if rest else model
    return Gpus(found, model)


def nodes(text: str) -> tuple[int, int]:
    """The least and the most nodes: 1, 1-4, 4k is none."""
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if not found:
        raise OptionRefused(f'"{text}" is not a valid node count')
    least, most = int(found[1]), int(found[2] or found[1])
    if most < least:
        raise OptionRefused(f"Maximum node count {most} is less than minimum node count {least}")
    if not least:
        raise OptionRefused("Node count specification invalid")
    return least, most


def array(text: str) -> tuple[tuple[int, ...], int]:
    """The indices of 0-9:3,12%2, and how many may run at once (0: all)."""
    wrong = JobRefused("Batch job submission failed: Invalid job array specification")
    body, percent, most = text.strip("[]").partition("%")
    if percent and not (most.isdecimal() and len(most) < 9):
        raise wrong
    found: set[int] = set()
    for part in body.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part)
        if not match:
            raise wrong
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or last >= ARRAY_MAX:
            raise wrong
        found.update(range(first, last + 1, step))
    return tuple(sorted(found)), int(most or 0)


@dataclass(frozen=True, slots=True)
class WarnSignal:
    """A signal that comes before the time limit."""

    number: int
    before_s: int
    to_script: bool
    """To the script alone; else to the processes of steps alone."""


def signal_number(text: str) -> int | None:
    """USR1, SIGUSR1, 10."""
    if text.isdecimal():
        number = int(text)
        return number if 0 < number < signal.NSIG else None
    name = text.upper().removeprefix("SIG")
    found = signal.Signals.__members__.get(f"SIG{name}")
    return int(found) if found else None


def warn_signal(text: str) -> WarnSignal:
    """[RB:]SIGNAL[@SECONDS]."""
    flags, colon, rest = text.rpartition(":")
    name, at, before = rest.partition("@")
    number = signal_number(name)
    if (colon and not re.fullmatch("[RB]+", flags)) or number is None:
        raise invalid("signal")
    if at and not (before.isdecimal() and int(before[:6]) <= 65535 and len(before) < 6):
        raise invalid("signal")
    return WarnSignal(number, int(before) if at else SIGNAL_S, "B" in flags)


def dependency(text: str) -> str:
    """What a job waits for, in the pool's words: an id alone means that it is over."""
    wrong = JobRefused("Batch job submission failed: Job dependency problem")
    if "," in text and "?" in text:
        raise wrong
    found = []
    for part in re.split("[,?]", text):
        kind, *numbers = part.split(":")
        kind = kind.lower()
        if re.fullmatch(DEPENDED, kind):
            kind, numbers = "afterany", [kind, *numbers]
        if kind == "singleton" and not numbers:
            found.append(kind)
            continue
        if kind not in DEPENDS or not numbers:
            raise wrong
        if not all(re.fullmatch(DEPENDED, number) for number in numbers):
            raise wrong
        found.append(":".join([DEPENDS[kind], *numbers]))
    return ("?" if "?" in text else ",").join(found)


def mail_type(text: str) -> str:
    """The same, checked: words that are none are passed over beside one that is."""
    if not any(part.strip().lower() in MAIL for part in text.split(",")):
        raise invalid("mail-type")
    return text
