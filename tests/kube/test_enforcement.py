"""Pods get what they were promised; who takes more is warned, and ended if that is set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kube.bed import Bed
from tests.kube.objects import mount, pod, set_to
from tests.kube.sharing import DIRECTORY, GPU, IMAGE, LONG, MIB, Sharing, asking, work

WATCHED = {"MOIETY_WATCH_EVERY": "300ms", "MOIETY_WATCH_UNREGISTERED": "warn,event,2s,kill"}
"""as variables of the DaemonSet"""
WITHIN = 0.1
"""of a GPU's time: so far from its part may be what a pod received; equal parts are farther"""


pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.fixture(scope="module", autouse=True)
def _watched(sharing: Sharing) -> None:
    """The agent ends who goes past it; pods may have the latency class, and resize."""
    sharing.allow(everyone="latency: true\nresize: true\npriority: high")
    sharing.env |= WATCHED
    sharing.restart("agent")


def sharer(name: str, namespace: str, gpu: str, *command: str, **notes: str) -> dict[str, Any]:
    """A pod that asks for a part of a GPU; `notes` are more annotations, with - for _."""
    more = {f"moiety.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    asked = {"moiety.dev/gpu": gpu, **more}
    return asking(name, namespace, *(command or work(8, LONG)), annotations=asked)


def past_moiety(name: str, namespace: str, native: Path) -> dict[str, Any]:
    """A pod without a share that goes to the GPU with a driver of its own."""
    made = pod(name, *work(8, LONG), namespace=namespace)
    made["spec"]["containers"][0]["image"] = IMAGE
    mount(made, driver=native / "simgpu", gpu=DIRECTORY / "gpu")
    variables = {"LD_LIBRARY_PATH": "/driver", "MOIETY_SIMGPU": GPU, "MOIETY_SIMGPU_STATE": "/gpu"}
    return set_to(made, variables)


def by_pod(sharing: Sharing) -> dict[str, dict[str, Any]]:
    """The agent's word on each program, by the pod that it runs in."""
    return {row["labels"]["pod"]: row for row in sharing.tenants() if "pod" in row["labels"]}


def events(bed: Bed, namespace: str, name: str, *reasons: str) -> list[tuple[str, str]]:
    """Reasons and notes of Events about a pod, in the order in which they were made."""
    found = bed.get("events.v1.events.k8s.io", "-n", namespace)["items"]
    mine = [
        each
        for each in found
        if (each["regarding"]["kind"], each["regarding"]["name"]) == ("Pod", name)
        and (not reasons or each["reason"] in reasons)
    ]
    mine.sort(key=lambda each: each.get("eventTime") or "")
    return [(each["reason"], each["note"]) for each in mine]


def received(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """GPU-seconds of each, so far."""
    return {name: row["received_s"] for name, row in rows.items()}


def test_three_busy_pods_receive_what_they_were_promised(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    promised = {"a": 0.2, "b": 0.2, "c": 0.6}
    busy = ["/app/worker", "/app/kernels.elf", str(8 * MIB), str(LONG), "20", "0", "7"]
    bed.apply(*(sharer(name, namespace, str(part), *busy) for name, part in promised.items()))
    for name in promised:
        sharing.until_phase(namespace, name, "Running")
    # What the first had alone is nobody's to give back: it counts from when all are busy.
    bed.until(
        lambda: all(received(by_pod(sharing)).get(name, 0) > 0.5 for name in promised),
        "all have had turns",
    )
    before = received(by_pod(sharing))

    def so_far() -> dict[str, float]:
        now = received(by_pod(sharing))
        return {name: now[name] - before[name] for name in promised}

    bed.until(lambda: sum(so_far().values()) > 8, "8 GPU-seconds are given")
    got = so_far()

    parts = {name: got[name] / sum(got.values()) for name in promised}
    assert parts == pytest.approx(promised, abs=WITHIN)


def test_a_program_that_passes_the_shim_by_is_warned_and_ended(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    honest, past = (sharer(name, namespace, "0.3") for name in ("honest", "past"))
    set_to(past, {"MOIETY_DISABLE": "1"})
    bed.apply(honest, past)

    assert sharing.ended(namespace, "past")[1] == 128 + 9

    def told() -> list[tuple[str, str]]:
        return events(bed, namespace, "past", "Unregistered", "Killed")

    bed.until(lambda: len(told()) == 2, "both steps are Events of the pod")
    (first, warning), (second, _) = told()
    assert (first, second) == ("Unregistered", "Killed")
    assert "without moiety" in warning
    assert "it is ended in 2 s unless that stops" in warning
    listed = (sharing.cli("events") or "").splitlines()
    assert any("Killed" in line and f"pod {namespace}/past" in line for line in listed), listed
    assert events(bed, namespace, "honest", "Unregistered", "Killed") == []


@pytest.mark.slow
def test_a_dry_run_names_who_goes_past_and_ends_nobody(
    bed: Bed, sharing: Sharing, namespace: str, native: Path
) -> None:
    sharing.env["MOIETY_WATCH_DRY_RUN"] = "true"
    sharing.restart("agent")
    try:
        bed.apply(past_moiety("past", namespace, native))

        def told() -> list[str]:
            return [note for _, note in events(bed, namespace, "past", "WouldAct")]

        bed.until(lambda: any("would end it" in note for note in told()), "it would be ended")
        assert any("would warn it" in note for note in told()), told()
        assert sharing.phase(namespace, "past") == "Running"
        assert events(bed, namespace, "past", "Killed", "Unregistered") == []
    finally:
        del sharing.env["MOIETY_WATCH_DRY_RUN"]
        sharing.restart("agent")


def share_of(sharing: Sharing, name: str) -> dict[str, Any]:
    """What the agent has promised the programs of a pod."""
    found: dict[str, Any] = by_pod(sharing)[name]["share"]
    return found


def note_of(bed: Bed, namespace: str, name: str) -> str:
    """The node's last answer to a resize."""
    told = events(bed, namespace, name, "Resized", "ResizeRefused")
    return told[-1][1] if told else ""


def test_a_running_pod_gets_another_size_or_is_told_why_not(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(
        sharer("train", namespace, "0.3", memory_limit="48Mi"), sharer("other", namespace, "0.3")
    )
    for name in ("train", "other"):
        sharing.until_phase(namespace, name, "Running")
    bed.until(lambda: set(by_pod(sharing)) == {"train", "other"}, "both are on the GPU")
    run = ("kubectl", "exec", "train", "-n", namespace, "--", *work(32, 1, gpu_ms=1))
    within = bed.call(*run)

    done = sharing.kubectl_moiety("resize", "train", "-n", namespace, "--gpu", "0.6")
    assert (done.returncode, done.stdout) == (0, "train: gpu=0.6\n"), done
    assert share_of(sharing, "train")["gpu"] == 0.6
    assert note_of(bed, namespace, "train").startswith("gpu=0.6: its share is now 60 %")
    bed.until(lambda: bool(events(bed, namespace, "train", "Resized")), "it is an Event")

    bed.kubectl(
        *("annotate", "pod", "train", "-n", namespace, "--overwrite"),
        "moiety.dev/resize=gpu=0.6 memory-limit=24Mi",
    )
    bed.until(lambda: "24Mi" in note_of(bed, namespace, "train"), "the other wish is granted")
    beyond = bed.call(*run)
    assert share_of(sharing, "train")["memory_limit_bytes"] == 24 * MIB
    assert (within.returncode, beyond.returncode) == (0, 1)
    assert "cuMemAlloc_v2 failed with error 2" in beyond.stderr

    no = sharing.kubectl_moiety("resize", "train", "-n", namespace, "--gpu", "0.8")
    assert no.returncode != 0
    assert "80 % of gpu-0 are wanted, and 30 % of it are given already" in no.stderr
    assert note_of(bed, namespace, "train").startswith("gpu=0.8: refused: ")
    assert share_of(sharing, "train")["gpu"] == 0.6
    bed.until(lambda: bool(events(bed, namespace, "train", "ResizeRefused")), "it is an Event")
    ((_, note),) = events(bed, namespace, "train", "ResizeRefused")
    assert "given already" in note


def test_a_pod_is_not_placed_where_a_share_grew(bed: Bed, sharing: Sharing, namespace: str) -> None:
    bed.apply(sharer("train", namespace, "0.3"))
    sharing.until_phase(namespace, "train", "Running")
    done = sharing.kubectl_moiety("resize", "train", "-n", namespace, "--gpu", "0.6")
    assert done.returncode == 0, done.stderr
    (device,) = sharing.devices()
    assert device["capacity"]["compute"]["value"] == "70"

    bed.apply(sharer("next", namespace, "0.5"))
    bed.until(lambda: "allocate" in scheduling(bed, namespace, "next"), "it waits")
    assert "nodeName" not in bed.get("pod", "next", "-n", namespace)["spec"]

    done = sharing.kubectl_moiety("resize", "train", "-n", namespace, "--gpu", "0.4")
    assert done.returncode == 0, done.stderr
    sharing.until_phase(namespace, "next", "Running")
    for name in ("train", "next"):
        sharing.finish(namespace, name)


def test_a_busy_pod_of_the_latency_class_leaves_another_what_it_was_promised(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    busy = ["/app/worker", "/app/kernels.elf", str(8 * MIB), str(LONG), "20", "0", "7"]
    first = {"moiety.dev/memory": "16Mi", "moiety.dev/latency": "true"}
    bed.apply(
        sharer("train", namespace, "0.9", *busy),
        asking("serve", namespace, *busy, annotations=first),
    )
    for name in ("train", "serve"):
        sharing.until_phase(namespace, name, "Running")
    bed.until(
        lambda: min(received(by_pod(sharing)).get(name, 0) for name in ("train", "serve")) > 0.5,
        "both are busy",
    )
    before = received(by_pod(sharing))

    def more() -> dict[str, float]:
        return {name: now_s - before[name] for name, now_s in received(by_pod(sharing)).items()}

    bed.until(lambda: sum(more().values()) > 12, "they took turns for 12 s")
    after = more()
    assert after["train"] / sum(after.values()) > 0.9 - WITHIN
    for name in ("train", "serve"):
        sharing.finish(namespace, name)


def scheduling(bed: Bed, namespace: str, name: str) -> str:
    """Why a pod is not placed."""
    status = bed.get("pod", name, "-n", namespace)["status"]
    found = [c for c in status.get("conditions", []) if c["type"] == "PodScheduled"]
    return "".join(str(each.get("message", "")) for each in found)


def test_a_pod_with_a_whole_gpu_has_no_neighbours_and_is_never_moved_out(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    whole = asking("whole", namespace, *work(100, LONG), limits={"moiety.dev/gpu": "1"})
    bed.apply(whole)
    sharing.until_phase(namespace, "whole", "Running")

    def is_taken() -> bool:
        (device,) = sharing.devices()
        return any(taint["value"] == "whole" for taint in device.get("taints", []))

    bed.until(is_taken, "the slice says that it is taken")
    # Neither of these is promised any time: they would only wait for it to be idle.
    little = asking("little", namespace, *work(8, 1), annotations={"moiety.dev/memory": "16Mi"})
    bed.apply(little, sharer("some", namespace, "0.1"))
    bed.until(
        lambda: all("allocate" in scheduling(bed, namespace, x) for x in ("little", "some")),
        "both wait",
    )

    bed.until(lambda: len(sharing.tenants()) == 1, "it is on the GPU")
    first = sharing.tenants()[0]
    bed.until(lambda: sharing.tenants()[0]["received_s"] > first["received_s"] + 1, "it goes on")
    (row,) = sharing.tenants()
    assert (row["handoffs"], row["evicted_bytes"]) == (first["handoffs"], 0)
    bed.kubectl("delete", "pod", "whole", "-n", namespace)
    for name in ("little", "some"):
        sharing.until_phase(namespace, name, "Running", "Succeeded")


@pytest.mark.slow
def test_what_goes_on_is_told_once(bed: Bed, sharing: Sharing, namespace: str) -> None:
    for name in ("one", "two"):
        bed.apply(sharer(name, namespace, "0.4", *work(80, LONG, gpu_ms=5)))
    sharing.until_all_gave_way(namespace, "one", "two")

    def told() -> list[int]:
        """Of each pod, how often the journal had something to say of evictions."""
        lines = (sharing.cli("events", "-o", "json", "--reason", "Evicted") or "").splitlines()
        about = [json.loads(line)["labels"].get("pod") for line in lines]
        return [about.count(name) for name in ("one", "two")]

    bed.until(lambda: min(told()) >= 3, "they take turns")
    bed.until(
        lambda: all(events(bed, namespace, name, "Evicted") for name in ("one", "two")),
        "both are told",
    )
    for name in ("one", "two"):
        assert len(events(bed, namespace, name, "Evicted")) == 1

    sharing.kubectl_moiety("resize", "one", "-n", namespace, "--memory-limit", "16Mi")
    bed.until(lambda: bool(events(bed, namespace, "one", "AboveLimit")), "it has more than it may")
    assert len(events(bed, namespace, "one", "AboveLimit")) == 1


@pytest.mark.slow
def test_an_idle_pod_is_told_once(bed: Bed, sharing: Sharing, namespace: str) -> None:
    sharing.env["MOIETY_WATCH_IDLE"] = "1s"
    sharing.restart("agent")
    try:
        # A pause of an hour after the first millisecond.
        idle = ["/app/worker", "/app/kernels.elf", str(8 * MIB), "2", "1", "3600000", "7"]
        bed.apply(sharer("idle", namespace, "0.3", *idle))
        sharing.until_phase(namespace, "idle", "Running")

        bed.until(lambda: bool(events(bed, namespace, "idle", "Idle")), "it is told")
        row = by_pod(sharing)["idle"]
        bed.until(lambda: by_pod(sharing)["idle"]["idle_s"] > row["idle_s"] + 3, "it goes on")
        ((_, note),) = events(bed, namespace, "idle", "Idle")
        assert "a guaranteed 30% of the GPU's time" in note
    finally:
        del sharing.env["MOIETY_WATCH_IDLE"]
        sharing.restart("agent")
