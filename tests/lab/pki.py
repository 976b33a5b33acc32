# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's own certificate authority, certificates, service account key and kubeconfigs."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = datetime.timedelta(days=30)
# Certificates begin in the past, so that one that has expired can still have begun after its authority.
BACKDATED = datetime.timedelta(days=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")  # loopback, and the first address of the service range


class KeyPair(NamedTuple):
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Give a private key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Give the public half of a private key as PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a P-256 key: as good for TLS and token signatures as RSA and made in no time."""
    return ec.generate_private_key(ec.SECP256R1())


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read a private key that ``private_pem`` wrote."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"not a key on an elliptic curve: {type(key).__name__}")
    return key


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, digital_signature: bool, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


class Authority:
    """A certificate authority that lives as long as its control plane.

    ``pair``: the authority that another process of the same lab made, under the same name.
    """

    def __init__(self, common_name: str = "rdma-fabric-lab", pair: KeyPair | None = None) -> None:
        self._name = _subject(common_name)
        if pair is None:
            self._key = new_key()
            self.pair = self._self_signed()
        else:
            self._key = read_key(pair.key)
            self.pair = pair

    def _self_signed(self) -> KeyPair:
        now = datetime.datetime.now(datetime.timezone.utc)
        public_key = self._key.public_key()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * BACKDATED)
            .not_valid_after(now + VALIDITY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            # Python 3.13 and newer refuse an authority without key usage.
            .add_extension(_key_usage(digital_signature=False, sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(self._key))

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        not_after: datetime.datetime,
        names: Sequence[x509.GeneralName] = (),
    ) -> KeyPair:
        key = new_key()
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(digital_signature=True, sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def server(self, addresses: Sequence[str] = ()) -> KeyPair:
        """Issue the serving certificate of every program of the control plane.

        It holds the names of loopback and of in-cluster clients, and ``addresses``.
        """
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in (*SERVER_ADDRESSES, *addresses)]
        not_after = datetime.datetime.now(datetime.timezone.utc) + VALIDITY
        return self._issue(_subject("rdma-fabric-lab-server"), ExtendedKeyUsageOID.SERVER_AUTH, not_after, names)

    def client(self, user: str, groups: Sequence[str] = (), *, expired: bool = False) -> KeyPair:
        """Issue the certificate of a Kubernetes user (CN) in ``groups`` (O); ``expired``: it ended an hour ago."""
        life = -datetime.timedelta(hours=1) if expired else VALIDITY
        not_after = datetime.datetime.now(datetime.timezone.utc) + life
        return self._issue(_subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, not_after)


def kubeconfig(server: str, authority: bytes, client: KeyPair, namespace: str = "default") -> dict[str, Any]:
    """Give a kubeconfig document that holds its certificates, so that the file works wherever it is copied."""

    def encoded(pem: bytes) -> str:
        return base64.b64encode(pem).decode("ascii")

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": encoded(authority)}}],
        "users": [
            {
                "name": "lab",
                "user": {
                    "client-certificate-data": encoded(client.certificate),
                    "client-key-data": encoded(client.key),
                },
            }
        ],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab", "namespace": namespace}}],
        "current-context": "lab",
    }


def write_private(path: Path, content: bytes) -> Path:
    """Write a file that only its owner can read, replacing it at once."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    return temporary.replace(path)


def write_kubeconfig(path: Path, document: dict[str, Any]) -> Path:
    """Write a kubeconfig as JSON, which is YAML as well."""
    return write_private(path, json.dumps(document, indent=1).encode())
