# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates and kubeconfigs of the lab, judged by a real TLS handshake where one can judge them."""

from __future__ import annotations

import base64
import datetime
import http.client
import http.server
import json
import ssl
import threading
from pathlib import Path
from typing import Iterator

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ansible_collections.rdma.fabric.tests.lab import pki
from ansible_collections.rdma.fabric.tests.lab.api import Api, ApiError, collection_path, decode, tls_context


@pytest.fixture(scope="module")
def authority() -> pki.Authority:
    return pki.Authority()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate = x509.load_der_x509_certificate(self.connection.getpeercert(binary_form=True) or b"")
        (user,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        status = 404 if self.path == "/missing" else 200
        content = json.dumps({"user": user.value, "message": "no such thing"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        if self.path == "/and-close":  # without saying so, as a server does with an idle connection
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden parameter
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Refused clients are what some tests are about."""


@pytest.fixture(scope="module")
def server(authority: pki.Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    pair = authority.server()
    (directory / "pair.pem").write_bytes(pair.certificate + pair.key)
    (directory / "ca.pem").write_bytes(authority.pair.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(directory / "pair.pem")
    listening = QuietServer(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_client_is_known_by_its_name(authority: pki.Authority, server: str) -> None:
    api = Api(server, authority.pair.certificate, authority.client("somebody", ["a", "b"]))
    assert api.call("GET", "/x")["user"] == "somebody"
    with pytest.raises(ApiError, match="GET /missing: 404 no such thing") as refusal:
        api.call("GET", "/missing")
    assert refusal.value.answer.status == 404
    api.close()


def test_connection_closed_by_the_server_is_made_anew(authority: pki.Authority, server: str) -> None:
    api = Api(server, authority.pair.certificate, authority.client("somebody"))
    assert api.request("GET", "/and-close").status == 200
    assert api.request("GET", "/x").status == 200
    api.close()


def test_strangers_are_refused_both_ways(authority: pki.Authority, server: str) -> None:
    stranger = pki.Authority()
    with pytest.raises(ssl.SSLCertVerificationError):
        Api(server, stranger.pair.certificate, authority.client("somebody")).request("GET", "/x")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        Api(server, authority.pair.certificate, stranger.client("somebody")).request("GET", "/x")


def test_expired_client_is_refused(authority: pki.Authority, server: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        Api(server, authority.pair.certificate, authority.client("late", expired=True)).request("GET", "/x")


def test_expired_certificate_had_been_valid(authority: pki.Authority) -> None:
    expired = x509.load_pem_x509_certificate(authority.client("late", expired=True).certificate)
    root = x509.load_pem_x509_certificate(authority.pair.certificate)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert root.not_valid_before_utc < expired.not_valid_before_utc < expired.not_valid_after_utc < now
    assert root.not_valid_after_utc > now


def test_groups_are_organizations(authority: pki.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.client("u", ["system:masters", "x"]).certificate)
    groups = [item.value for item in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert groups == ["system:masters", "x"]


def test_authority_says_what_its_key_is_for(authority: pki.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.pair.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_server_serves_loopback_and_the_cluster(authority: pki.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.server().certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {str(ip) for ip in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "10.96.0.1"}


def test_server_serves_the_addresses_that_are_asked_for(authority: pki.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.server(["192.168.77.254"]).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {"127.0.0.1", "10.96.0.1", "192.168.77.254"} == addresses


def test_an_authority_is_carried_on_by_another_process(authority: pki.Authority, server: str) -> None:
    heir = pki.Authority(pair=authority.pair)
    assert heir.pair == authority.pair
    assert Api(server, authority.pair.certificate, heir.client("heir")).call("GET", "/")["user"] == "heir"
    with pytest.raises(ValueError, match="PEM"):
        pki.Authority(pair=pki.KeyPair(authority.pair.certificate, b"-----BEGIN PRIVATE KEY-----\n"))


def test_kubeconfig_holds_all_it_needs(authority: pki.Authority, server: str, tmp_path: Path) -> None:
    client = authority.client("somebody")
    document = pki.kubeconfig(server, authority.pair.certificate, client, "rail")
    path = pki.write_kubeconfig(tmp_path / "config", document)
    assert path.stat().st_mode & 0o777 == 0o600
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == client.key
    assert document["contexts"][0]["context"] == {"cluster": "lab", "user": "lab", "namespace": "rail"}
    assert document["current-context"] == "lab"
    api = Api.from_kubeconfig(path)
    assert api.call("GET", "/x")["user"] == "somebody"
    api.close()


def test_private_file_is_replaced_whole_and_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    pki.write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_context_trusts_nobody_else(authority: pki.Authority) -> None:
    context = tls_context(authority.pair.certificate, authority.client("u"))
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_server_url_needs_a_port(authority: pki.Authority) -> None:
    with pytest.raises(ValueError, match="not a server URL with a port: https"):
        Api("https://127.0.0.1", authority.pair.certificate, authority.client("u"))


def test_paths_of_collections() -> None:
    assert collection_path("v1", "nodes") == "/api/v1/nodes"
    assert collection_path("apps/v1", "daemonsets", "ns") == "/apis/apps/v1/namespaces/ns/daemonsets"
    assert collection_path("v1", "pods", "a/b c") == "/api/v1/namespaces/a%2Fb%20c/pods"


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b"", {}),
        (b"ok", {"message": "ok"}),
        (b"[1]", {"message": [1]}),
        (b"\xff", {"message": "\ufffd"}),
    ],
)
def test_answers_are_decoded(content: bytes, body: dict[str, object]) -> None:
    assert decode(content) == body
