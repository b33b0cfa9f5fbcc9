from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.cli.main import main
from moiety.cli.sim import command
from moiety.model import errors
from moiety.policy.model.cluster import Choosing, Placing


def moiety(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
from moiety.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["sim", "run", "--load", "90"], 78, "pip install 'moiety[sim]'"),
        (["sim", "run", "--help"], 0, ""),
        (["sim", "run", "--load", "ninety"], 64, "ninety"),
    ],
)
def test_without_numpy_only_the_work_itself_is_refused(
    arguments: list[str], code: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY, *arguments], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_all_that_shares_gpus_works_without_numpy() -> None:
    modules = "moiety.agent.service moiety.cli.run moiety.cli.ps moiety.kube.webhook.server"
    source = "import sys; sys.modules['numpy'] = None; import " + ", ".join(modules.split())
    subprocess.run([sys.executable, "-c", source], check=True)


def test_the_names_of_rules_are_those_of_the_engine() -> None:
    assert set(command.RULES) == {rule.value for rule in Placing}
    assert set(command.CHOICES) == {choice.value for choice in Choosing}


def test_it_works_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = moiety(capsys, "run", "--load", "90")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "openb-tenth: 122 nodes, 626 GPUs"
    assert lines[1].split() == ["ARRIVED", "ALLOCATED", "FRAGMENTS"]
    assert [line.split()[0] for line in lines[2:-1]] == ["50", "70", "80", "90"]
    assert lines[-1].startswith("default: ")


def test_rules_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = moiety(
        capsys, "compare", "--placing", "spread", "--placing", "bin-pack", "--load", "60"
    )
    assert code == 0
    assert out.splitlines()[1].split() == ["ARRIVED", "SPREAD", "BIN-PACK"]


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = moiety(capsys, "run", "-o", "json", "--load", "20", "--seed", "4")
    result = json.loads(out)
    assert code == 0
    assert (result["placing"], result["seed"], result["nodes"]) == ("default", 4, 122)
    assert result["buckets"][20]["arrived_percent"] == 20
    code, out, _ = moiety(capsys, "run", "-o", "json", "--live", "--faster", "9000")
    assert json.loads(out)["live"]["queue_longest"] > 0


def test_tasks_come_and_go_at_their_times(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = moiety(capsys, "run", "--live")
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["RULE", "ALLOCATED", "WAIT"]


def test_lines_that_make_no_sense_are_refused_or_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu_milli,memory_mib,gpus\nn,1000,1000,4\n")
    bad = "".join(f"bad{at},-1\n" for at in range(7))
    (tmp_path / "jobs.csv").write_text(f"name,gpus\n{bad}ok,1\n")
    code, _, err = moiety(capsys, "run", str(tmp_path))
    assert code == errors.TraceInvalid.exit_code
    assert err.startswith("moiety: jobs.csv, line 2: gpus is negative: -1\n  try: --bad report")
    code, out, _ = moiety(capsys, "run", str(tmp_path), "--bad", "report")
    assert code == 0
    assert "jobs.csv, line 6: gpus is negative: -1\n... and 2 more lines\n" in out


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["/proc/nowhere"], 66, "it does not exist"),
        (["--faster", "2"], 64, "--faster is about recorded times"),
        (["--plot", "x.txt"], 64, "x.txt is no name of a plot"),
        (["--placing", "best"], 64, "'best' is not one of"),
        (["--seed", "-1"], 64, "-1 is not in the range"),
    ],
)
def test_what_cannot_be_done_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, word: str
) -> None:
    ended, _, err = moiety(capsys, "run", *arguments)
    assert ended == code
    assert word in err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["run", "--order", "las"], "--order is for a trace that is one file"),
        (["compare", "--restart", "30"], "--restart is for a trace that is one file"),
        (["capacity", "--queues", "q.csv"], "--queues is for a trace that is one file"),
        (["run", "jobs.csv", "--placing", "fgd"], "--placing is for a trace that is a folder"),
        (["compare", "jobs.csv", "--live"], "--live is for a trace that is a folder"),
        (["run", "jobs.csv", "--by-queue", "--order", "las"], "las knows nothing of queues"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{queue},1,0,60,{queue}\n" for queue in "ab")
    Path("jobs.csv").write_text(f"name,gpus,submitted_s,duration_s,queue\n{rows}")
    code, out, err = moiety(capsys, *typed)
    assert (code, out) == (64, "")
    assert said in err
