"""What a trace has to be, and what is said where it is not."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.model.errors import InvalidValue, TraceInvalid, TraceMissing
from moiety.policy.model.workloads import Shape
from moiety.sim.replay import ReplaySettings, fill
from moiety.sim.tables import PACKAGED, open_trace

NODES = "name,cpu_milli,memory_mib,gpus,model\nn0,8000,16384,2,T4\nn1,8000,16384,0,\n"
JOBS = "name,submitted_s,duration_s,gpus,gpu_milli,cpu_milli,memory_mib,models\n"


def folder(at: Path, jobs: str, nodes: str = NODES) -> Path:
    (at / "nodes.csv").write_text(nodes)
    (at / "jobs.csv").write_text(JOBS + jobs)
    return at


def test_a_trace_is_read_with_all_that_it_says(tmp_path: Path) -> None:
    trace = open_trace(
        folder(tmp_path, "a,0,60,1,500,1000,512,T4|T4\nb,5.5,,0,,2000,,\nc,6,1,2,,,,\n"), None, 0
    )
    assert [node.name for node in trace.nodes] == ["n0", "n1"]
    assert trace.jobs[0].shape == Shape(1000, 512, 1, 500, models=frozenset({"T4"}))
    assert trace.jobs[1].shape == Shape(2000)
    assert (trace.jobs[1].submitted_s, trace.jobs[1].duration_s) == (5.5, None)
    assert trace.jobs[2].shape == Shape(gpus=2, gpu_milli=1000)  # whole GPUs unless said otherwise
    assert not trace.is_timed


def test_jsonl_and_gzip_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(NODES.encode()))
    (tmp_path / "jobs.jsonl").write_text(
        '{"name": "a", "gpus": 1, "gpu_memory_mib": 0, "models": ["T4"], "cpu_milli": 5}\n\n'
        '{"name": "b", "gpus": 0, "duration_s": null}\n'
    )
    trace = open_trace(tmp_path, None, 0)
    assert trace.jobs[0].shape == Shape(5, 0, 1, 1000, models=frozenset({"T4"}))
    assert trace.jobs[1].shape == Shape()


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ("a,0,60,1,500,-1,512,", "cpu_milli is negative: -1"),
        ("a,-3,60,1,500,1,512,", "submitted_s is negative: -3"),
        ("a,0,60,1,500,1e30,512,", "cpu_milli is larger than anything: 1e+30"),
        ("a,0,-60,1,500,1,512,", "duration_s is negative: -60"),
        ("a,0,60,1,1500,1,512,", "gpu_milli is 1500, but a GPU has 1000"),
        ("a,0,60,1,0,1,512,", "1 GPUs are asked for, but nothing of them"),
        ("a,0,60,1.5,500,1,512,", "gpus is not a whole number: 1.5"),
        ("a,0,soon,1,500,1,512,", "duration_s is not a number: 'soon'"),
        ("a,0,nan,1,500,1,512,", "duration_s is not a number: 'nan'"),
        (",0,1,1,500,1,512,", "it has no name"),
        ("a,0,1,,500,1,512,", "it has no gpus"),
        ("a,0,1,1,500,1,512,T4,more", "it has more values than columns"),
        ("ok,0,60,0,0,1,1,", "ok is in line 2 already"),
        ("a,0,60,1,500,1,512,H100", "a asks for H100, which no node has"),
        ("a,0,60,3,1000,1,512,", "a is larger than every node: 3 GPUs"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_with_its_line_or_counted(
    tmp_path: Path, job: str, problem: str
) -> None:
    at = folder(tmp_path, f"ok,0,60,1,500,1,512,\n{job}\n")
    with pytest.raises(TraceInvalid) as refused:
        open_trace(at, None, 0)
    assert refused.value.what.startswith("jobs.csv, line 3: ")
    assert problem in refused.value.what
    trace = open_trace(at, None, 0, lenient=True)
    assert trace.complaints.count == 1
    assert problem in trace.complaints.told[0]
    stays = "larger than every" in problem or "no node has" in problem
    assert [job.name for job in trace.jobs] == (["ok", "a"] if stays else ["ok"])


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ("cpu_milli,memory_mib,gpus\n1,1,1\n", "nodes.csv, line 1: there is no column name"),
        ("", "there is no column name"),
        ("name,cpu_milli,memory_mib,gpus\nn,-1,1,1\n", "line 2: cpu_milli is negative"),
        ("name,cpu_milli,memory_mib,gpus\nn,1,1,1\nn,1,1,1\n", "line 3: n is in line 2 already"),
        ("name,cpu_milli,memory_mib,gpus\nn,1,1,99\n", "it has 99 GPUs; at most 63"),
    ],
)
def test_a_node_that_makes_no_sense_is_refused_with_its_line(
    tmp_path: Path, nodes: str, problem: str
) -> None:
    with pytest.raises(TraceInvalid, match=problem):
        open_trace(folder(tmp_path, "", nodes), None, 0)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    at = folder(tmp_path, "")
    (at / "jobs.csv").write_bytes(JOBS.encode() + b"\xff\xfe")
    with pytest.raises(TraceInvalid, match="is no text in UTF-8"):
        open_trace(at, None, 0)
    (at / "jobs.csv").write_bytes(gzip.compress(JOBS.encode() * 50)[:60])
    with pytest.raises(TraceInvalid, match="compressed data is damaged"):
        open_trace(at, None, 0)
    (at / "jobs.csv").unlink()
    (at / "jobs.jsonl").write_text("[1]\n")
    with pytest.raises(TraceInvalid, match=r"jobs.jsonl, line 1: it is not an object of JSON"):
        open_trace(at, None, 0)


def test_a_trace_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TraceMissing, match="it does not exist"):
        open_trace(tmp_path / "nowhere", None, 0)
    with pytest.raises(TraceMissing, match=r"it has no nodes.csv or nodes.jsonl"):
        open_trace(tmp_path, None, 0)
    (tmp_path / "pods_big.csv").write_text("")
    with pytest.raises(TraceMissing, match=r"it has no list small \(but: big\)"):
        open_trace(tmp_path, "small", 0)


OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,8000,16384,0,\n"
OPENB_PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"


def openb(at: Path, pods: str, **files: str) -> Path:
    (at / "nodes.csv").write_text(OPENB_NODES)
    (at / "pods_x.csv").write_text(OPENB_PODS + pods)
    for name, text in files.items():
        (at / f"{name}.txt").write_text(text)
    return at


def test_alibabas_trace_is_read_with_arrivals_and_order(tmp_path: Path) -> None:
    at = openb(
        tmp_path,
        "a,1000,512,1,460,T4|T4,10,30\nb,1000,512,0,0,,20,20\n",
        arrivals_x_7="1\n0\n1\n",
        node_rank_x_7="n1 0\nn0 1\n",
    )
    trace = open_trace(at, None, 7)
    assert trace.jobs[0].shape == Shape(1000, 512, 1, 460, models=frozenset({"T4"}))
    assert (trace.jobs[0].submitted_s, trace.jobs[0].duration_s) == (10, 20)
    assert (trace.arrivals, trace.node_order) == ((1, 0, 1), (1, 0))
    assert open_trace(at, "x", 8).arrivals is None


@pytest.mark.parametrize(
    ("pod", "files", "problem"),
    [
        ("a,1,1,1,460,,30,10", {}, "line 2: a ended at 10 s, before it came at 30 s"),
        ("a,1,1,1,460,,,10", {}, "line 2: it has no creation_time"),
        ("a,1,1,0,0,,1,2", {"arrivals_x_7": "0\n1\n"}, "line 2: '1' is no row of a list of 1"),
        ("a,1,1,0,0,,1,2", {"arrivals_x_7": "-1\n"}, "'-1' is no row"),
        ("a,1,1,0,0,,1,2", {"node_rank_x_7": "n0 x\n"}, "'n0 x' is not a node and its place"),
        ("a,1,1,0,0,,1,2", {"node_rank_x_7": "n0 1\n"}, "it has no place for node n1"),
    ],
)
def test_alibabas_trace_is_refused_with_what_is_wrong(
    tmp_path: Path, pod: str, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(TraceInvalid, match=problem):
        open_trace(openb(tmp_path, f"{pod}\n", **files), None, 7)


VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "1", "-1", "1.5", "1e400", "nan", "9" * 5000, "T4", "T4|A10", " ", '"']
    ),
    st.text(max_size=8),
)


@settings(max_examples=30)
@given(st.lists(st.lists(VALUES, max_size=9), max_size=6), st.booleans())
def test_whatever_stands_in_a_trace_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], lenient: bool
) -> None:
    at = tmp_path_factory.getbasetemp() / "anything"
    at.mkdir(exist_ok=True)
    text = "\n".join(",".join(line) for line in lines).encode("utf-8", "surrogatepass")
    for nodes, jobs in (
        (NODES.encode(), JOBS.encode() + text),
        (NODES.encode() + text, b"name,gpus\n"),
    ):
        (at / "nodes.csv").write_bytes(nodes)
        (at / "jobs.csv").write_bytes(jobs)
        try:
            trace = open_trace(at, None, 0, lenient=lenient)
        except (TraceInvalid, TraceMissing):
            continue
        with contextlib.suppress(InvalidValue):
            fill(trace, ReplaySettings(load_percent=50))


@settings(max_examples=30)
@given(st.one_of(st.binary(max_size=60), st.just(b"[" * 100_000), st.text().map(str.encode)))
def test_whatever_stands_in_jsonl_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    at = tmp_path_factory.getbasetemp() / "anything-else"
    at.mkdir(exist_ok=True)
    (at / "nodes.csv").write_text(NODES)
    (at / "jobs.jsonl").write_bytes(data)
    with contextlib.suppress(TraceInvalid):
        open_trace(at, None, 0)


def test_the_trace_that_comes_with_moiety_is_whole() -> None:
    trace = open_trace(None, None, 0)
    assert (len(trace.nodes), len(trace.jobs)) == (122, 816)
    assert trace.is_timed
    assert "Apache License 2.0" in (PACKAGED / "README.md").read_text()
