"""The stand-in driver's promises, each held by a C program that knows nothing of how it is made."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.waiting import DEADLINE_S, until
from tests.support.native import compile_c, native_dir

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20

Build = Callable[[str], Path]


@pytest.fixture(scope="module")
def simgpu() -> Path:
    folder = native_dir()
    if folder is None or not (folder / "simgpu" / "libcuda.so.1").exists():
        pytest.skip("the stand-in driver is not built: make test")
    return folder / "simgpu"


@pytest.fixture(scope="module")
def build(simgpu: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("simgpu")
    flags = [f"-I{ROOT / 'native'}", str(simgpu / "libcuda.so.1"), f"-Wl,-rpath,{simgpu}", "-ldl"]

    def make(name: str) -> Path:
        return compile_c([PROGRAMS / f"{name}.c"], folder / name, flags=flags)

    return make


@pytest.fixture
def gpu(simgpu: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with GPUs of its own, small ones."""
    state = Path("/dev/shm") / f"moiety-test-{os.getpid()}-{tmp_path.name}"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MOIETY_SIM", "CUDA_"))}
    env |= {
        "MOIETY_SIMGPU": "A100-80:memory=256MiB,residue=2MiB,link=2GB/s,pageable=1GB/s",
        "MOIETY_SIMGPU_STATE": str(state),
        "KERNELS": str(simgpu / "kernels.elf"),
        "LD_LIBRARY_PATH": str(simgpu),
    }
    yield env
    shutil.rmtree(state, ignore_errors=True)


def run(program: Path, env: dict[str, str], *args: object) -> str:
    done = subprocess.run(
        [program, *map(str, args)], env=env, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "what",
    ["streams", "vmm", "lookup", "graphs", "capture", "fork", "modules", "pools", "kept", "words"],
)
def test_keeps_the_drivers_rules(what: str, build: Build, gpu: dict[str, str]) -> None:
    assert run(build(f"simgpu_{what}"), gpu) == "ok\n"


def test_graphs_made_by_hand_do_what_they_say(
    build: Build, gpu: dict[str, str], tmp_path: Path
) -> None:
    assert run(build("simgpu_nodes"), gpu, tmp_path) == "ok\n"
    older = gpu | {"MOIETY_SIMGPU": f"{gpu['MOIETY_SIMGPU']},driver=12040"}
    older["MOIETY_SIMGPU_STATE"] += "-older"
    assert run(build("simgpu_nodes"), older, tmp_path) == "ok\n"
    shutil.rmtree(older["MOIETY_SIMGPU_STATE"], ignore_errors=True)


@pytest.mark.parametrize(
    ("card", "processors", "has_clusters"), [("A100-80", 108, 0), ("H100", 132, 1), ("T4", 40, 0)]
)
def test_a_launch_has_the_limits_of_its_card(
    build: Build, gpu: dict[str, str], card: str, processors: int, has_clusters: int
) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{card}:memory=256MiB,residue=2MiB"}
    assert run(build("simgpu_launches"), env, processors, has_clusters) == "ok\n"


