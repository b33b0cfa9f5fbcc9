"""A program sees the GPUs that its workload is a share of, numbered from 0, and no other."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.agent.core.lease_page import LeasePage
from moiety.agent.shim.session import gpus_message
from moiety.testing.node import Node, finish
from moiety.wire.codec import decode
from moiety.wire.message import Message
from moiety.wire.messages import GpusQueryMessage, HelloMessage, RefusedMessage, WelcomeMessage

LOOK = """
import ctypes, json, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")

def seen():
    error, count, found = cuda.cuInit(0), ctypes.c_int(), []
    if error:
        return error
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for i in range(count.value):
        name = ctypes.create_string_buffer(16)
        assert cuda.cuDeviceGetPCIBusId(name, 16, i) == 0
        found.append(int(name.value[5:7], 16) - 1)
    return found

getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p

def variable():
    text = getenv(b"CUDA_VISIBLE_DEVICES")
    return "(none)" if text is None else text.decode()

match sys.argv[1]:
    case "late":
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    case "nvml":
        import pynvml as n
        n.nvmlInit()
        handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
        found = [[f(h) for h in handles] for f in (n.nvmlDeviceGetUUID, n.nvmlDeviceGetIndex)]
        for ask, names in (
            (n.nvmlDeviceGetHandleByIndex, [len(handles)]),
            (n.nvmlDeviceGetHandleByUUID, sys.argv[2:]),
            (n.nvmlDeviceGetHandleByPciBusId, ["0000:01:00.0", "0000:04:00.0"]),
        ):
            for name in names:
                try:
                    found.append(n.nvmlDeviceGetIndex(ask(name)))
                except n.NVMLError as error:
                    found.append(error.value)
        near = n.nvmlDeviceGetTopologyNearestGpus(handles[0], n.NVML_TOPOLOGY_HOSTBRIDGE)
        found.append([n.nvmlDeviceGetIndex(device) for device in near])
        number, room = ctypes.c_uint(0), (n.c_nvmlDevice_t * 8)()  # 0: it asks for the number
        nearest = n._nvmlGetFunctionPointer("nvmlDeviceGetTopologyNearestGpus")
        nearest(handles[0], n.NVML_TOPOLOGY_HOSTBRIDGE, ctypes.byref(number), room)
        found.append(number.value)
        print(json.dumps(found))
        sys.exit()
    case "forked":
        read, write = os.pipe()
        if not os.fork():
            os.write(write, json.dumps([seen(), variable()]).encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 4096).decode())
        sys.exit()
first = seen(), variable()
if sys.argv[1] == "parent":
    run = [sys.executable, sys.argv[0], "child"]
    first = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
print(json.dumps(first))
"""
NO_DEVICE = 100
UUIDS = """
import ctypes
ctypes.CDLL("libnvidia-ml.so.1", mode=ctypes.RTLD_GLOBAL)
import pynvml as n
n.nvmlInit()
for at in range(n.nvmlDeviceGetCount()):
    print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(at)))
"""
"""Prints the UUIDs of the GPUs of NVML."""


class Cards:
    """An agent that says which GPUs a workload has, greets programs, and says nothing more."""

    def __init__(self, path: Path, cards: tuple[str, ...], *, is_old: bool) -> None:
        self.cards, self.is_old = cards, is_old
        self.kept = contextlib.ExitStack()
        self.listener = self.kept.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        )
        self.listener.bind(str(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        """Answer the first message of each connection, until the listener is shut down."""
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.kept.enter_context(sock)
                self.answer(sock, decode(sock.recv(4096)))

    def answer(self, sock: socket.socket, message: Message) -> None:
        """What an agent says to a first message."""
        match message:
            case GpusQueryMessage() if self.is_old:
                sock.send(RefusedMessage(text="there is no message of type 56").encode())
                sock.close()
            case GpusQueryMessage():
                sock.send(gpus_message(message.serial, self.cards).encode())
                sock.close()
            case HelloMessage():
                page = LeasePage(0, is_open=False)
                self.kept.callback(page.dispose)
                socket.send_fds(sock, [WelcomeMessage(tenant=1).encode()], [page.fd])

    def close(self) -> None:
        """End the thread and every connection."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.kept.close()


@pytest.fixture
def uuids(node: Node) -> list[str]:
    """The UUIDs of the four GPUs."""
    code = "import pynvml as n; n.nvmlInit(); print(*(n.nvmlDeviceGetUUID("
    code += "n.nvmlDeviceGetHandleByIndex(i)) for i in range(n.nvmlDeviceGetCount())))"
    status, out, err = finish(node.run_alone([sys.executable, "-c", code]))
    assert status == 0, err
    return out.split()


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    """A machine with four GPUs."""
    return make_node("4xA100-80:memory=64MiB,residue=2MiB")


def look(node: Node, native: Path, tmp_path: Path, cards: tuple[str, ...], **how: Any) -> Any:
    """What a program of a workload with these GPUs sees, and what it finds in the variable."""
    script, path = tmp_path / "look.py", tmp_path / "s"
    script.write_text(LOOK)
    env = {
        "LD_LIBRARY_PATH": str(native / "simgpu"),
        "LD_PRELOAD": str(native / "libmoiety.so"),
        "MOIETY_SOCKET": str(path),
    }
    if "visible" in how:
        env["CUDA_VISIBLE_DEVICES"] = how["visible"]
    agent = Cards(path, cards, is_old=how.get("is_old", False))
    try:
        command = [sys.executable, str(script), how.get("case", "plain"), *how.get("names", [])]
        status, out, err = finish(node.start(command, env=env))
    finally:
        agent.close()
        path.unlink()
    assert status == 0, err
    return json.loads(out)


