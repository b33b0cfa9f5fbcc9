"""tests/gpu/kernels.ptx, without a GPU: read by a small interpreter, one thread after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .conftest import ROOT

PTX = ROOT / "tests" / "gpu" / "kernels.ptx"
MASK = (1 << 64) - 1
FUNCTION = re.compile(
    r"(?:\.visible \.entry|\.func) ?(?:\(([^)]*)\) )?(\w+)\(([^)]*)\)\s*\{(.*?)\n\}", re.DOTALL
)
ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "shr": lambda a, b: a >> b,
    "xor": lambda a, b: a ^ b,
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
}


class Machine:
    """One thread of a grid, over a memory of 64-bit words that lies at address 0."""

    def __init__(self, memory: list[int], special: dict[str, int]) -> None:
        text = re.sub(r"//.*", "", PTX.read_text())
        self.functions = {m[2]: (m[1] or "", m[3], m[4]) for m in FUNCTION.finditer(text)}
        self.memory, self.special = memory, special

    def call(self, name: str, arguments: Sequence[int]) -> int:
        """Run a function to its end; what it returns, if it does."""
        returned, parameters, body = self.functions[name]
        names = re.findall(r"(\w+)(?:,|$)", parameters)
        state: dict[str, int] = dict(zip(names, arguments, strict=True))
        lines = [line.strip().rstrip(";") for line in body.splitlines()]
        lines = [line for line in lines if line and not line.startswith(".")]
        labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
        at = 0
        while lines[at] != "ret":
            target = self.step(state, lines[at])
            at = labels[target] if target else at + 1
        return state[returned.split()[-1]] if returned else 0

    def value(self, state: dict[str, int], word: str) -> int:
        """Of a register, a special register or a number."""
        if word.startswith("%"):
            return self.special[word]
        return state[word] if word in state else int(word, 0)

    def step(self, state: dict[str, int], line: str) -> str:
        """One instruction; the label that it goes to, if it does."""
        if line.endswith(":"):
            return ""
        if guarded := re.match(r"@(!?)(\w+) (.*)", line):
            if bool(state[guarded[2]]) == bool(guarded[1]):
                return ""
            line = guarded[3]
        operation, _, rest = line.partition(" ")
        if operation == "bra":
            return rest
        if operation == "call":
            out, name, given = re.fullmatch(r"\((\w+)\), (\w+), \((\w*)\)", rest).groups()  # type: ignore[union-attr]
            state[out] = self.call(name, [state[given]] if given else [])
            return ""
        kind, *parts = operation.split(".")
        words = [word.strip("[] ") for word in rest.split(",")]
        if kind == "ld":
            source = state[words[1]]
            state[words[0]] = source if "param" in parts else self.memory[source // 8]
        elif kind == "st":
            self.memory[state[words[0]] // 8] = state[words[1]]
        elif kind == "red":
            self.memory[state[words[0]] // 8] += state[words[1]]
        elif kind == "setp":
            left, right = (self.value(state, word) for word in words[1:])
            state[words[0]] = COMPARISONS[parts[0]](left, right)
        else:
            values = [self.value(state, word) for word in words[1:]]
            state[words[0]] = ARITHMETIC[kind](*values) & MASK
        return ""


def launch(
    memory: list[int], kernel: str, *arguments: int, blocks: int = 2, threads: int = 3
) -> None:
    """Every thread of the grid, in order."""
    for block in range(blocks):
        for thread in range(threads):
            special = {"%tid.x": thread, "%ntid.x": threads}
            Machine(memory, {**special, "%ctaid.x": block, "%nctaid.x": blocks}).call(
                kernel, arguments
            )


def splitmix64(x: int) -> int:
    """As in native/simgpu/kernels."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def stepped(word: int, k: int, i: int) -> int:
    """As in native/simgpu/kernels."""
    return (word * 6364136223846793005 + k + i) & MASK


def test_filling_writes_the_words_that_simgpus_kernel_writes() -> None:
    memory = [7] * 20
    launch(memory, "fill_u64", 8, 17, 99)
    assert memory == [7, *(splitmix64(99 + i) for i in range(17)), 7, 7]


def test_stepping_changes_each_word_once() -> None:
    memory = list(range(20))
    launch(memory, "step_u64", 0, 19, 5)
    assert memory == [*(stepped(i, 5, i) for i in range(19)), 19]


@pytest.mark.parametrize("spoilt", [[], [0], [3, 18]])
def test_checking_counts_the_words_that_are_wrong(spoilt: list[int]) -> None:
    steps = [4, 1, 9]
    memory = [0] * 19 + steps + [0]
    launch(memory, "fill_u64", 0, 19, 2)
    for k in steps:
        launch(memory, "step_u64", 0, 19, k)
    for i in spoilt:
        memory[i] ^= 1 << 63
    launch(memory, "check_u64", 0, 19, 2, 19 * 8, len(steps), 22 * 8)
    assert memory[22] == len(spoilt)


def test_touching_changes_one_word_in_each_stride() -> None:
    memory = [10] * 30
    launch(memory, "touch_u64", 0, 30, 4)
    assert memory == [11 if i % 4 == 0 else 10 for i in range(30)]


def test_both_kinds_of_kernels_have_the_same_names() -> None:
    written = {name for name in Machine([], {}).functions if name not in {"first", "all"}}
    source = (ROOT / "native" / "simgpu" / "kernels" / "words.c").read_text()
    simulated = set(re.findall(r"SIMGPU_(?:TIMED_)?KERNEL\((\w+)", source))
    assert written - {"splitmix64"} <= simulated
    demo = set(
        re.findall(r"^KERNEL (\w+)", (ROOT / "demo" / "kernels.c").read_text(), re.MULTILINE)
    )
    assert demo <= written


def test_the_file_is_what_the_scripts_load() -> None:
    from tests.gpu.card import driver

    assert Path(driver.PTX) == PTX
