"""What an agent can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from moiety.agent.control import saved_settings
from moiety.agent.control.client import arguments_from_environment
from moiety.agent.control.options import FLAGS, Options, changed_settings, parse
from moiety.agent.system.paths import Directory
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.config.files import File
from moiety.config.load import Config
from moiety.config.places import Kind
from moiety.enforcement.policy import Policy
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
        overdue=OverduePolicy.KILL,
    )


def test_every_flag_names_a_field() -> None:
    for flag in FLAGS:
        owner: Any = Settings if flag.of_arbiter else Options
        owner = Policy if flag.section == "watch" else owner
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
        (["--memory-overcommit", "0.5"], "from 1"),
        (["--memory-overcommit", "1e300"], "to 100"),
        (["--memory-when-full", "maybe"], "wait, kill"),
        (["--what"], "does not know '--what'"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(arguments: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(arguments)


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("revoke_deadline_s", "0", "'0' is too short for an answer: 10 ms are the least"),
        ("revoke_deadline_s", "9ms", "is too short for an answer"),
        ("idle_min_s", "0", "is no time at all"),
        ("idle_free_s", "0s", "is no time at all"),
    ],
)
def test_a_time_in_which_no_program_can_answer_is_refused(field: str, text: str, says: str) -> None:
    flag = next(str(flag.flag) for flag in FLAGS if flag.field == field)
    with pytest.raises(ValueError, match=says):
        parse([flag, text])
    with pytest.raises(ValueError, match=says):
        changed_settings(Settings(arena_bytes=0), {field: text})


def test_the_shortest_deadline_is_one() -> None:
    assert parse(["--revoke-deadline", "10ms"]).arbiter_settings().revoke_deadline_s == 0.01


def test_arguments_of_the_environment_are_split_as_a_shell_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOIETY_AGENT_ARGS", "--turn-min '50 ms' --arena 1GiB")
    assert arguments_from_environment() == ["--turn-min", "50 ms", "--arena", "1GiB"]
    monkeypatch.setenv("MOIETY_AGENT_ARGS", "'")
    with pytest.raises(BadArgument, match="MOIETY_AGENT_ARGS"):
        arguments_from_environment()


def test_defaults_in_the_table_are_those_of_the_code() -> None:
    standing = parse([], Config({}, {}, ())).arbiter_settings()
    for flag in FLAGS:
        owner: object = standing if flag.of_arbiter else Options()
        if flag.section == "watch":
            owner = Policy()
        told = None if flag.default is None else flag.parse(flag.default)
        assert told == getattr(owner, flag.field), flag.name


def test_files_and_environment_count_where_the_command_line_is_silent() -> None:
    table = {"turn-min": "1s", "linger": "1s", "quantum": "1s", "idle-exit": "1s"}
    config = Config(
        {"MOIETY_AGENT_LINGER": "2s", "MOIETY_AGENT_QUANTUM": "2s"},
        {},
        [File(Path("/f"), Kind.SYSTEM, {"agent": table}, {})],
    )
    options = parse(["--quantum", "3s"], config)
    assert (options.idle_exit_s, options.linger_s) == (1, 2)
    assert options.settings == {"turn_min_s": 1, "quantum_s": 3}
    assert options.filed == {"turn_min_s", "idle_exit_s"}


def test_what_was_set_live_counts_for_more_than_an_older_file(tmp_path: Path) -> None:
    directory = Directory(tmp_path)

    def options(turn_min: str, *flags: str) -> Options:
        file = File(Path("/f"), Kind.SYSTEM, {"agent": {"turn-min": turn_min}}, {})
        return parse(flags, Config({}, {}, [file]))

    was_set = saved_settings.SavedSettings({"turn_min_s": "9s"})
    for ends in (False, True):
        saved_settings.write(directory, was_set, options("1s"), ends=ends)
        assert saved_settings.read(directory, options("1s"), None).settings == {"turn_min_s": "9s"}
        assert saved_settings.read(directory, options("2s"), None).settings == {}
        assert saved_settings.look(directory, options("1s").settings) == {"turn_min_s": "9s"}
        assert saved_settings.look(directory, options("2s").settings) == {}
        assert (
            saved_settings.read(directory, options("1s", "--turn-min", "3s"), None).settings == {}
        )
    saved_settings.write(directory, was_set, options("1s", "--turn-min", "3s"), ends=False)
    assert saved_settings.read(directory, options("1s", "--turn-min", "3s"), None).settings != {}
    saved_settings.write(directory, was_set, options("1s", "--turn-min", "3s"), ends=True)
    assert saved_settings.read(directory, options("1s", "--turn-min", "3s"), None).settings == {}
    directory.settings.write_text("{")
    assert saved_settings.look(directory, {}) == {}
    assert directory.settings.exists(), "who only looks sets nothing aside"


def test_a_setting_that_another_version_took_does_not_cost_the_others(tmp_path: Path) -> None:
    directory, log = Directory(tmp_path), CapturingLogger()
    was_set = {"turn_min_s": "9s", "revoke_deadline_s": "0", "of_another_version": "1"}
    kept = saved_settings.SavedSettings(was_set, drained=["GPU-1"])
    saved_settings.write(directory, kept, Options())
    found = saved_settings.read(directory, Options(), log)
    assert (found.settings, found.drained) == ({"turn_min_s": "9s"}, ["GPU-1"])
    told = [(call.method_name, call.args, call.kwargs["field"]) for call in log.calls]
    assert told == [
        ("warning", ("setting_refused",), "revoke_deadline_s"),
        ("warning", ("setting_refused",), "of_another_version"),
    ]
    assert directory.settings.exists()


@pytest.mark.parametrize("content", ["", "{", '{"settings": 5}', '{"unknown": 1}'])
def test_settings_that_make_no_sense_are_set_aside(tmp_path: Path, content: str) -> None:
    directory, log = Directory(tmp_path), CapturingLogger()
    directory.settings.write_text(content)
    assert saved_settings.read(directory, Options(), log) == saved_settings.SavedSettings()
    assert [call.args for call in log.calls] == [("settings_invalid",)]
    assert Path(f"{directory.settings}.damaged").read_text() == content
