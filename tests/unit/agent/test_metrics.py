"""Prometheus' own parser reads what is told, and finds what was put in."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from moiety.agent.control.metrics import METRICS, MetricsSnapshot, exposition
from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.agent.core.journal_events import REASONS
from moiety.config.values import Address, parse_address
from moiety.devices.telemetry import Telemetry
from moiety.model.share import Share

GPU = GpuRow(
    gpu=1,
    uuid="GPU-1",
    name='A100 "big"',
    total_bytes=80 << 30,
    used_bytes=20 << 30,
    capacity_bytes=78 << 30,
    resident_bytes=10 << 30,
    allocated_bytes=90 << 30,
    residue_bytes=1 << 30,
    free_bytes=67 << 30,
    utilisation=0.25,
    holders=[3],
    waiting=[4, 5],
    errors={31: 9.0, 48: 2.0},
    sensors=Telemetry(
        temperature_c=61,
        power_w=250.5,
        sm_clock_mhz=1410,
        memory_clock_mhz=1593,
        ecc_corrected=2,
        ecc_uncorrected=0,
        clock_events=4,
        energy_mj=7,
    ),
)


def process(tenant: int, gpu: int | None, program: str = "train.py") -> ProcessRow:
    return ProcessRow(
        tenant=tenant,
        pid=100 + tenant,
        program=program,
        workload="w",
        gpu=gpu,
        state="holding",
        allocated_bytes=5,
        resident_bytes=3,
        residue_bytes=0,
        limit_bytes=None,
        handoffs=7,
        held_s=1.0,
        waited_s=2.5,
        waiting_s=None,
        reason="",
        pinned="",
        share=Share(gpu=0.5, gpu_limit=0.75),
        received=0.4,
        received_s=12.5,
        evicted_bytes=1 << 40,
        host_bytes=2,
    )


def samples(*rows: ProcessRow, gpu: GpuRow = GPU) -> dict[str, list[tuple[dict[str, str], float]]]:
    seen = MetricsSnapshot([gpu], list(rows), {"Refused": 3}, 100, 10, 1e9, "node1")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(exposition(seen).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_what_left_the_gpus_is_summed_by_user() -> None:
    rows = [
        msgspec.structs.replace(process(tenant, gpu), user=user)
        for tenant, gpu, user in ((3, 0, "ann"), (3, 1, "ann"), (4, 0, "bob"), (5, None, "bob"))
    ]
    rows[3] = msgspec.structs.replace(rows[3], allocated_bytes=0, resident_bytes=0, host_bytes=0)
    told = {labels["user"]: size for labels, size in samples(*rows)["moiety_arena_user_bytes"]}
    assert told == {"ann": 4, "bob": 2}


def test_every_metric_has_its_labels_and_no_other_is_told() -> None:
    found = samples(process(3, 1))
    for name, metric in METRICS.items():
        for labels, _ in found.get(name, []):
            assert set(labels) == set(metric.labels), name
    assert found.keys() <= METRICS.keys()
    assert METRICS.keys() - found.keys() == {"moiety_process_limit_bytes"}


def test_values_and_names_are_those_of_the_node() -> None:
    found = samples(process(3, 1, 'a "name"\\n\n'))
    card = {"gpu": "1", "UUID": "GPU-1", "device": "nvidia1", "modelName": 'A100 "big"'}
    assert found["DCGM_FI_DEV_FB_USED"] == [({**card, "Hostname": "node1"}, 20 << 10)]
    assert found["DCGM_FI_DEV_FB_FREE"][0][1] == 60 << 10
    assert found["DCGM_FI_DEV_GPU_UTIL"][0][1] == 25
    assert found["moiety_gpu_waiting"][0][1] == 2
    assert found["DCGM_FI_DEV_GPU_TEMP"] == [({**card, "Hostname": "node1"}, 61)]
    assert found["DCGM_FI_DEV_POWER_USAGE"][0][1] == 250.5
    assert found["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"][0][1] == 0
    assert found["DCGM_FI_DEV_XID_ERRORS"][0][1] == 48, "the last one"
    labels, value = found["moiety_process_evicted_bytes_total"][0]
    assert labels == {
        "tenant": "3",
        "pid": "103",
        "program": 'a "name"\\n\n',
        "workload": "w",
        "user": "",
        "namespace": "",
        "pod": "",
        "container": "",
    }
    assert value == 1 << 40
    refused = [v for labels, v in found["moiety_events_total"] if labels["reason"] == "Refused"]
    assert refused == [3]
    assert len(found["moiety_events_total"]) == len(REASONS)


def test_what_is_not_known_is_not_told() -> None:
    unread = msgspec.structs.replace(
        GPU, used_bytes=None, utilisation=None, sensors=Telemetry(power_w=1.0)
    )
    found = samples(gpu=unread)
    assert "DCGM_FI_DEV_FB_USED" not in found
    assert "DCGM_FI_DEV_GPU_UTIL" not in found
    assert "DCGM_FI_DEV_GPU_TEMP" not in found
    assert found["moiety_gpu_capacity_bytes"][0][1] == 78 << 30


def test_a_process_on_two_gpus_is_counted_once() -> None:
    found = samples(process(3, 0), process(3, 1), process(4, None))
    assert len(found["moiety_process_resident_bytes"]) == 2
    assert [labels["tenant"] for labels, _ in found["moiety_process_handoffs_total"]] == ["3", "4"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9402", "127.0.0.1:9402"),
        ("localhost:0", "127.0.0.1:0"),
        ("127.0.0.7:80", "127.0.0.7:80"),
        ("[::1]:9402", "[::1]:9402"),
        ("/run/m.sock", "/run/m.sock"),
    ],
)
def test_addresses_of_this_machine(text: str, address: str) -> None:
    assert str(parse_address(text)) == address
    assert isinstance(parse_address(text), Address)


@pytest.mark.parametrize(
    "text", ["0.0.0.0:9402", "10.0.0.1:9402", "[::]:1", "gpu1:9402", "x", "70000", ""]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|loopback"):
        parse_address(text)
