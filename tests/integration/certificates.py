"""Certificates for tests: an authority that nobody knows, and what it has signed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@frozen
class Signed:
    """Where a key and its certificate are."""

    key: Path
    certificate: Path


class Authority:
    """Signs; its own certificate is C{authority.pem} in the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("an authority of the tests")
        certificate = self._certify(self._name, self._key, [], is_authority=True)
        self.certificate = directory / "authority.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *domains: str) -> Signed:
        """A key and a certificate for these domains."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certify(_name(name), key, domains, is_authority=False)
        signed = Signed(self._directory / f"{name}.key", self._directory / f"{name}.pem")
        signed.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        signed.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return signed

    def _certify(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, domains: Sequence[str], is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if domains:
            names = x509.SubjectAlternativeName([x509.DNSName(each) for each in domains])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
