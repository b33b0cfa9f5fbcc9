"""`make gpu-facts`: measures how a card and its driver behave, and writes it down as JSON.

simgpu's profiles, the shim's design and the documents rest on these facts. Needs Python, NVIDIA's
driver and nothing else; a C compiler, if there is one, makes the times of short calls exact. Uses
at most 55 % of the card's memory, gives all of it back and changes no setting. Each section runs in
a process of its own and has its own time, so that one which fails or hangs costs only itself.

    python3 tests/gpu/facts.py                        all, in eight minutes at most
    python3 tests/gpu/facts.py --only chunks,links    two sections
    LD_LIBRARY_PATH=build/simgpu MOIETY_SIMGPU=H100-80 python3 tests/gpu/facts.py --quick
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.card import profile, timing, traces
from tests.gpu.card.run import Run, say

HERE = Path(__file__).resolve()
NO_GPU = 69
"""EX_UNAVAILABLE: there is nothing to measure"""
TOTAL_S = 480.0
SECTIONS = {
    "host": 40.0,
    "identity": 30.0,
    "lookup": 30.0,
    "contexts": 45.0,
    "calls": 45.0,
    "chunks": 60.0,
    "links": 90.0,
    "cycle": 100.0,
    "zeros": 20.0,
    "remap": 30.0,
    "beside": 45.0,
    "traces": 150.0,
    "fresh": 60.0,
    "managed": 30.0,
}
"""seconds that each may take; managed memory comes last, because it can hang a card"""
PEERS = {
    "context": ("contexts", "context_peer"),
    "churn": ("chunks", "churn_peer"),
    "pattern": ("fresh", "pattern_peer"),
    "beside": ("beside", "beside_peer"),
}
WITHOUT_GPU = ("host",)


def sections(text: str) -> list[str]:
    """Names, as --only and --skip take them."""
    names = text.split(",")
    if unknown := set(names) - set(SECTIONS):
        raise argparse.ArgumentTypeError(
            f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}"
        )
    return names


def size(text: str) -> int:
    """A number of GiB."""
    try:
        return int(float(text.removesuffix("GiB")) * (1 << 30))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 32GiB") from None


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small pieces, few repetitions")
    parser.add_argument("--only", type=sections, default=list(SECTIONS), metavar="SECTION,...")
    parser.add_argument("--skip", type=sections, default=[], metavar="SECTION,...")
    parser.add_argument("-o", "--out", type=Path, help="the JSON; default: nowhere")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="keep recorded calls there")
    parser.add_argument(
        "--host-memory", type=size, default=0, metavar="GIB", help="default: half of what is free"
    )
    parser.add_argument(
        "--from-python", action="store_true", help="do without a C compiler that is there"
    )
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    parser.add_argument("--library", default="", help=argparse.SUPPRESS)
    return parser


def act(module: str, function: str, *arguments: Any) -> None:
    """A function of one of the modules in card/."""
    getattr(importlib.import_module(f"tests.gpu.card.{module}"), function)(*arguments)


def in_section(args: argparse.Namespace) -> int:
    """The process of one section: facts as lines of JSON; 1 if a part of it failed."""
    run = Run(args.quick, time.monotonic() + args.seconds, args.host_memory, args.library)
    act(args.section, "measure", run)
    sys.stdout.flush()
    os._exit(1 if run.failed else 0)  # the driver's own exit can hang where a call did


class Section:
    """One section as seen from outside."""

    def __init__(self, name: str, args: argparse.Namespace, library: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.facts: dict[str, Any] = {}
        self.state, self.took_s, self.said = "skipped", 0.0, ""
        self.command = [sys.executable, str(HERE), "--section", name, "--seconds", str(seconds)]
        self.command += ["--library", library, "--host-memory", f"{args.host_memory / (1 << 30)}"]
        self.command += ["--quick"] if args.quick else []

    def measure(self) -> None:
        """Start it, hear it out, end it when its time is over."""
        began = time.monotonic()
        process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # with its peers it can be ended as one
        )
        try:
            in_time = self.listen(process, began + self.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)  # a process that the driver does not let go is left behind
        self.took_s = round(time.monotonic() - began, 2)
        ended = {0: "ok", 1: "failed in part"}.get(process.returncode, "failed")
        self.state = ended if in_time else "out of time"

    def listen(self, process: subprocess.Popen[bytes], until_s: float) -> bool:
        """Facts as they come; False when the time was over before the end."""
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as ready, process.stdout, process.stderr:
            ready.register(process.stdout, selectors.EVENT_READ, [b""])
            ready.register(process.stderr, selectors.EVENT_READ, [b""])
            while ready.get_map():
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return False
                heard = ready.select(min(left_s, 1.0))
                if not heard and process.poll() is not None:
                    break  # somebody that it started holds the pipe
                for key, _ in heard:
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        ready.unregister(key.fileobj)
                    *lines, key.data[0] = (key.data[0] + data).split(b"\n")
                    for line in lines:
                        self.hear(
                            line.decode(errors="replace"), facts=key.fileobj is process.stdout
                        )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(until_s - time.monotonic(), 0.1))
            return process.returncode is not None

    def hear(self, line: str, *, facts: bool) -> None:
        """One line of its output."""
        try:
            fact = json.loads(line) if facts else None
        except ValueError:
            fact = None
        if isinstance(fact, dict) and "name" in fact:
            self.facts[fact["name"]] = fact.get("value")
        else:
            self.said += line + "\n"

    def outcome(self) -> dict[str, Any]:
        """All of it."""
        return {"state": self.state, "took_s": self.took_s, "facts": self.facts}

    def complaints(self) -> list[str]:
        """What went wrong in it."""
        errors = [f"{k}: {v}" for k, v in self.facts.items() if k.endswith("_error") and v]
        if self.state.startswith("failed") and not errors:
            errors = self.said.strip().splitlines()[-3:]
        return errors


def gpu_name() -> str:
    """The first card's name, asked for in a process of its own; empty: there is none."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from tests.gpu.card.driver import Driver; d = Driver(); d.call('cuInit', 0);"
        "print(d.name())"
    )
    command = [sys.executable, "-c", code, str(HERE.parents[2])]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def measure(args: argparse.Namespace, names: Sequence[str]) -> list[Section]:
    """One section after the other, as long as there is time."""
    began = time.monotonic()
    done = []
    with timing.library(build_it=not args.from_python) as library:
        for name in names:
            left_s = TOTAL_S - (time.monotonic() - began)
            section = Section(name, args, library, min(SECTIONS[name], left_s))
            if left_s > 1:
                section.measure()
            done.append(section)
            at = f"{time.monotonic() - began:6.1f} s"
            say(f"{at}  {name:<9} {section.state}, {len(section.facts)} facts")
            for line in section.complaints():
                say(f"{'':>10}{line}")
    return done


