"""Certificates of an authority of a test, and connections in memory that are verified with them."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def new_key() -> Key:
    """A private key."""
    return ec.generate_private_key(ec.SECP256R1())


def name_of(text: str) -> x509.Name:
    """A common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Authority:
    """Signs certificates."""

    name: str = "authority"
    is_plain: bool = False
    """Its certificates have no identifiers of keys, as those of older tools."""
    key: Key = field(default_factory=new_key)

    @property
    def pem(self) -> str:
        """Its own certificate."""
        return self._signed(self.name, self.key, is_authority=True)

    def issued(self, name: str) -> tuple[str, str]:
        """A certificate for a server or client of this name, and its key."""
        key = new_key()
        return self._signed(name, key, is_authority=False), pem_of(key)

    def _signed(self, name: str, key: Key, *, is_authority: bool) -> str:
        now = dt.datetime.now(dt.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name_of(name))
            .issuer_name(name_of(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        if not self.is_plain:
            own, by = key.public_key(), self.key.public_key()
            usage = x509.KeyUsage(
                digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority,
                content_commitment=False, key_encipherment=False, data_encipherment=False,
                key_agreement=False, encipher_only=False, decipher_only=False,
            )  # fmt: skip
            made = (
                made.add_extension(usage, critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(by), critical=False
                )
            )
        signed = made.sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def pem_of(key: Key) -> str:
    """A key as text."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def server_with(certificate: str, key: str, folder: Path) -> ssl.SSLContext:
    """What a server with this certificate takes connections with."""
    file = folder / "server.pem"
    file.write_text(certificate + key)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(file)
    return found


def strict(cadata: str | None = None, cafile: str | None = None) -> ssl.SSLContext:
    """Trusts an authority, and verifies as Python does by default since 3.13."""
    found = ssl.create_default_context(cadata=cadata, cafile=cafile)
    found.verify_flags |= ssl.VERIFY_X509_STRICT
    return found


def connect(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Connect both in memory; raises SSLCertVerificationError if the client refuses the server."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
