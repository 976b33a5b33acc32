# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and certificates of a kubeconfig leave no file behind, however a run ends; plugins end in time."""

from __future__ import annotations

import base64
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Iterator

import pytest
from cryptography.hazmat.primitives import serialization

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api import credentials
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.tests.lab.pki import Authority, kubeconfig, write_private
from ansible_collections.rdma.fabric.tests.unit.processes import is_gone

AUTHORITY = Authority()

# Makes a connection from a kubeconfig, and ends as the argument says.
RUN = """
import os, signal, sys
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
Client({"kubeconfig": sys.argv[1]})
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "kill" else os._exit(0)
"""


class Caller(http.server.BaseHTTPRequestHandler):
    """Answers with the common name of the client's certificate; 401 to one whose name begins with ``expired``."""

    def do_GET(self) -> None:
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate: Any = self.connection.getpeercert()
        subject = dict(pair for group in certificate["subject"] for pair in group)
        body = json.dumps(subject).encode()
        self.send_response(401 if subject["commonName"].startswith("expired") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server that only takes clients of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = AUTHORITY.server()
    context.load_cert_chain(write_private(tmp_path / "server.pem", pair.certificate + pair.key))
    context.load_verify_locations(cadata=AUTHORITY.pair.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Caller) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of the process."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def document(address: str) -> dict[str, Any]:
    return kubeconfig(address, AUTHORITY.pair.certificate, AUTHORITY.client("somebody"))


def with_plugin(tmp_path: Path, address: str, script: str) -> dict[str, Any]:
    """Return a kubeconfig whose user has a credential plugin that runs a Python script."""
    path = tmp_path / "plugin.py"
    path.write_text(script, encoding="utf-8")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(path)]}
    found = document(address)
    found["users"][0]["user"] = {"exec": plugin}
    return found


@pytest.mark.parametrize("memory", [True, False], ids=["files in memory", "no files in memory"])
def test_a_connection_leaves_no_file_and_still_shows_its_certificate(
    address: str, folder: Path, memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    client = Client({"kubeconfig": document(address)})
    assert list(folder.iterdir()) == []
    assert json.loads(client.send("GET", "/x", None, None).body)["commonName"] == "somebody"
    assert list(folder.iterdir()) == []


def test_who_wants_no_check_of_certificates_is_not_warned_at_each_request(address: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Client({"kubeconfig": document(address), "verify_ssl": False}).send("GET", "/x", None, None)
    assert said == []


def test_a_kubeconfig_that_fails_half_way_leaves_no_file(folder: Path) -> None:
    broken = document("https://127.0.0.1:9")
    broken["users"][0]["user"]["client-certificate-data"] = "bm8gY2VydGlmaWNhdGU="
    with pytest.raises(ApiFault) as refused:
        Client({"kubeconfig": broken})
    assert refused.value.fault is Fault.CONFIGURATION
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("end", ["worker", "kill"])
def test_a_process_that_runs_no_exit_handlers_leaves_no_file(folder: Path, tmp_path: Path, end: str) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(document("https://127.0.0.1:9")), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", RUN, str(path), end], env=environment, check=False)
    assert done.returncode == {"worker": 0, "kill": -9}[end]
    assert list(folder.iterdir()) == []


def test_a_stream_has_the_certificate_too_and_checks_the_servers_name(folder: Path, address: str) -> None:
    context = Client({"kubeconfig": document(address)}).stream_options()["sslopt"]["context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    place = ("127.0.0.1", int(address.rpartition(":")[2]))
    with socket.create_connection(place) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as stream:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: stream.recv(4096), b""))
    assert b"somebody" in answer


def test_an_encrypted_key_is_refused_and_asks_nobody(folder: Path, address: str) -> None:
    found = document(address)
    pair = AUTHORITY.client("somebody")
    key = serialization.load_pem_private_key(pair.key, password=None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    for name, pem in (("client-certificate-data", pair.certificate), ("client-key-data", encrypted)):
        found["users"][0]["user"][name] = base64.b64encode(pem).decode()
    with pytest.raises(ApiFault, match="the client key is encrypted"):
        Client({"kubeconfig": found})


def test_a_plugin_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"import os; os.execl('/bin/sh', 'sh', '-c', 'sleep 600 & echo $! > {pid}; wait')"
    started = time.monotonic()
    with pytest.raises(ApiFault, match=r"did not end within 5 s") as refused:
        Client({"kubeconfig": with_plugin(tmp_path, "https://127.0.0.1:9", script)}, plugin_timeout=5.0)
    assert refused.value.fault is Fault.CONFIGURATION
    assert "run the plugin by hand" in refused.value.next_step
    assert time.monotonic() - started < 60
    assert is_gone(int(pid.read_text()))


@pytest.mark.parametrize(
    ("script", "said"),
    [("import sys; sys.exit('no session')", "no session"), ("print('hello')", "failed to decode process output")],
)
def test_a_plugin_that_fails_is_named_instead_of_asking_without_credentials(
    tmp_path: Path, script: str, said: str
) -> None:
    with pytest.raises(ApiFault, match=said) as refused:
        Client({"kubeconfig": with_plugin(tmp_path, "https://127.0.0.1:9", script)})
    assert refused.value.fault is Fault.CONFIGURATION


def script_of(name: str) -> str:
    """Return a credential plugin that gives a certificate with this common name."""
    pair = AUTHORITY.client(name)
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(json.dumps(answer))})"


def test_a_certificate_that_has_expired_is_asked_for_anew(folder: Path, tmp_path: Path, address: str) -> None:
    client = Client({"kubeconfig": with_plugin(tmp_path, address, script_of("expired"))})
    with_plugin(tmp_path, address, script_of("renewed"))
    for _time in range(2):
        assert json.loads(client.send("GET", "/x", None, None).body)["commonName"] == "renewed"
    assert list(folder.iterdir()) == []


def test_a_plugins_certificate_is_used_and_leaves_no_file(folder: Path, tmp_path: Path, address: str) -> None:
    client = Client({"kubeconfig": with_plugin(tmp_path, address, script_of("by-plugin"))})
    assert json.loads(client.send("GET", "/x", None, None).body)["commonName"] == "by-plugin"
    assert list(folder.iterdir()) == []


def test_the_library_is_left_as_it_was() -> None:
    before = credentials.KUBE_CONFIG._create_temp_file_with_content
    Client({"kubeconfig": document("https://127.0.0.1:9")})
    assert credentials.KUBE_CONFIG._create_temp_file_with_content is before
    assert credentials.EXEC_PROVIDER.subprocess is subprocess


def test_threads_read_their_credentials_one_after_the_other() -> None:
    read = threading.Event()

    def another() -> None:
        Client({"kubeconfig": document("https://127.0.0.1:9")})
        read.set()

    thread = threading.Thread(target=another)
    with credentials.loading(1.0):
        thread.start()
        assert not read.wait(0.3)
    thread.join()
    assert read.is_set()