def test_a_program_sees_its_own_gpus_and_its_own_variable(
    node: Node, native: Path, tmp_path: Path, uuids: list[str]
) -> None:
    cards = uuids[1], uuids[3]
    here = node, native, tmp_path, cards
    assert look(*here) == [[1, 3], "(none)"]
    assert look(*here, visible="1,0") == [[3, 1], "1,0"]
    assert look(*here, visible=uuids[3][:-9]) == [[3], uuids[3][:-9]]
    assert look(*here, visible="1,2,0") == [[3], "1,2,0"], "the first unknown entry ends the list"
    for none in ("", "-1", "2", uuids[0], uuids[3][:12]):
        assert look(*here, visible=none) == [NO_DEVICE, none]


def test_what_it_starts_and_what_it_sets_later_counts_too(
    node: Node, native: Path, tmp_path: Path, uuids: list[str]
) -> None:
    here = node, native, tmp_path, (uuids[2], uuids[3])
    assert look(*here, case="late") == [[3], "1"]
    assert look(*here, case="late", visible="0") == [[3], "1"]
    assert look(*here, case="forked", visible="1") == [[3], "1"]
    assert look(*here, case="parent", visible="1") == [[3], "1"]
    assert look(*here, case="parent") == [[2, 3], "(none)"]


def test_a_share_of_every_gpu_and_an_older_agent_change_nothing(
    node: Node, native: Path, tmp_path: Path, uuids: list[str]
) -> None:
    here = node, native, tmp_path
    assert look(*here, (), visible="3,0") == [[3, 0], "3,0"]
    assert look(*here, (uuids[0],), visible="3,0", is_old=True) == [[3, 0], "3,0"]


INVALID_ARGUMENT, NOT_FOUND = 2, 6  # nvmlReturn_t


def test_nvml_has_the_gpus_of_the_share_and_ignores_the_programs_choice(
    node: Node, native: Path, tmp_path: Path, uuids: list[str]
) -> None:
    """0000:01:00.0 is the address of GPU 0, 0000:04:00.0 that of GPU 3."""
    cards, names = (uuids[1], uuids[3]), [uuids[3], uuids[0]]
    seen = look(node, native, tmp_path, cards, case="nvml", names=names, visible="1")
    assert seen == [list(cards), [0, 1], INVALID_ARGUMENT, 1, NOT_FOUND, NOT_FOUND, 1, [1], 1]


def test_without_moiety_simgpu_judges_a_cut_uuid_alike(
    node: Node, native: Path, tmp_path: Path, uuids: list[str]
) -> None:
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    for text, seen in ((uuids[3][:-9], [3]), (uuids[3][:12], NO_DEVICE)):
        env = {"LD_LIBRARY_PATH": str(native / "simgpu"), "CUDA_VISIBLE_DEVICES": text}
        status, out, err = finish(node.start([sys.executable, str(script), "plain"], env=env))
        assert status == 0, err
        assert json.loads(out) == [seen, text]


@pytest.mark.parametrize(
    ("variables", "seen"),
    [
        ({}, [1, 2, 0]),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, [1, 2, 0]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0, 1, 2]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [1]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
    ],
)
def test_without_moiety_cuda_numbers_the_fastest_gpu_first(
    make_node: Callable[[str], Node],
    native: Path,
    tmp_path: Path,
    variables: dict[str, str],
    seen: list[int],
) -> None:
    node = make_node("T4+2xA100-80")
    (tmp_path / "look.py").write_text(LOOK)
    env = {"LD_LIBRARY_PATH": str(native / "simgpu"), **variables}
    look = [sys.executable, str(tmp_path / "look.py"), "plain"]
    status, out, err = finish(node.start(look, env=env))
    assert (status, json.loads(out)[0]) == (0, seen), err


def test_without_moiety_an_instance_of_a_card_is_chosen_by_its_uuid(
    make_node: Callable[[str], Node], native: Path, tmp_path: Path
) -> None:
    node = make_node("A100-80+2xA100-80:mig=1")
    listed = [sys.executable, "-c", UUIDS]
    env = {"LD_LIBRARY_PATH": str(native / "simgpu")}
    uuids = finish(node.start(listed, env=env))[1].split()
    (tmp_path / "look.py").write_text(LOOK)
    look = [sys.executable, str(tmp_path / "look.py"), "plain"]
    for at, seen in ((0, NO_DEVICE), (2, [2])):
        visible = {"CUDA_VISIBLE_DEVICES": uuids[at].replace("GPU-", "MIG-")}
        status, out, err = finish(node.start(look, env=env | visible))
        assert (status, json.loads(out)[0]) == (0, seen), err


LOSE = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
assert driver.cuInit(0) == 0
for gpu, xid in ((0, 79), (2, 48)):
    assert driver.simgpu_fault(gpu, xid, 0) == 0
    print("struck", flush=True)
    sys.stdin.readline()
"""


def test_an_agent_that_starts_beside_a_lost_gpu_shares_the_others(
    make_node: Callable[[str], Node], native: Path
) -> None:
    node = make_node("3xA100-80:memory=64MiB,residue=2MiB")
    driver = str(native / "simgpu" / "libcuda.so.1")
    striker = node.start([sys.executable, "-c", LOSE, driver], stdin=True)
    assert striker.stdout
    assert striker.stdin
    assert striker.stdout.readline() == "struck\n"
    node.start_agent()
    assert [gpu["gpu"] for gpu in node.json("status")["gpus"]] == [1, 2]
    findings = json.loads(node.cli("doctor", "-o", "json").stdout)
    (lost,) = [each for each in findings if each["about"] == "GPU 0"]
    assert (lost["level"], lost["text"]) == ("bad", "NVML: GPU is lost")
    striker.stdin.write("\n")
    striker.stdin.flush()
    (error,) = node.until_told("GpuError")
    assert error.gpu == 2
