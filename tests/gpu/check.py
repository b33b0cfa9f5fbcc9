"""`make gpu-check`: does it hold on a real GPU what the tests show on simgpu?

Programs, frameworks and graphs under moiety on the first GPU, with the agent's capacity lowered so
that they do not fit together; results are compared with those without moiety. Nothing is changed on
the card, and no more of it is used than the capacity and a few contexts. Each check has a node of
its own and its own time: one that fails costs no other.

    python3 tests/gpu/check.py                      with moiety installed, or PYTHONPATH on a wheel
    python3 tests/gpu/check.py --only turns,torch-trainings
    python3 tests/gpu/check.py --simulate --quick   on simgpu: a dry run
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import moiety  # noqa: F401
except ModuleNotFoundError:
    sys.exit("gpu-check: moiety is not installed here; docs/development.md says how to carry it")

from demo import run as demo
from moiety.devices.native import native_dir, simgpu_dir
from moiety.model.units import parse_bytes
from moiety.testing.node import Node, finish
from tests.gpu.card import timing
from tests.gpu.card.driver import PTX
from tests.gpu.holds import driver_calls, figures, frameworks, turns
from tests.gpu.holds.setting import MIB, ROOT, SIMGPU, Setting, Skip
from tests.support.native import compile_c

NO_GPU = 69
"""EX_UNAVAILABLE: nothing was checked"""
CAPACITY_BYTES = 4 << 30
SIMULATED_CAPACITY_BYTES = 240 * MIB

CHECKS: dict[str, tuple[Callable[[Setting], str], float]] = {
    "doctor": (driver_calls.doctor, 30),
    "torch-trainings": (frameworks.torch_trainings, 120),
    "graphs": (driver_calls.graphs, 45),
    "torch-graphs": (frameworks.torch_graphs, 90),
    "torch-expandable": (frameworks.torch_allocator(frameworks.EXPANDABLE, "expandable"), 75),
    "torch-async": (frameworks.torch_allocator(frameworks.ASYNC, "async"), 75),
    "jax-preallocating": (frameworks.jax_preallocating, 75),
    "torch-compile": (frameworks.torch_compile, 90),
    "torch-ipc": (frameworks.torch_ipc, 60),
    "turns": (turns.take_turns, 60),
    "overhead": (driver_calls.overhead, 40),
    "bench": (figures.bench, 90),
    "cupy": (frameworks.smoke("cupy"), 40),
    "numba": (frameworks.smoke("numba"), 40),
    "triton": (frameworks.smoke("triton"), 40),
    "jax": (frameworks.smoke("jax"), 45),
    "vllm": (frameworks.vllm, 120),
    "tensorflow": (frameworks.smoke("tensorflow"), 60),
    "refusal": (turns.refuse, 30),
    "killed-program": (turns.lose_a_program, 60),
    "killed-agent": (turns.lose_the_agent, 60),
    "fit": (turns.fit_together, 40),
    "managed": (turns.managed_mode, 40),
}
"""with the seconds that each may take; what decides most comes first, because the time is short"""


def names(text: str) -> list[str]:
    """Names of checks, as --only and --skip take them."""
    found = text.split(",")
    if unknown := set(found) - set(CHECKS):
        raise argparse.ArgumentTypeError(
            f"there is no check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}"
        )
    return found


def size(text: str) -> int:
    """A number of bytes."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="a dry run on simgpu")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    parser.add_argument("--only", type=names, default=list(CHECKS), metavar="CHECK,...")
    parser.add_argument("--skip", type=names, default=[], metavar="CHECK,...")
    parser.add_argument("--capacity", type=size, metavar="SIZE", help="default: 4GiB")
    parser.add_argument("--arena", default="", metavar="SIZE", help="default: the agent's own")
    parser.add_argument("--seconds", type=float, default=560.0, help="for all of it")
    parser.add_argument("-o", "--out", type=Path, help="the outcome as JSON")
    parser.add_argument(
        "--lines", type=Path, help="each check as a line of JSON, as soon as it has ended"
    )
    return parser


