"""The run's own certificate authority."""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from assay.sandbox.trust import issue

HOSTS = ["api.example.com", "auth.example.org"]


def test_the_authority_vouches_for_the_pinned_names_only() -> None:
    ca = x509.load_pem_x509_certificate(issue(HOSTS).ca_pem)
    limits = ca.extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical
    assert [name.value for name in limits.value.permitted_subtrees or ()] == HOSTS
    assert [str(name.value) for name in limits.value.excluded_subtrees or ()] == ["0.0.0.0/0", "::/0"]
    basic = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)


def test_the_certificate_is_for_those_names_and_no_authority() -> None:
    trust = issue(HOSTS)
    ca, leaf = (x509.load_pem_x509_certificate(pem) for pem in (trust.ca_pem, trust.cert_pem))
    leaf.verify_directly_issued_by(ca)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == HOSTS
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_it_ends_within_days_and_begins_before_now() -> None:
    now = dt.datetime.now(dt.UTC)
    trust = issue(HOSTS)
    for pem in (trust.ca_pem, trust.cert_pem):
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.not_valid_before_utc < now - dt.timedelta(hours=12)
        assert now + dt.timedelta(days=2) < certificate.not_valid_after_utc < now + dt.timedelta(days=7)


def test_each_run_has_keys_of_its_own_and_only_the_leafs_is_given_out() -> None:
    one, other = issue(HOSTS), issue(HOSTS)
    assert one.key_pem != other.key_pem
    assert one.ca_pem != other.ca_pem
    assert one.key_pem.count(b"PRIVATE KEY") == 2
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(one.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    leaf, ca = (x509.load_pem_x509_certificate(pem).public_key() for pem in (one.cert_pem, one.ca_pem))
    assert key.public_key() == leaf
    assert key.public_key() != ca
