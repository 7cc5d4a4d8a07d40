"""A certificate authority for one run.

Its key never leaves this process's memory: only a leaf's key goes into the container that answers at a vendor's
address. It can vouch for the pinned names alone (critical name constraints), so that a trust store it is left in by
mistake gains nothing else, and it ends within days. Elliptic keys: an RSA pair would cost 100 ms of each run.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LIFE = dt.timedelta(days=4)
SKEW = dt.timedelta(days=1)
"""The engine's host may run on another clock."""

NAME = "Assay, one run"


@dataclass(frozen=True, slots=True)
class Trust:
    """What a stand-in serves with, and what its client must trust. All are PEM."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes


def issue(hosts: Sequence[str]) -> Trust:
    """A new authority limited to `hosts`, and one certificate for all of them."""
    authority = Authority(hosts)
    return Trust(authority.pem, *authority.leaf(hosts))


class Authority:
    """A new authority that can vouch for `hosts` alone.

    Attributes:
        pem: What a client must trust.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        no_addresses = [x509.IPAddress(ipaddress.ip_network(net)) for net in ("0.0.0.0/0", "::/0")]
        only = x509.NameConstraints([x509.DNSName(host) for host in hosts], no_addresses)
        signs = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        ca = _begun(NAME, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        ca = ca.add_extension(signs, critical=True).add_extension(only, critical=True)
        self.pem = ca.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def leaf(self, hosts: Sequence[str]) -> tuple[bytes, bytes]:
        """One certificate for all of these hosts, and its key."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        leaf = _begun(hosts[0], key).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        leaf = leaf.add_extension(issuer, critical=False)
        return (
            leaf.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _begun(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(NAME))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - SKEW).not_valid_after(now + LIFE)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
