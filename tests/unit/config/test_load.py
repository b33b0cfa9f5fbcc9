"""Which of several places counts, and what is said about what makes no sense."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.arbiter.settings import OverduePolicy, WhenFull
from moiety.config.files import File, read, read_all
from moiety.config.load import Config, Source, load, problems
from moiety.config.places import Kind, is_any_there, places
from moiety.config.setting import Setting
from moiety.config.table import OF_THE_SYSTEM, SECTIONS, SETTINGS, RunSettings, of_section
from moiety.config.values import OVERDUE, WHEN_FULL, parse_factor
from moiety.model.errors import BadConfigFile, BadSetting, InvalidDuration
from moiety.model.share import Mode

TURN_MIN = next(s for s in SETTINGS if s.name == "agent.turn-min")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Kind], File]:
    def write(text: str, kind: Kind = Kind.NAMED) -> File:
        path = tmp_path / f"{kind}.toml"
        path.write_text(text)
        found = read(path, kind)
        assert found
        return found

    return write


def test_no_file_is_looked_into_unless_one_is_there(tmp_path: Path) -> None:
    nowhere = {"XDG_CONFIG_HOME": str(tmp_path), "MOIETY_CONFIG": ""}
    assert not is_any_there(nowhere)
    assert is_any_there(nowhere | {"MOIETY_CONFIG": "/it/is/not/there"}), "else nobody says so"
    del nowhere["MOIETY_CONFIG"]
    (tmp_path / "moiety").mkdir()
    (tmp_path / "moiety" / "config.toml").touch()
    assert is_any_there(nowhere)


@given(said=st.sets(st.sampled_from([s for s in Source if s is not Source.DEFAULT])))
def test_what_stands_nearest_to_the_user_counts(said: set[Source]) -> None:
    texts = {source: f"{i}s" for i, source in enumerate(Source, start=1)}

    def file(kind: Kind, source: Source) -> File:
        tables = {"agent": {"turn-min": texts[source]}} if source in said else {}
        return File(Path(f"/{kind}"), kind, tables, {})

    config = Config(
        {"MOIETY_AGENT_TURN_MIN": texts[Source.ENVIRONMENT]} if Source.ENVIRONMENT in said else {},
        {"agent.turn-min": texts[Source.FLAG]} if Source.FLAG in said else {},
        (file(Kind.USER, Source.USER), file(Kind.SYSTEM, Source.SYSTEM)),
    )
    found = config.value(TURN_MIN)
    expected = next((s for s in Source if s in said), Source.DEFAULT)
    assert found.source is expected
    assert found.text == (texts[expected] if said else TURN_MIN.default)


def test_a_value_knows_its_line(written: Callable[..., File]) -> None:
    file = written(
        '# ours\n[agent]\nidle-exit = 60\nturn-min = "50ms"  # short\n\n[users.alice]\ngpu = 0.5\n'
        '["groups"."x"]\npriority = """\n[run]\n"""\n'
    )
    value = load({}, files=[file]).value(TURN_MIN)
    assert (value.value, value.where) == (0.05, f"{file.path}:4")
    assert file.lines["users.alice.gpu"] == 7
    assert file.where("users.alice.memory") == f"{file.path}:6"
    assert file.where("elsewhere") == str(file.path)


def test_every_kind_of_toml_value_is_read_as_it_would_be_typed(
    written: Callable[..., File],
) -> None:
    file = written(
        "[agent]\ngpus = [2, 0]\nidle-exit = 0\nturn-factor = 4.5\n"
        '[run]\nlatency = true\ngpu = "50%"'
    )
    config = load({}, files=[file])
    agent, run = config.section("agent"), config.section("run")
    assert (agent["gpus"].value, agent["gpus"].text) == ((0, 2), "2,0")
    assert (agent["idle_exit_s"].value, agent["turn_factor"].value) == (0, 4.5)
    assert (run["latency"].value, run["gpu"].value) == (True, 0.5)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("[agnet]\n", r":1: \[agnet\]: there is no such section", "agent"),
        ("[nothing]\n", "no such section", "agent, cli, defaults"),
        ("[agent]\nturn_min = 1", ":2: agent.turn_min: there is no such setting", "turn-min"),
        ("[agent]\nxyzzy = 1", "no such setting", "capacity, arena"),
        ("agent = 5", ":1: agent: is a section", "[agent]"),
        ("[users]\nalice = 5", ":2: users.alice: is a section", "[users.NAME]"),
        ("gpu = 0.5", ":1: gpu: stands in no section", "[run]"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_is_meant(
    written: Callable[..., File], text: str, says: str, hint: str
) -> None:
    file = written(text)
    with pytest.raises(BadSetting, match=says) as refused:
        load({}, files=[file])
    assert hint in refused.value.hint
    assert [problem.what for problem in problems(file)] == [refused.value.what]


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('[agent]\nturn-min = "soon"', "'soon' is not a duration", "50ms, 1.5s"),
        ("[agent]\nturn-min = true", "'true' is not a duration", ""),
        ("[agent]\nturn-min = 2026-01-01", "is no date", "turn-min = a string"),
        ('[agent]\noverdue = "shout"', "is none of report, fence, kill", "WHAT"),
        ('[run]\npriority = "urgent"', "'urgent'", "low"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_can(
    written: Callable[..., File], text: str, says: str, hint: str
) -> None:
    file = written(text)
    config = load({}, files=[file])  # who needs another section is not held up
    with pytest.raises(BadSetting, match=says) as refused:
        config.section(text[1 : text.index("]")])
    assert refused.value.what.startswith(f"{file.path}:2: ")
    assert hint in refused.value.hint
    assert [problem.what for problem in problems(file)] == [refused.value.what]


def test_a_check_finds_all_that_is_wrong(written: Callable[..., File]) -> None:
    file = written('[agent]\nturn-min = "soon"\nwhat = 1\n[rnu]\n[run]\nmode = "?"')
    lines = sorted(problem.what.split(":")[1] for problem in problems(file))
    assert lines == ["2", "3", "4", "6"]


def test_a_section_is_an_object_of_its_class(written: Callable[..., File]) -> None:
    file = written('[run]\ngpu = "50%"\nmemory = "1GiB"\n')
    told = load({"MOIETY_RUN_LATENCY": "yes"}, files=[file]).all_of(RunSettings)
    assert (told.gpu, told.memory, told.latency) == (0.5, 1 << 30, True)
    assert (told.quantum, told.mode, told.say) == (None, Mode.SWAP, "auto")


def test_a_variable_is_named_where_its_value_cannot_be() -> None:
    with pytest.raises(BadSetting, match=r"^MOIETY_AGENT_TURN_MIN: 'soon'"):
        load({"MOIETY_AGENT_TURN_MIN": "soon"}, files=[]).value(TURN_MIN)


def test_a_flag_is_refused_as_its_parser_does() -> None:
    with pytest.raises(InvalidDuration):
        load({}, {"agent.turn-min": "soon"}, files=[]).value(TURN_MIN)


@pytest.mark.parametrize("head", ["defaults", "users.alice", "groups.staff"])
def test_limits_of_users_are_not_theirs_to_write(written: Callable[..., File], head: str) -> None:
    text = f"[{head}]\ngpu = 0.5\n"
    with pytest.raises(BadSetting, match="system's file only"):
        load({}, files=[written(text, Kind.USER)])
    load({}, files=[written(text, Kind.SYSTEM), written(text, Kind.NAMED)])


def test_named_sections_come_by_name(
    written: Callable[..., File], monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = Setting("users.*", "weight", "weight", parse_factor, "N", "a weight")
    monkeypatch.setattr("moiety.config.load.of_section", lambda _: [factor])
    file = written("[users.alice]\nweight = 2\n[users.bob]\n")
    found = load({}, files=[file]).named("users")
    assert found["bob"] == {}
    weight = found["alice"]["weight"]
    assert (weight.value, weight.name, weight.where) == (2, "users.alice.weight", f"{file.path}:2")


def test_files_lie_where_the_xdg_specification_says(tmp_path: Path) -> None:
    system = (Path("/etc/moiety/config.toml"), Kind.SYSTEM)
    user = tmp_path / "moiety/config.toml"
    assert places({"XDG_CONFIG_HOME": str(tmp_path)}) == [(user, Kind.USER), system]
    home = Path("~/.config/moiety/config.toml").expanduser()
    for ignored in ({}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "relative"}):
        assert places(ignored) == [(home, Kind.USER), system]
    assert places({"MOIETY_CONFIG": ""}) == []
    assert places({"MOIETY_CONFIG": str(user)}) == [(user, Kind.NAMED)]


def test_a_file_that_is_not_there_says_nothing_unless_it_was_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "no.toml")
    assert read(Path(missing), Kind.USER) is None
    with pytest.raises(BadConfigFile, match="not there"):
        read_all({"MOIETY_CONFIG": missing})
    assert read_all({"MOIETY_CONFIG": "/dev/null"})[0].tables == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[agent\n[run]", "it is not TOML: .*line 1"),
        (b"[agent]\nx = 1\n[agent]\n", "it is not TOML"),
        (b"\xff\xfe[agent]", "not UTF-8"),
        (b"#" * (2 << 20), "too large"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(BadConfigFile, match=says) as refused:
        read(path, Kind.USER)
    assert str(path) in refused.value.what


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfigFile, match="directory"):
        read(tmp_path, Kind.USER)


def test_a_pipe_is_read_to_its_end_and_one_without_a_writer_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = read(path, Kind.NAMED)
    assert found is not None
    assert found.tables == {}
    reader, writer = os.pipe()
    os.write(writer, b"[run]\n")
    os.close(writer)
    try:
        found = read(Path(f"/dev/fd/{reader}"), Kind.NAMED)
    finally:
        os.close(reader)
    assert found is not None
    assert found.tables == {"run": {}}


def test_names_are_used_once_and_every_default_can_be_read() -> None:
    for attribute in ("name", "variable"):
        used = [value for s in SETTINGS if (value := getattr(s, attribute)) is not None]
        assert len(used) == len(set(used))
    for section in SECTIONS:
        flags = [s.flag for s in of_section(section) if s.flag]
        fields = [s.field for s in of_section(section)]
        assert len(flags) == len(set(flags))
        assert len(fields) == len(set(fields))
    for setting in SETTINGS:
        assert setting.section == "" or setting.section in SECTIONS
        assert (setting.default is None) == bool(setting.unset), setting.name
        if setting.default is not None:
            setting.parse(setting.default)
    assert set(SECTIONS) >= OF_THE_SYSTEM


def test_the_words_of_overdue_are_those_of_the_arbiter() -> None:
    assert tuple(OverduePolicy) == OVERDUE
    assert tuple(WhenFull) == WHEN_FULL
    overdue = next(s for s in SETTINGS if s.name == "agent.overdue")
    assert [overdue.parse(word) for word in OVERDUE] == list(OverduePolicy)
    assert isinstance(overdue.parse("kill"), OverduePolicy)