def main() -> int:
    """Measure, show, write; 1 when a section failed."""
    args = options().parse_args()
    if args.peer:
        act(*PEERS[args.peer])
        return 0
    if args.section:
        return in_section(args)
    names = [n for n in args.only if n not in args.skip]
    if args.traces:
        os.environ[traces.FOLDER] = str(args.traces.resolve())
    name = gpu_name()
    if not name:
        say("gpu-facts: no NVIDIA GPU here, so only what needs none is measured")
        names = [n for n in names if n in WITHOUT_GPU]
    say(f"gpu-facts: {name or 'no GPU'}{', quickly' if args.quick else ''}")
    done = measure(args, names)
    facts = {section.name: section.facts for section in done}
    whole = {
        "gpu": name,
        "simulated": name.endswith("(simgpu)"),
        "quick": args.quick,
        "sections": {
            s.name: {"state": s.state, "took_s": s.took_s, "facts": s.facts} for s in done
        },
        "profile": profile.profile(facts) if name else "",
    }
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"\n{name}\n{profile.table(facts)}")
    if name:
        print(
            f"\na simgpu profile of this card (MOIETY_SIMGPU=FILE):\n\n{whole['profile']}", end=""
        )
    good = sum(s.state == "ok" for s in done)
    print(f"\n{good} of {len(done)} sections are complete")
    if not name:
        return NO_GPU
    return 0 if good == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
