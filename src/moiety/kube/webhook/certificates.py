"""Certificates of the webhook's own making: an authority, and a certificate for its service. Pure.

Both are renewed when a third of their time is left. The previous authority stays trusted until it
ends, so that a copy that still serves with the old certificate is trusted.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 730
SERVER_DAYS: Final = 90
RENEW_AT: Final = 1 / 3
"""The part of its time that is left when a certificate is renewed."""
EARLIER: Final = dt.timedelta(hours=1)
"""A certificate is valid from this long before now, because clocks differ."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The authority, the server's certificate and its key, as PEM."""

    authority: bytes
    authority_key: bytes
    server: bytes
    server_key: bytes
    trusted: bytes
    """The authority, and the previous one while it is valid: the caBundle."""

    def data(self) -> dict[str, bytes]:
        """As a Secret holds it."""
        return {
            "ca.crt": self.authority,
            "ca.key": self.authority_key,
            "tls.crt": self.server,
            "tls.key": self.server_key,
            "bundle.crt": self.trusted,
        }


def of_data(data: dict[str, bytes]) -> Certificates | None:
    """The certificates in a Secret; None if one is missing or not readable."""
    try:
        found = Certificates(
            data["ca.crt"], data["ca.key"], data["tls.crt"], data["tls.key"], data["bundle.crt"]
        )
        server = x509.load_pem_x509_certificate(found.server)
        key = serialization.load_pem_private_key(found.server_key, None)
        authority = x509.load_pem_x509_certificate(found.authority)
        server.verify_directly_issued_by(authority)
        if server.public_key() != key.public_key():
            return None
    except Exception:
        return None
    return found


def make(hosts: tuple[str, ...], now: dt.datetime) -> Certificates:
    """New certificates, for a server of these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"moiety webhook authority {now:%Y-%m-%d}")
    authority = (
        _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _served(_pem(authority), _pem_key(key), _pem(authority), hosts, now)


def renewed(found: Certificates | None, hosts: tuple[str, ...], now: dt.datetime) -> Certificates:
    """The same if they are valid long enough and for these names; else new ones."""
    if found is None:
        return make(hosts, now)
    authority = x509.load_pem_x509_certificate(found.authority)
    if _is_due(authority, now):
        new = make(hosts, now)
        still = authority.not_valid_after_utc > now
        trusted = new.authority + (found.authority if still else b"")
        return Certificates(new.authority, new.authority_key, new.server, new.server_key, trusted)
    server = x509.load_pem_x509_certificate(found.server)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if _is_due(server, now) or set(names.get_values_for_type(x509.DNSName)) != set(hosts):
        return _served(found.authority, found.authority_key, found.trusted, hosts, now)
    return found


def ends(found: Certificates) -> dt.datetime:
    """When the server's certificate ends."""
    return x509.load_pem_x509_certificate(found.server).not_valid_after_utc


def _served(
    authority: bytes, key: bytes, trusted: bytes, hosts: tuple[str, ...], now: dt.datetime
) -> Certificates:
    issuer: Any = serialization.load_pem_private_key(key, None)
    signed_by = x509.load_pem_x509_certificate(authority)
    own = ec.generate_private_key(ec.SECP256R1())
    server = (
        _builder(_name(hosts[0][:64]), signed_by.subject, own.public_key(), now, SERVER_DAYS)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_authority_key(issuer.public_key()), critical=False)
        .sign(issuer, hashes.SHA256())
    )
    return Certificates(authority, key, _pem(server), _pem_key(own), trusted)


def _is_due(found: x509.Certificate, now: dt.datetime) -> bool:
    whole = found.not_valid_after_utc - found.not_valid_before_utc
    return found.not_valid_after_utc - now < whole * RENEW_AT


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Any, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _authority_key(key: Any) -> x509.AuthorityKeyIdentifier:
    """Names the key that signs: clients that verify strictly, as Python 3.13 does, demand it."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(found: x509.Certificate) -> bytes:
    return found.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
