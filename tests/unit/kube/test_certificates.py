from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509

from moiety.kube import access
from moiety.kube.webhook import certificates
from moiety.kube.webhook.certificates import Certificates
from tests.support.certificates import Authority, connect, pem_of, server_with, strict

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOSTS = ("moiety-webhook.moiety-system.svc",)


def days(number: int) -> dt.datetime:
    return NOW + dt.timedelta(days=number)


def test_new_ones_survive_a_secret() -> None:
    made = certificates.make(HOSTS, NOW)
    assert certificates.of_data(made.data()) == made


def test_a_secret_that_holds_anything_else_is_not_believed() -> None:
    made, other = certificates.make(HOSTS, NOW), certificates.make(HOSTS, NOW)
    assert certificates.of_data({}) is None
    assert certificates.of_data(made.data() | {"tls.crt": b"banana"}) is None
    assert certificates.of_data(made.data() | {"tls.key": other.server_key}) is None
    assert certificates.of_data(made.data() | {"ca.crt": other.authority}) is None


def test_they_stay_while_they_hold_long_enough() -> None:
    made = certificates.make(HOSTS, NOW)
    assert certificates.renewed(made, HOSTS, days(59)) == made


def test_the_servers_is_renewed_under_the_same_authority() -> None:
    made = certificates.make(HOSTS, NOW)
    new = certificates.renewed(made, HOSTS, days(62))
    assert new.server != made.server
    assert (new.authority, new.trusted) == (made.authority, made.trusted)
    assert certificates.ends(new) == days(62 + 90)


def test_another_name_needs_another_certificate() -> None:
    made = certificates.make(HOSTS, NOW)
    assert certificates.renewed(made, ("other.svc",), NOW).server != made.server


def test_the_authority_is_renewed_and_the_one_before_trusted_until_it_ends() -> None:
    made = certificates.make(HOSTS, NOW)
    new = certificates.renewed(made, HOSTS, days(500))
    assert new.authority != made.authority
    assert made.authority in new.trusted
    assert new.authority in new.trusted
    late = certificates.renewed(made, HOSTS, days(800))
    assert late.trusted == late.authority


def test_a_certificate_is_for_its_names_only() -> None:
    made = certificates.make(HOSTS, NOW)
    found = x509.load_pem_x509_certificate(made.server)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(HOSTS)
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_client_that_verifies_strictly_accepts_the_server(tmp_path: Path) -> None:
    made = certificates.make(HOSTS, dt.datetime.now(dt.UTC))
    server = server_with(made.server.decode(), made.server_key.decode(), tmp_path)
    connect(strict(made.trusted.decode()), server, HOSTS[0])


def test_the_servers_is_renewed_under_an_authority_without_identifiers(tmp_path: Path) -> None:
    """Earlier versions made such authorities, and clusters have them for two years."""
    old = Authority(is_plain=True)
    authority, key = old.pem.encode(), pem_of(old.key).encode()
    shown, its_key = (text.encode() for text in old.issued("other.svc"))
    held = Certificates(authority, key, shown, its_key, authority)
    made = certificates.renewed(held, HOSTS, dt.datetime.now(dt.UTC) - dt.timedelta(hours=20))
    assert (made.authority, made.trusted) == (authority, authority)
    server = server_with(made.server.decode(), made.server_key.decode(), tmp_path)
    connect(access.default_trust(cadata=made.trusted.decode()), server, HOSTS[0])
