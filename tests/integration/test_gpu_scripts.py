"""The scripts for a real GPU, run on simgpu: they must work on the day when there is one."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moiety.model.units import parse_bytes
from tests.gpu import facts
from tests.gpu.card import profile
from tests.gpu.holds import frameworks

from .conftest import ROOT

SMALL = "H100-80:memory=192MiB,link=8GB/s,create=300us"


def run(
    native: Path, folder: Path, script: str, *arguments: str, gpu: str = ""
) -> subprocess.CompletedProcess[str]:
    """A script of tests/gpu, on simgpu when `gpu` says which."""
    env = {**os.environ, "MOIETY_NATIVE": str(native)}
    if gpu:
        env |= {
            "MOIETY_SIMGPU": gpu,
            "MOIETY_SIMGPU_STATE": str(folder / "state"),
            "LD_LIBRARY_PATH": str(native / "simgpu"),
        }
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / script), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
    )


def number(text: str | None) -> float:
    """12.5 of 12.5GB/s."""
    return float(re.match(r"[\d.]+", text or "")[0])  # type: ignore[index]


@pytest.mark.slow
def test_every_fact_is_found_and_makes_a_profile_that_simgpu_takes(
    native: Path, tmp_path: Path
) -> None:
    out = tmp_path / "facts.json"
    done = run(
        native, tmp_path, "facts.py", "--quick", "--host-memory", "0.03", "-o", str(out), gpu=SMALL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert (found["simulated"], found["gpu"]) == (True, "NVIDIA H100 80GB HBM3 (simgpu)")
    assert {s["state"] for s in found["sections"].values()} == {"ok"}
    assert found["sections"].keys() == facts.SECTIONS.keys()
    measured = {name: s["facts"] for name, s in found["sections"].items()}
    assert profile.dig(measured, "lookup.different") == 0
    assert profile.dig(measured, "lookup.ladders_different") == 0
    assert profile.dig(measured, "lookup.exports_unknown_here") == [
        "cuSimgpuCall",
        "cuSimgpuSum",
    ]  # which no driver has
    cycles = [v for k, v in measured["cycle"].items() if k.startswith(("chunks_", "duplex_"))]
    assert [c["chunks_wrong"] for c in cycles] == [0] * len(cycles)
    assert len(cycles) >= 2
    remapped = list(measured["remap"].values())
    assert [one["words_wrong"] for one in remapped] == [0] * len(remapped)
    looks = [v for k, v in measured["zeros"].items() if k.startswith("look_")]
    assert [n for one in looks for k, n in one.items() if k.endswith("_wrong")] == [0, 0, 0]
    assert measured["beside"]["slices"]["beside_another"]["kernels"] > 0
    assert profile.dig(measured, "traces.driver.unseen") == []
    settings = profile.settings(measured)
    assert all(settings.values()), settings
    assert settings["memory"] == "192MiB"
    assert (
        float(str(settings["create"]).removesuffix("us")) >= 290
    )  # never cheaper than it was told

    # The profile is loaded, and what is measured then is what it says: on a machine of any speed
    # never cheaper, and never faster, than told.
    text = tmp_path / "card"
    text.write_text(found["profile"])
    arguments = ("--quick", "--host-memory", "0.03", "--only", "identity,contexts,chunks,links")
    again = run(native, tmp_path, "facts.py", *arguments, "-o", str(out), gpu=str(text))
    assert again.returncode == 0, again.stdout + again.stderr
    sections = json.loads(out.read_text())["sections"]
    same = {name: s["facts"] for name, s in sections.items()}
    assert (same["identity"]["name"], same["identity"]["memory_mib"]) == (found["gpu"], 192)
    figures = profile.settings(same)
    for key in ("memory", "residue", "engines", "multiprocessors", "cc_major", "driver"):
        assert figures[key] == settings[key], key
    for key in ("create", "map", "access", "unmap", "release", "alloc", "free"):
        assert number(figures[key]) >= 0.9 * number(settings[key]), key
    for key in ("h2d", "d2h", "duplex"):
        assert number(figures[key]) <= 1.1 * number(settings[key]), key


def test_short_calls_are_timed_without_a_compiler_too(native: Path, tmp_path: Path) -> None:
    out = tmp_path / "facts.json"
    arguments = ("--quick", "--from-python", "--only", "identity,calls", "-o", str(out))
    done = run(native, tmp_path, "facts.py", *arguments, gpu=SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())["sections"]
    assert found["identity"]["facts"]["timer"].startswith("ctypes, less ")
    assert found["calls"]["facts"]["bounded_launch"]["without_marks_ns"] is None
    assert found["calls"]["facts"]["event_create"]["max_us"] > 0


def test_without_a_gpu_the_host_alone_is_measured(native: Path, tmp_path: Path) -> None:
    out = tmp_path / "facts.json"
    done = run(native, tmp_path, "facts.py", "--quick", "-o", str(out))
    if done.returncode == 0:
        pytest.skip("there is a GPU here")
    assert done.returncode == facts.NO_GPU, done.stderr
    assert "no NVIDIA GPU here" in done.stderr
    found = json.loads(out.read_text())["sections"]
    assert found.keys() == {"host"}
    assert found["host"]["facts"]["seal_future_write"] in {"yes", "EINVAL"}


def test_an_unknown_section_is_named_with_those_that_exist(native: Path, tmp_path: Path) -> None:
    done = run(native, tmp_path, "facts.py", "--only", "speed")
    assert done.returncode == 2
    assert "there is no section speed; there are host, identity" in done.stderr


def test_a_section_that_hangs_is_ended_and_keeps_what_it_found() -> None:
    section = facts.Section("calls", argparse.Namespace(host_memory=0, quick=True), "", 1.0)
    found = json.dumps({"name": "launch", "value": 2})
    section.command = [
        sys.executable,
        "-c",
        f"import time; print({found!r}, flush=True); time.sleep(600)",
    ]
    began = time.monotonic()
    section.measure()
    assert (section.state, section.facts) == ("out of time", {"launch": 2})
    assert time.monotonic() - began < 300


def test_a_section_that_crashes_says_its_last_words() -> None:
    section = facts.Section("calls", argparse.Namespace(host_memory=0, quick=True), "", 60.0)
    section.command = [sys.executable, "-c", "raise SystemExit('the card is gone')"]
    section.measure()
    assert section.state != "ok"
    section.command = [sys.executable, "-c", "import os; os.write(2, b'gone\\n'); os.abort()"]
    section.measure()
    assert (section.state, section.complaints()[-1]) == ("failed", "gone")


def test_the_table_and_the_profile_leave_out_what_was_not_measured() -> None:
    found = {"identity": {"name": "NVIDIA T4", "memory_mib": 15360}}
    text = profile.profile(found)
    assert "model = T4\nname = NVIDIA T4\nmemory = 15360MiB\n" in text
    assert "# h2d: not measured" in text
    assert parse_bytes("15360MiB") == 15360 << 20
    assert profile.table(found) == f"  {'memory, free MiB':<55} 15360  -"


@pytest.mark.slow
def test_the_checks_hold_on_the_simulated_gpu_and_skip_what_needs_nvidias_runtime(
    native: Path, tmp_path: Path
) -> None:
    out = tmp_path / "check.json"
    done = run(
        native, tmp_path, "check.py", "--simulate", "--quick",
        "--only", "refusal,graphs,overhead,torch-trainings,jax", "-o", str(out),
        "--lines", str(tmp_path / "lines"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["gpu"].endswith("(simgpu)")
    states = {one["check"]: one["state"] for one in found["checks"]}
    assert states == {
        "refusal": "passed",
        "graphs": "passed",
        "overhead": "passed",
        "torch-trainings": "skipped",
        "jax": "skipped",
    }
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert lines == found["checks"]


def test_no_program_that_a_check_runs_is_missing_or_broken() -> None:
    folder = ROOT / "tests" / "gpu"
    texts = [f.read_text() for f in (*folder.glob("holds/*.py"), *folder.glob("card/traces.py"))]
    named = {
        name for text in texts for name in re.findall(r'"(\w+\.py)"', text) if name != "run.py"
    }
    named |= {f"{name}_sums.py" for name in frameworks.NEEDS}
    assert named == {path.name for path in (folder / "programs").glob("*.py")}
    for path in (folder / "programs").glob("*.py"):
        compile(path.read_text(), str(path), "exec")
