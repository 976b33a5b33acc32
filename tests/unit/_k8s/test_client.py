# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubernetes.core's options and environment make the connection; its failures are told apart."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils import _version
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api import client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api import exec as pods
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client, auth_options
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import WebSockets
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Reply


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers every request with an empty object, 401 to an expired token, and remembers it."""

    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = (self.command, self.path, list(self.headers.items()), body, self.client_address)
        assert isinstance(self.server, RecordingServer)
        self.server.seen.append(seen)
        expired = "expired" in str(self.headers.get("authorization"))
        status = b"401 Unauthorized" if expired else self.server.status
        self.wfile.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")


class RecordingServer(http.server.ThreadingHTTPServer):
    """Listens on a free port; ``seen`` holds method, path, headers, body and peer of each request."""

    status = b"200 OK"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Recorder)
        self.seen: list[tuple[str, str, list[tuple[str, str]], bytes, Any]] = []


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST", "K8S_AUTH_API_KEY", "K8S_AUTH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def address(server: RecordingServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def kubeconfig_to(server: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }


def test_a_request_says_who_asks_and_carries_the_token(server: RecordingServer) -> None:
    client_under_test = Client({"host": address(server), "api_key": "t0ken", "impersonate_groups": ["a", "b"]})
    reply = client_under_test.send("PATCH", "/x?y=z", b'{"a":1}', "application/apply-patch+yaml")
    assert (reply.code, reply.body) == (200, b"{}")
    method, path, headers, body, _peer = server.seen[0]
    assert (method, path, body) == ("PATCH", "/x?y=z", b'{"a":1}')
    assert ("User-Agent", f"rdma.fabric/{_version.VERSION}") in headers
    assert ("authorization", "Bearer t0ken") in [(name.lower(), value) for name, value in headers]
    assert [value for name, value in headers if name == "Impersonate-Group"] == ["a", "b"]
    assert ("Content-Type", "application/apply-patch+yaml") in headers


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port at which nobody listens, and which nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_credentials_in_the_address_of_the_server_are_in_no_message(server: RecordingServer, silent_port: int) -> None:
    with_credentials = address(server).replace("://", "://admin:p@ss@")
    there = Client({"host": f"{with_credentials}/prefix/", "api_key": "t"})
    assert there.server == f"{address(server)}/prefix"
    assert there.send("GET", "/x", None, None).code == 200
    nowhere = Client({"host": f"http://admin:p@ss@127.0.0.1:{silent_port}", "api_key": "t"})
    with pytest.raises(ApiFault) as caught:
        nowhere.send("GET", "/x", None, None)
    assert "http://127.0.0.1" in str(caught.value)
    assert "admin" not in str(caught.value)


def test_no_request_is_sent_before_the_first_one_and_one_connection_serves_all(server: RecordingServer) -> None:
    client_under_test = Client({"host": address(server), "api_key": "t"})
    assert server.seen == []
    for _time in range(3):
        client_under_test.send("GET", "/x", None, None)
    assert len({peer for *_rest, peer in server.seen}) == 1


def test_the_environment_of_kubernetes_core_is_respected(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8S_AUTH_HOST", address(server))
    monkeypatch.setenv("K8S_AUTH_API_KEY", "from-the-environment")
    Client({"host": None, "api_key": None}).send("GET", "/x", None, None)
    assert ("authorization", "Bearer from-the-environment") in [(n.lower(), v) for n, v in server.seen[0][2]]


def test_a_kubeconfig_is_respected_as_file_and_as_data(server: RecordingServer, tmp_path: Path) -> None:
    document = kubeconfig_to(address(server), "filed")
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    for given in (str(path), document):
        Client({"kubeconfig": given}).send("GET", "/x", None, None)
    tokens = [value for _m, _p, headers, *_rest in server.seen for name, value in headers if name == "authorization"]
    assert tokens == ["Bearer filed"] * 2


def tokens_of(server: RecordingServer) -> list[str]:
    return [value for _m, _p, headers, *_rest in server.seen for name, value in headers if name == "authorization"]


@pytest.mark.parametrize("way", ["request", "watch", "command"])
def test_a_token_that_is_refused_is_read_anew_once(server: RecordingServer, tmp_path: Path, way: str) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig_to(address(server), "expired")), encoding="utf-8")
    waiting = Client({"kubeconfig": str(path)})
    commands = WebSockets(waiting)

    def code() -> int:
        if way == "command":
            with pytest.raises(ApiFault) as refused:
                commands("/x", 5.0)
            return 401 if refused.value.fault is Fault.UNAUTHORIZED else 200
        found = waiting.stream("/x", 5.0) if way == "watch" else waiting.send("GET", "/x", None, None)
        if isinstance(found, Reply):
            return found.code
        found.close()
        return 200

    assert code() == 401
    assert tokens_of(server) == ["Bearer expired"]
    path.write_text(json.dumps(kubeconfig_to(address(server), "renewed")), encoding="utf-8")
    assert (code(), code()) == (200, 200)
    assert tokens_of(server)[1:] == ["Bearer expired", "Bearer renewed", "Bearer renewed"]
    assert waiting.renewed(0), "another thread, which was refused at the same time, has them too"
    assert not waiting.renewed(waiting.renewals)


def test_an_earlier_connection_leaves_nothing_behind(server: RecordingServer) -> None:
    Client({"kubeconfig": kubeconfig_to("http://127.0.0.1:9", "earlier")})
    Client({"host": address(server), "api_key": "own"}).send("GET", "/x", None, None)
    assert [value for name, value in server.seen[0][2] if name.lower() == "authorization"] == ["Bearer own"]


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        ({}, {}, "{home}/.kube/config (the default, as nothing names another one)"),
        ({}, {"KUBECONFIG": "{home}/mine"}, "{home}/mine (KUBECONFIG)"),
        ({}, {"KUBECONFIG": "~/mine::{home}/yours"}, "{home}/mine and {home}/yours (KUBECONFIG)"),
        ({}, {"KUBECONFIG": "/x", "K8S_AUTH_KUBECONFIG": "{home}/mine"}, "{home}/mine (K8S_AUTH_KUBECONFIG)"),
        ({"kubeconfig": "~/mine"}, {"K8S_AUTH_KUBECONFIG": "/x"}, "{home}/mine (the option kubeconfig)"),
        ({"kubeconfig": "~no-such-user/mine"}, {}, "{here}/~no-such-user/mine (the option kubeconfig)"),
        ({"context": "c"}, {}, "{home}/.kube/config (the default, as nothing names another one)"),
        ({"host": "https://127.0.0.1:9"}, {}, "{home}/.kube/config (the default, as nothing names another one)"),
    ],
)
def test_a_missing_kubeconfig_is_named_with_who_asks_for_it(
    options: dict[str, str], environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    with pytest.raises(ApiFault) as refused:
        Client(options)
    assert refused.value.fault is Fault.CONFIGURATION
    assert refused.value.message == f"there is no kubeconfig {said.format(home=tmp_path, here=Path.cwd())}"
    for name in ("rdma_fabric_kubeconfig", "K8S_AUTH_KUBECONFIG", " KUBECONFIG"):
        assert name in refused.value.next_step


def test_options_that_need_no_kubeconfig_are_not_told_of_one() -> None:
    with pytest.raises(ApiFault, match="from the given options: ") as refused:
        Client({"host": "https://127.0.0.1:9", "api_key": "t", "proxy": "ftp://127.0.0.1"})
    assert "kubeconfig" not in refused.value.message


def test_a_proxy_that_can_not_be_one_is_told_without_its_login() -> None:
    with pytest.raises(ApiFault, match=r"proxy\.example:99999") as refused:
        Client({"host": "https://127.0.0.1:9", "api_key": "t", "proxy": "http://user:word@proxy.example:99999"})
    assert "word" not in str(refused.value)


def test_the_variable_counts_as_it_is_when_the_connection_is_made(
    server: RecordingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine"
    path.write_text(json.dumps(kubeconfig_to(address(server), "from-the-file")), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nowhere:{path}")
    Client({}).send("GET", "/x", None, None)
    assert ("authorization", "Bearer from-the-file") in [(n.lower(), v) for n, v in server.seen[0][2]]


@pytest.mark.parametrize("text", ["", "not: a: kubeconfig", "[]", "{}", "current-context: nowhere"])
def test_a_broken_kubeconfig_is_said_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ApiFault) as refused:
        Client({"kubeconfig": str(path)})
    assert refused.value.fault is Fault.CONFIGURATION
    assert refused.value.message.startswith(f"the kubeconfig {path} (the option kubeconfig) makes no connection: ")


def test_a_broken_kubeconfig_that_is_data_is_said_so() -> None:
    with pytest.raises(ApiFault, match=r"the kubeconfig given as data \(the option kubeconfig\) makes no connection: "):
        Client({"kubeconfig": {"current-context": "nowhere"}})


def test_a_missing_client_certificate_is_said_so() -> None:
    with pytest.raises(ApiFault) as refused:
        files = {"client_cert": "/nowhere/tls.crt", "client_key": "/nowhere/tls.key"}
        Client({"host": "https://127.0.0.1:9", **files}).send("GET", "/x", None, None)
    assert refused.value.fault in (Fault.CONFIGURATION, Fault.UNREACHABLE)


def test_a_refused_connection_names_the_server(silent_port: int) -> None:
    with pytest.raises(ApiFault, match=f"GET https://127.0.0.1:{silent_port}/x") as refused:
        Client({"host": f"https://127.0.0.1:{silent_port}", "api_key": "secret-token"}).send(
            "GET", "/x?secret", None, None
        )
    assert refused.value.fault is Fault.UNREACHABLE
    assert "secret" not in str(refused.value)


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(ApiFault) as refused:
        Client({"host": "https://nowhere.invalid", "api_key": "t"}).send("GET", "/x", None, None)
    assert refused.value.fault is Fault.UNREACHABLE


def test_a_server_that_speaks_no_tls_is_a_tls_fault(server: RecordingServer) -> None:
    host = address(server).replace("http:", "https:")
    with pytest.raises(ApiFault) as refused:
        Client({"host": host, "api_key": "t"}).send("GET", "/x", None, None)
    assert refused.value.fault is Fault.TLS


def test_an_answer_without_measure_is_not_kept(server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client_under_test = Client({"host": address(server), "api_key": "t"})
    monkeypatch.setattr(client, "MOST_BYTES", 2)
    assert client_under_test.send("GET", "/x", None, None).body == b"{}"
    monkeypatch.setattr(client, "MOST_BYTES", 1)
    with pytest.raises(ApiFault, match="the answer is longer than") as refused:
        client_under_test.send("GET", "/x", None, None)
    assert refused.value.fault is Fault.TOO_LARGE


@contextmanager
def dripping(*said: bytes) -> Iterator[str]:
    """A server that says what it is given to whoever connects, and then one byte after the other."""
    ended = threading.Event()

    def talk(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = listening.accept()[0]
                with connection, suppress(OSError):
                    connection.sendall(b"".join(said))
                    while not ended.wait(0.02):
                        connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=talk, args=[listening])
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "said", [[], [HEAD, b"X-Word: "], [HEAD, b"Content-Length: 99999\r\n\r\n"]], ids=["status", "header", "body"]
)
def test_an_answer_of_one_byte_now_and_then_is_a_timeout(said: list[bytes]) -> None:
    with dripping(*said) as host, pytest.raises(ApiFault, match=r"GET http://\S+/x: .* not whole after 0\.8 s") as late:
        Client({"host": host, "api_key": "t"}, read_timeout=0.2).send("GET", "/x?secret", None, None)
    assert late.value.fault is Fault.TIMEOUT


def test_a_watch_of_bytes_that_are_no_line_is_silent() -> None:
    with dripping(HEAD, b"\r\n") as host:
        lines = Client({"host": host, "api_key": "t"}).stream("/x", 0.2)
        assert not isinstance(lines, Reply)
        assert lines.receive(0.0) == b""
        with pytest.raises(ApiFault, match=r"no line came for 0\.2 s") as silent:
            lines.receive(0.4)
        assert silent.value.passing
        lines.close()


def test_a_stream_that_is_not_opened_in_its_time_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_GRACE", 0.1)
    with dripping(b"HTTP/1.1 101 Switching Protocols\r\nX-Word: ") as host:
        open_stream = WebSockets(Client({"host": host, "api_key": "t"}))
        with pytest.raises(ApiFault, match=r"exec /x: .* not whole after 0\.3 s") as late:
            open_stream("/x?command=secret", 0.2)
    assert late.value.fault is Fault.TIMEOUT


def test_a_silent_server_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ApiFault) as refused:
            Client({"host": host, "api_key": "t"}, read_timeout=0.05).send("GET", "/x", None, None)
    assert refused.value.fault is Fault.TIMEOUT


def test_a_missing_library_is_named_with_the_version_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "IMPORT_ERROR", "Traceback\nModuleNotFoundError: No module named 'kubernetes'")
    with pytest.raises(ApiFault, match="No module named 'kubernetes'") as refused:
        Client({"host": "https://127.0.0.1:9", "api_key": "t"})
    assert "kubernetes >= 24.2.0" in refused.value.next_step
    assert "kubernetes.core >= 5.0.0" in refused.value.next_step


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, None),
        ({"proxy_basic_auth": "user:pass:word"}, "Basic dXNlcjpwYXNzOndvcmQ="),
        ({"user_agent": "me"}, None),
    ],
)
def test_a_proxy_is_shown_the_same_login_by_streams_as_by_requests(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch, given: dict[str, str] | None, shown: str | None
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    options = {"host": "http://192.0.2.1", "api_key": "t", "proxy": address(server), "proxy_headers": given}
    through = Client(options)
    through.send("GET", "/x", None, None)
    with pytest.raises(ApiFault):
        WebSockets(through)("/x", 10.0)
    found = [
        (seen[0], {name.lower(): value for name, value in seen[2]}.get("proxy-authorization")) for seen in server.seen
    ]
    # The last goes through the tunnel, to the server.
    assert found == [("GET", shown), ("CONNECT", shown), ("GET", None)]


@pytest.mark.parametrize(
    ("login", "headers", "shown"),
    [
        ("user:pass%40word@", {}, "user:pass@word"),
        ("us%C3%A9r:w%E2%82%ACrd@", {}, "us\u00e9r:w\u20acrd"),
        ("user:of-the-address@", {"proxy_basic_auth": "user:given"}, "user:given"),
        ("user:word@", {"user_agent": "me"}, "user:word"),
    ],
)
def test_a_login_of_the_proxys_address_is_shown_to_it(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch, login: str, headers: dict[str, str], shown: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    proxy = address(server).replace("://", f"://{login}")
    through = Client({"host": "http://192.0.2.1", "api_key": "t", "proxy": proxy, "proxy_headers": headers})
    through.send("GET", "/x", None, None)
    with pytest.raises(ApiFault):
        WebSockets(through)("/x", 10.0)
    wanted = f"Basic {base64.b64encode(shown.encode()).decode()}"
    found = [{name.lower(): value for name, value in seen[2]}.get("proxy-authorization") for seen in server.seen]
    assert found == [wanted, wanted, None]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_told_apart(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server.status = b"407 Proxy Authentication Required"
    through = Client({"host": f"{scheme}://192.0.2.1", "api_key": "t", "proxy": address(server)})
    connection = Connection(through)
    with pytest.raises(ApiFault, match="proxy_basic_auth: USER:PASSWORD") as refused:
        connection.request("get", "/x", what="x")
    with pytest.raises(ApiFault, match="proxy_basic_auth: USER:PASSWORD") as stopped:
        WebSockets(through)("/x", 10.0)
    assert (refused.value.fault, stopped.value.fault) == (Fault.CONFIGURATION, Fault.CONFIGURATION)
    assert len(server.seen) == 2, "neither is tried again"


@pytest.mark.parametrize(("proxy", "port"), [("http://proxy.example", 80), ("http://proxy.example:31", 31)])
def test_a_proxy_without_a_port_has_the_usual_one(proxy: str, port: int) -> None:
    options = Client({"host": "https://192.0.2.1", "api_key": "t", "proxy": proxy}).stream_options()
    assert (options["http_proxy_host"], options["http_proxy_port"]) == ("proxy.example", port)


def test_commands_through_a_proxy_of_another_kind_are_refused_before_they_are_sent() -> None:
    given = {"host": "https://192.0.2.1", "api_key": "t", "proxy": "https://user:word@proxy.example:31"}
    with pytest.raises(ApiFault, match=r"a proxy of the kind https:// \(proxy.example\)") as refused:
        WebSockets(Client(given))
    assert (refused.value.fault, "word" in str(refused.value)) == (Fault.CONFIGURATION, False)


def test_commands_go_past_a_proxy_where_requests_do(server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    past = address(server).partition("://")[2]
    given = {"host": address(server), "api_key": "t", "proxy": "https://127.0.0.1:9", "no_proxy": past}
    with pytest.raises(ApiFault, match="200"):
        WebSockets(Client(given))("/x", 10.0)
    assert [seen[0] for seen in server.seen] == ["GET"]


def test_all_authentication_options_are_passed_on() -> None:
    assert {"kubeconfig", "context", "host", "api_key", "verify_ssl", "impersonate_groups", "proxy"} <= auth_options()


def test_the_version_is_the_collections() -> None:
    galaxy = Path(__file__).resolve().parents[3] / "galaxy.yml"
    assert yaml.safe_load(galaxy.read_text())["version"] == _version.VERSION
