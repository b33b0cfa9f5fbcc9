"""What an agent can be told."""

from __future__ import annotations

import pytest

from moiety.agent.caller import arguments_from_environment
from moiety.agent.options import FLAGS, Options, parse
from moiety.arbiter.settings import Overdue, Settings
from moiety.model.errors import BadArgument


def test_nothing_said_means_the_defaults() -> None:
    options = parse([])
    assert options == Options()
    settings = options.arbiter_settings()
    assert settings.arena_bytes > 0
    assert settings == Settings(arena_bytes=settings.arena_bytes)


def test_every_knob_reaches_its_place() -> None:
    options = parse(
        [
            "--capacity",
            "8GiB",
            "--arena",
            "16GiB",
            "--gpus",
            "2,0",
            "--idle-exit",
            "0",
            "--linger",
            "1s",
            "--turn-min",
            "50ms",
            "--turn-factor",
            "4",
            "--idle-min",
            "5ms",
            "--idle-free",
            "2ms",
            "--link",
            "1GB",
            "--revoke-deadline",
            "3s",
            "--overdue",
            "kill",
            "--ready-fd",
            "9",
        ]
    )
    assert (options.capacity_bytes, options.gpus, options.ready_fd) == (8 << 30, (0, 2), 9)
    assert (options.idle_exit_s, options.linger_s) == (0, 1)
    assert options.arbiter_settings() == Settings(
        arena_bytes=16 << 30,
        turn_min_s=0.05,
        turn_factor=4,
        idle_min_s=0.005,
        idle_free_s=0.002,
        link_bytes_per_s=1e9,
        revoke_deadline_s=3,
        overdue=Overdue.KILL,
    )


def test_every_flag_names_a_field() -> None:
    for flag in FLAGS:
        owner = Settings if flag.of_arbiter else Options
        assert flag.field in owner.__dataclass_fields__


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--turn-min", "soon"], "--turn-min: 'soon'"),
        (["--turn-factor", "-1"], "--turn-factor"),
        (["--turn-factor", "nan"], "--turn-factor"),
        (["--gpus", "0,x"], "write 0,1"),
        (["--gpus", ""], "write 0,1"),
        (["--arena"], "--arena"),
        (["--capacity", "1MiB"], "2 MiB are the least"),
        (["--link", "0"], "no speed at all"),
        (["--what"], "does not know '--what'"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(arguments: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(arguments)


def test_arguments_of_the_environment_are_split_as_a_shell_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOIETY_AGENT_ARGS", "--turn-min '50 ms' --arena 1GiB")
    assert arguments_from_environment() == ["--turn-min", "50 ms", "--arena", "1GiB"]
    monkeypatch.setenv("MOIETY_AGENT_ARGS", "'")
    with pytest.raises(BadArgument, match="MOIETY_AGENT_ARGS"):
        arguments_from_environment()
