"""What is private goes; what a reader needs stays."""

from __future__ import annotations

import pytest

from moiety.cli.doctor.redact import GONE, Redactor

SECRET = "wJalrXUtnFEMI-K7MDENG"
ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "MY_PASSWORD": "hunter22",
    "SHORT_KEY": "abc",
    "EDITOR": "/usr/bin/vi",
    "MOIETY_DIR": "/home/alice/agent",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "LD_PRELOAD": "/opt/x.so",
}


def redactor() -> Redactor:
    return Redactor(
        ENVIRONMENT, home="/home/alice", people=["alice", "bob", "al"], host="gpu-7.lab"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"the log says {SECRET}!", f"the log says {GONE}!"),
        ("/home/alice/train.py", "~/train.py"),
        ("/home/alicent/x /home/bob/y", "/home/<user>/x /home/<user>/y"),
        ("/Users/carol/z", "/Users/<user>/z"),
        ("python (pid 3, alice, docker ab)", "python (pid 3, <user>, docker ab)"),
        ("alice-gpu malice", "alice-gpu malice"),
        ("an al is too short", "an al is too short"),
        ("on gpu-7.lab and gpu-7", "on <host> and <host>"),
        ("https://me:pw@host/path", f"https://{GONE}@host/path"),
        ("--api-key=abcd1234 --lr 3", f"--api-key={GONE} --lr 3"),
        ('{"token": "abcd efgh", "x": 1}', f'{{"token": {GONE}, "x": 1}}'),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: {GONE}"),
        ("ghp_0123456789abcdefghij", GONE),
        ("sk-proj-0123456789abcdef", GONE),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln", GONE),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", f"{GONE}\nx"),
        ('time=1 line="{\\"argv\\": [\\"a b\\"]}" who=x', f"time=1 line={GONE} who=x"),
        ("argv=secret who=x", f"argv={GONE} who=x"),
        ("12 GiB of GPU 0, 43 % busy (pid 17)", "12 GiB of GPU 0, 43 % busy (pid 17)"),
        ("tokens=5 keys", f"tokens={GONE} keys"),
        ("run --password hunter2 --lr 3", f"run --password {GONE} --lr 3"),
        ("--hf-token 'a b' x", f"--hf-token {GONE} x"),
        ("curl -u me:pw http://x", f"curl -u {GONE} http://x"),
        ("https://aToken123@host/x", f"https://{GONE}@host/x"),
        ("redis://:pw@h:1/0", f"redis://{GONE}@h:1/0"),
        ("postgres://me:p@ss:w@h/db", f"postgres://{GONE}@h/db"),
        ("https://x/y?sig=ab%2B&n=1", f"https://x/y?sig={GONE}&n=1"),
        ("AccountKey=ab+/==;Suffix=x", f"AccountKey={GONE};Suffix=x"),
        ("Set-Cookie: sid=31d4; a=b", f"Set-Cookie: {GONE}"),
        ("pwd=hunter2 passphrase: x", f"pwd={GONE} passphrase: {GONE}"),
        ("AKIAIOSFODNN7EXAMPLE", GONE),
        ("id wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", f"id {GONE}"),
        ("key 0123456789abcdef0123456789abcdef01234567", f"key {GONE}"),
        ("AIzaSyA-1234567890abcdefghij nvapi-0123456789abcd", f"{GONE} {GONE}"),
        ("carol@lab.example.org wrote", "<mail> wrote"),
        ("moiety@1000.service", "moiety@1000.service"),
        ("0 of 1 (user dave) (user root)", "0 of 1 (user <user>) (user root)"),
        ("users.dave.gpu users.*.gpu", "users.<user>.gpu users.*.gpu"),
        ("user:dave,command:Xorg", "user:<user>,command:Xorg"),
        ("GPU-2eb5cb60-89d9-48f6-9dde-247a6fd3ae64", "GPU-2eb5cb60-89d9-48f6-9dde-247a6fd3ae64"),
        ("signal=9 by design: no", "signal=9 by design: no"),
        ("/sys/fs/cgroup/user.slice/a1B/c.procs", "/sys/fs/cgroup/user.slice/a1B/c.procs"),
    ],
)  # fmt: skip
def test_text(text: str, told: str) -> None:
    assert redactor().text(text) == told


def test_documents_lose_command_lines_and_keep_their_form() -> None:
    value = {
        "argv": ["a", "b"],
        "rows": [{"pid": 1, "program": "train.py", "cwd": "/x"}],
        "n": None,
        "api_token": "abc",
    }
    assert redactor().value(value) == {
        "argv": GONE,
        "rows": [{"pid": 1, "program": "train.py", "cwd": GONE}],
        "n": None,
        "api_token": GONE,
    }


def test_hooks_of_chat_servers_go() -> None:
    hook = "https://hooks.slack" + ".com/services/"
    assert redactor().text(f"{hook}T0/B0/X said no") == f"{hook}{GONE} said no"


def test_homes_of_others_with_spaces_and_secrets_as_json_go() -> None:
    private = Redactor(
        {"DB_PASSWORD": 'six"chars'}, home="/root", homes=["/srv/jane doe"], people=[]
    )
    assert private.text("/srv/jane doe/x") == "~/x"
    assert private.text('"six\\"chars" six"chars') == f'"{GONE}" {GONE}'


def test_only_variables_of_a_list_are_told() -> None:
    assert redactor().environment(ENVIRONMENT) == [
        "CUDA_VISIBLE_DEVICES=0,1",
        "LD_PRELOAD=/opt/x.so",
        "MOIETY_DIR=~/agent",
        "# 4 others are not told",
    ]


def test_a_variable_of_ours_that_sounds_like_a_secret_is_not_told() -> None:
    found = redactor().environment({"MOIETY_API_TOKEN": "x", "MOIETY_QUIET": "1"})
    assert found == ["MOIETY_QUIET=1", "# 1 others are not told"]


def test_root_and_the_loopback_are_nobodys_name() -> None:
    plain = Redactor({}, home="/root", people=["root"], host="localhost")
    assert plain.text("root on localhost in /root/x") == "root on localhost in ~/x"