def programs(folder: Path, *, simulated: bool) -> tuple[Path, dict[str, list[str]]]:
    """The kernels, and the programs that use them; those that cannot be built are named."""
    simgpu = simgpu_dir()
    if simgpu is None:
        raise SystemExit("gpu-check: moiety's native libraries are not here; install its wheel")
    include = f"-I{ROOT / 'native'}"
    source = ROOT / "demo" / "worker.c"
    # To link with, any libcuda.so.1 will do: when it runs, the program finds the real one.
    linked = (include, str(simgpu / "libcuda.so.1"), "-Wl,--allow-shlib-undefined", "-ldl")
    found = {}
    for name, flags in (
        ("C, linked", linked),
        ("C, looked up", (include, "-DLOOKUP", "-ldl")),
    ):
        try:
            out = compile_c([source], folder / name.replace(", ", "-"), flags=flags)
            found[name] = [str(out)]
        except (RuntimeError, FileNotFoundError) as error:
            print(f"  {name}: cannot be built here: {str(error).strip().splitlines()[-1]}")
    found["Python, cuda-core"] = [sys.executable, str(ROOT / "demo" / "worker.py")]
    return (simgpu / "kernels.elf" if simulated else PTX), found


def that_work(
    folder: Path, kernels: Path, found: dict[str, list[str]], *, simulated: bool
) -> list[list[str]]:
    """Those of them that are right without moiety; the others would say nothing about it."""
    good = []
    with Node(folder, SIMGPU if simulated else None) as node:
        for name, command in found.items():
            arguments = [str(kernels), str(64 * MIB), "2", "0", "0", "1"]
            code, out, err = finish(node.run_alone([*command, *arguments]))
            if (code, out) == (0, turns.RIGHT):
                good.append(command)
            else:
                print(f"  {name}: left out, alone it ends with {code}: {(out + err)[-300:]}")
    return good


class OutOfTime(Exception):
    """A check took longer than it may."""


def out_of_time(_number: int, _frame: FrameType | None) -> None:
    """SIGALRM."""
    raise OutOfTime("it took longer than it may")


def run_one(name: str, setting: Setting, seconds: float) -> tuple[str, str]:
    """One check: passed, FAILED or skipped, and what it said."""
    check, most = CHECKS[name]
    if seconds < 5:
        return "skipped", "no time left"
    signal.setitimer(signal.ITIMER_REAL, min(most, seconds))
    try:
        return "passed", check(setting)
    except Skip as reason:
        return "skipped", str(reason)
    except Exception as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        text = f"{type(error).__name__}: {error}{notes}"
        return "FAILED", text.replace("\n", "\n      ")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_all(
    setting: Setting, chosen: Sequence[str], seconds: float, lines: Path | None = None
) -> list[dict[str, object]]:
    """One after the other, with a line for each."""
    began = time.monotonic()
    done: list[dict[str, object]] = []
    for name in chosen:
        at = time.monotonic()
        state, said = run_one(name, setting, seconds - (at - began))
        took_s = round(time.monotonic() - at, 1)
        about = (CHECKS[name][0].__doc__ or "").splitlines()[0]
        print(f"  {state:<8} {took_s:5.1f} s  {name}: {about}\n      {said}", flush=True)
        done.append({"check": name, "state": state, "took_s": took_s, "said": said})
        if lines:
            with lines.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    return done


def main() -> int:
    """Run the checks; 0 when none failed."""
    args = options().parse_args()
    if native_dir() is None:
        print("gpu-check: moiety's native libraries are not here; install its wheel")
        return 1
    if not args.simulate and not demo.has_gpu():
        print("gpu-check: no NVIDIA GPU here, so nothing was checked", file=sys.stderr)
        return NO_GPU
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    capacity = args.capacity or (SIMULATED_CAPACITY_BYTES if args.simulate else CAPACITY_BYTES)
    if args.lines:
        args.lines.parent.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in args.only if name not in args.skip]
    with (
        tempfile.TemporaryDirectory(prefix="mty", ignore_cleanup_errors=True) as name,
        timing.library() as library,
    ):
        folder = Path(name)
        kernels, found = programs(folder, simulated=args.simulate)
        workers = that_work(folder, kernels, found, simulated=args.simulate)
        setting = Setting(
            folder=folder, simulated=args.simulate, quick=args.quick, capacity_bytes=capacity,
            kernels=kernels, workers=workers, arena=args.arena, library=library,
        )  # fmt: skip
        with setting.node("first") as node:
            gpu = node.json("status")["gpus"][0]["name"]
        print(f"gpu-check: {gpu}, {capacity // MIB} MiB of it, {len(workers)} programs", flush=True)
        done = run_all(setting, chosen, args.seconds, args.lines)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"gpu": gpu, "checks": done}, indent=1) + "\n")
    counts = {s: sum(one["state"] == s for one in done) for s in ("passed", "FAILED", "skipped")}
    print(f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