def test_an_event_is_waited_for_by_another_process(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_shared_events"), gpu) == "ok\n"


def test_two_gpus_are_two(build: Build, gpu: dict[str, str]) -> None:
    two = gpu | {"MOIETY_SIMGPU": "2x" + gpu["MOIETY_SIMGPU"]}
    assert run(build("simgpu_peers"), two) == "ok\n"


def test_poisoned_memory_is_never_zero(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_vmm"), gpu | {"MOIETY_SIMGPU_POISON": "1"}) == "ok\n"


def test_copies_take_at_least_what_the_link_takes(build: Build, gpu: dict[str, str]) -> None:
    one, both, pageable = map(float, run(build("simgpu_copies"), gpu).split())
    seconds = 32 * MIB / 2e9
    assert one >= seconds
    assert both >= seconds
    assert pageable >= 2 * seconds


@pytest.mark.parametrize("limit", ["duplex=2GB/s", "engines=1"])
def test_directions_slow_each_other_down_where_the_card_says_so(
    limit: str, build: Build, gpu: dict[str, str]
) -> None:
    limited = gpu | {"MOIETY_SIMGPU": f"{gpu['MOIETY_SIMGPU']},{limit}"}
    one, both, _ = map(float, run(build("simgpu_copies"), limited).split())
    assert one >= 32 * MIB / 2e9
    assert both >= 2 * 32 * MIB / 2e9


def test_the_short_name_of_the_only_such_card_will_do(build: Build, gpu: dict[str, str]) -> None:
    short = gpu | {"MOIETY_SIMGPU": "h100:memory=256MiB,residue=2MiB"}
    assert run(build("simgpu_vmm"), short) == "ok\n"


# ---- several processes ----


class Holder:
    """A process that holds GPU memory until it is told to end."""

    def __init__(self, program: Path, env: dict[str, str], *args: object) -> None:
        self.process = subprocess.Popen(
            [program, *map(str, args)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.said = self.process.stdout.readline().split()

    @property
    def free_bytes(self) -> int:
        return int(self.said[0])

    def end(self) -> None:
        self.process.communicate(timeout=DEADLINE_S)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        # Not waited for yet: a zombie must not count either.
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


def test_processes_share_what_there_is(build: Build, gpu: dict[str, str]) -> None:
    hold = build("simgpu_hold")
    first = Holder(hold, gpu, 100 * MIB)
    assert first.free_bytes == (256 - 2 - 100) * MIB
    second = Holder(hold, gpu, 50 * MIB)
    assert second.free_bytes == (256 - 2 - 100 - 2 - 50) * MIB
    third = Holder(hold, gpu, 200 * MIB)
    assert third.said == ["out", "of", "memory"]
    third.end()

    first.kill()
    fourth = Holder(hold, gpu, 200 * MIB)
    assert fourth.free_bytes == 2 * MIB
    for one in (first, second, fourth):
        one.end()
    last = Holder(hold, gpu, 0)
    assert last.free_bytes == 254 * MIB
    last.end()


def test_processes_of_other_pid_namespaces_count_too(build: Build, gpu: dict[str, str]) -> None:
    apart = ["--pid", "--fork", "--mount-proc", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run(["unshare", *apart, "true"]).returncode:
        pytest.skip("PID namespaces cannot be made here")
    hold = build("simgpu_hold")
    outside = Holder(hold, gpu, 100 * MIB)
    inside = Holder(Path("unshare"), gpu, *apart, hold, 50 * MIB)
    assert inside.free_bytes == (256 - 2 - 100 - 2 - 50) * MIB, "outside is not taken for dead"
    third = Holder(hold, gpu, 0)
    assert third.free_bytes == (256 - 2 - 100 - 2 - 50 - 2) * MIB, "nor is inside"
    third.end()
    inside.kill()  # and the kernel ends its child, a moment later

    def is_given_back() -> bool:
        last = Holder(hold, gpu, 0)
        last.end()
        return last.free_bytes == (256 - 2 - 100 - 2) * MIB

    until(is_given_back, "what was held inside is given back")
    for one in (outside, inside):
        one.end()


def test_shared_memory_outlives_its_maker(build: Build, gpu: dict[str, str]) -> None:
    maker = Holder(build("simgpu_hold"), gpu, 64 * MIB, "export")
    path = f"/proc/{maker.process.pid}/fd/{maker.said[2]}"
    user = Holder(build("simgpu_import"), gpu, path, 64 * MIB)
    assert user.said == ["imported"]
    before = Holder(build("simgpu_hold"), gpu, 0)
    assert before.free_bytes == (256 - 3 * 2 - 64) * MIB
    maker.kill()
    after = Holder(build("simgpu_hold"), gpu, 0)
    assert after.free_bytes == (256 - 3 * 2 - 64) * MIB
    user.end()
    last = Holder(build("simgpu_hold"), gpu, 0)
    assert last.free_bytes == (256 - 3 * 2) * MIB
    for one in (maker, before, after, last):
        one.end()


def test_processes_share_one_gpus_time(build: Build, gpu: dict[str, str]) -> None:
    both = [Holder(build("simgpu_spin"), gpu, 150) for _ in range(2)]
    for one in both:
        assert one.said == ["ready"]
        assert one.process.stdin
        one.process.stdin.write("\n")
        one.process.stdin.flush()
    times = [
        tuple(map(float, one.process.communicate(timeout=DEADLINE_S)[0].split())) for one in both
    ]
    starts, ends = zip(*times, strict=True)
    assert max(ends) - min(starts) >= 0.299


def test_a_kernel_that_spins_stops_nobody_else(build: Build, gpu: dict[str, str]) -> None:
    spinning = Holder(build("simgpu_spinning"), gpu)
    assert spinning.said == ["spinning"]
    other = Holder(build("simgpu_spin"), gpu, 30)
    assert len(other.process.communicate("\n", timeout=DEADLINE_S)[0].split()) == 2
    assert spinning.process.communicate("\n", timeout=DEADLINE_S)[0] == "ok\n"
    assert spinning.process.returncode == 0


@pytest.mark.parametrize("how", ["host", "device", "values"])
@pytest.mark.parametrize("ahead", [1, 10])
def test_processes_compute_together(
    how: str, ahead: int, build: Build, gpu: dict[str, str], tmp_path: Path
) -> None:
    program = build("collective")
    ranks = 3
    together = [
        Holder(program, gpu, how, tmp_path / "board", rank, ranks, 200, ahead, MIB)
        for rank in range(ranks)
    ]
    for one in together:
        assert one.said == ["ready"]
        assert one.process.communicate(timeout=DEADLINE_S)[0] == "done\n"


def test_nothing_is_left_of_processes_killed_in_the_middle(
    build: Build, gpu: dict[str, str]
) -> None:
    hold = build("simgpu_hold")
    for _ in range(3):
        churning = [Holder(build("simgpu_churn"), gpu) for _ in range(3)]
        for one in churning:
            assert one.said == ["on"]
            assert one.process.stdout
            one.process.stdout.readline()
        for one in churning:
            one.kill()
        left = Holder(hold, gpu, 0)
        assert left.free_bytes == 254 * MIB
        for one in (*churning, left):
            one.end()


# ---- the host's memory behind it ----


class Keeper(Holder):
    """A process that takes, fills and frees GPU memory as it is told."""

    def say(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def use(self, size: int) -> None:
        for line in (f"take {size}", "fill", "free"):
            assert self.say(line)

    @property
    def host_bytes(self) -> int:
        """What its GPU memory takes of the host's."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        files = [one for one in folder.iterdir() if "simgpu-memory" in str(one.readlink())]
        return sum(one.stat().st_blocks * 512 for one in files)


def test_freed_memory_stays_with_its_process_up_to_a_bound(
    build: Build, gpu: dict[str, str]
) -> None:
    small = gpu | {"MOIETY_SIMGPU": gpu["MOIETY_SIMGPU"] + ",keep=64MiB"}
    one, two = (Keeper(build("simgpu_keep"), small) for _ in range(2))
    one.use(128 * MIB)
    assert one.host_bytes == 0
    one.use(48 * MIB)
    assert one.host_bytes == 48 * MIB
    two.use(32 * MIB)
    assert two.host_bytes == 0
    two.use(16 * MIB)
    assert two.host_bytes == 16 * MIB
    # What is kept in the wrong size makes way, so that a process never takes more than at its peak.
    assert one.say(f"take {64 * MIB}") == "taken"
    assert one.host_bytes == 0
    one.kill()
    three = Keeper(build("simgpu_keep"), small)
    three.use(48 * MIB)
    assert three.host_bytes == 48 * MIB
    for each in (one, two, three):
        each.end()


def test_memory_that_is_never_touched_costs_the_host_nothing(
    build: Build, gpu: dict[str, str]
) -> None:
    one = Keeper(build("simgpu_keep"), gpu)
    for _ in range(3):
        assert one.say(f"take {64 * MIB}") == "taken"
        assert one.say("free") == "freed"
    assert one.host_bytes == 0
    one.end()


def test_no_process_sees_what_another_left(build: Build, gpu: dict[str, str]) -> None:
    first = Keeper(build("simgpu_keep"), gpu)
    first.use(200 * MIB)
    second = Keeper(build("simgpu_keep"), gpu)
    assert second.say(f"take {200 * MIB}") == "taken"
    assert second.say("look") == "0 0"
    assert second.say("free") == "freed"
    first.kill()
    assert second.say(f"take {240 * MIB}") == "taken"
    assert second.say("look") == "0 0"
    for each in (first, second):
        each.end()


def test_no_page_of_new_memory_is_as_it_was_left(build: Build, gpu: dict[str, str]) -> None:
    same = Keeper(build("simgpu_keep"), gpu)
    same.use(64 * MIB)
    assert same.say(f"take {64 * MIB}") == "taken"
    assert same.say("look").split()[1] == "0"
    same.end()


def test_poison_covers_what_was_left(build: Build, gpu: dict[str, str]) -> None:
    same = Keeper(build("simgpu_keep"), gpu | {"MOIETY_SIMGPU_POISON": "1"})
    same.use(8 * MIB)
    assert same.say(f"take {8 * MIB}") == "taken"
    assert same.say("look") == f"{8 * MIB} 0"
    same.end()


def test_only_the_small_shared_state_lies_in_shared_memory(
    build: Build, gpu: dict[str, str]
) -> None:
    state = Path(gpu["MOIETY_SIMGPU_STATE"])

    def left() -> set[str]:
        files = list(state.iterdir())
        assert sum(one.stat().st_blocks * 512 for one in files) < 4 * MIB
        beside = {one.name for one in state.parent.iterdir() if one.name.startswith(state.name)}
        assert beside == {state.name}
        return {one.name for one in files}

    one = Keeper(build("simgpu_keep"), gpu)
    one.use(64 * MIB)
    one.end()
    assert left() == {"alive", "gpus", "lock"}
    two = Keeper(build("simgpu_keep"), gpu)
    two.use(64 * MIB)
    two.kill()
    Keeper(build("simgpu_keep"), gpu).end()
    assert left() == {"alive", "gpus", "lock"}
    two.end()


# ---- managed memory ----


def test_managed_memory_faults_once_when_it_fits(build: Build, gpu: dict[str, str]) -> None:
    assert run(build("simgpu_managed"), gpu, 64, 3).split() == ["32", "0", "0", "free", "254"]


def test_managed_memory_thrashes_when_it_does_not(build: Build, gpu: dict[str, str]) -> None:
    said = run(build("simgpu_managed"), gpu, 384, 3).split()
    assert said[:3] == ["192", "192", "192"]


# ---- which GPUs there are ----


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "MOIETY_SIMGPU is not set"),
        ("A100-81", "use one of"),
        ("A100-80:memory=12", "memory=16GiB"),
        ("A100-80:speed=12", "the properties are driver, memory"),
        ("17xA100-80", "between 1 and 16"),
        ("/no/such/profile", "check the path"),
    ],
)
def test_a_wrong_description_is_explained(
    text: str, hint: str, build: Build, gpu: dict[str, str]
) -> None:
    done = subprocess.run(
        [build("simgpu_hold"), "0"],
        env=gpu | {"MOIETY_SIMGPU": text},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    first = done.stderr.splitlines()[0]
    assert first.startswith("simgpu: ")
    assert hint in first


def test_a_profile_may_stand_in_a_file(build: Build, gpu: dict[str, str], tmp_path: Path) -> None:
    profile = tmp_path / "small"
    profile.write_text("# a small one\nmodel = T4\nmemory = 64MiB\nresidue = 4MiB\n")
    holder = Holder(build("simgpu_hold"), gpu | {"MOIETY_SIMGPU": str(profile)}, 0)
    assert holder.said[:2] == [str(60 * MIB), str(64 * MIB)]
    holder.end()


def test_other_gpus_in_the_same_state_are_refused_while_it_is_used(
    build: Build, gpu: dict[str, str]
) -> None:
    other = gpu | {"MOIETY_SIMGPU": "T4:memory=64MiB,residue=2MiB"}
    first = Holder(build("simgpu_hold"), gpu, 0)
    done = subprocess.run(
        [build("simgpu_hold"), "0"],
        env=other,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert f"process {first.process.pid} uses" in done.stderr
    first.end()
    second = Holder(build("simgpu_hold"), other, 0)
    assert second.free_bytes == 62 * MIB
    second.end()


@pytest.mark.parametrize(("visible", "count"), [("1", 1), ("1,0", 2), ("0,7,1", 1), ("", 0)])
def test_only_visible_devices_are_seen(
    visible: str, count: int, build: Build, gpu: dict[str, str]
) -> None:
    env = gpu | {"MOIETY_SIMGPU": "2xT4:memory=64MiB", "CUDA_VISIBLE_DEVICES": visible}
    assert run(build("simgpu_count"), env) == f"{count}\n"
