"""How Slurm's programs end."""

from __future__ import annotations

import pytest

from moiety.slurm.programs import main


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("sbatch --foo job.sh", 255),
        ("sbatch nosuch.sh", 1),
        ("srun --foo true", 255),
        ("squeue --foo", 1),
        ("sinfo --foo", 1),
        ("scancel --foo", 1),
    ],
)
def test_an_option_that_makes_no_sense_has_slurms_exit_code(
    words: str, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    name, *arguments = words.split()
    with pytest.raises(SystemExit) as ended:
        main(name, arguments)
    assert ended.value.code == code, capsys.readouterr().err
