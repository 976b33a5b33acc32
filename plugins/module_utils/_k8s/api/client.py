# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to the API server that kubernetes.core's options and environment describe.

Authentication is kubernetes.core's own; requests go as raw JSON through the urllib3 pool of the kubernetes client,
over one kept-alive connection, without typed models and without API discovery.
"""

from __future__ import annotations

import base64
import os
import queue
import re
import socket
import ssl
import threading
import time
import traceback
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from ansible_collections.rdma.fabric.plugins.module_utils._version import VERSION

from . import credentials
from .errors import PROXY_LOGIN, ApiFault, Fault
from .transport import Lines, Reply

KUBERNETES_MINIMUM = "24.2.0"
KUBERNETES_CORE_MINIMUM = "5.0.0"

IMPORT_ERROR: str | None = None
try:
    import kubernetes
    import urllib3
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import (
        _create_auth_spec,
        _create_configuration,
        _create_headers,
    )
    from kubernetes.config import kube_config
    from urllib3._collections import HTTPHeaderDict
except ImportError:
    IMPORT_ERROR = traceback.format_exc()
    AUTH_ARG_SPEC = {}

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
# A read's time begins anew with each byte; a whole answer gets that of so many.
_READS = 4
# Pages of 500 objects are a few MiB, and etcd takes no object above 1.5 MiB. A longer page is asked for in parts.
MOST_BYTES = 32 * 1024 * 1024
_CHUNK = 256 * 1024
# What urllib3 takes where an http:// proxy's address has no port.
_PROXY_PORT = 80
_LOGIN_OF_ADDRESS = re.compile(r"(?<=://)[^\s/]+@")
_LOGIN_HEADER = "proxy-authorization"
_REFUSED_LOGIN = "Tunnel connection failed: 407"
"""What http.client raises when a proxy answers so to CONNECT."""
_OTHER_PROXY = "give an http:// proxy by the option proxy or K8S_AUTH_PROXY, or name the API server in no_proxy"
_DEFAULT_KUBECONFIG = "~/.kube/config"
_OTHER_KUBECONFIG = (
    "make it on the controller, or name another one by the option kubeconfig (rdma_fabric_kubeconfig for the roles), "
    "K8S_AUTH_KUBECONFIG or KUBECONFIG"
)
# With one of these beside the host, kubernetes.core looks for no kubeconfig.
_CREDENTIALS = (("username", "password"), ("api_key",), ("cert_file", "key_file"))
_Found = TypeVar("_Found")


def auth_options() -> frozenset[str]:
    """Return the names of kubernetes.core's authentication options, aliases included."""
    names = set(AUTH_ARG_SPEC)
    for spec in AUTH_ARG_SPEC.values():
        names.update(spec.get("aliases", ()))
    return frozenset(names)


class Client:
    """A :class:`~..transport.Sender`, and its streams, over the kubernetes client's connection pool.

    ``server`` is its address, without credentials: urllib3 sends none that stand there, and messages have it.
    ``renewals`` counts how often other credentials were read.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        read_timeout: float = READ_TIMEOUT,
        plugin_timeout: float = credentials.PLUGIN_TIMEOUT,
    ) -> None:
        """Build the connection from kubernetes.core's options; nothing is sent yet. Raises :class:`ApiFault`."""
        _require_libraries()
        self._options, self._read_timeout, self._plugin_timeout = options, read_timeout, plugin_timeout
        self._certificate = b""
        self._stream_context: ssl.SSLContext | None = None
        self.renewals, self._alone = 0, threading.Lock()
        given = {name: value for name, value in options.items() if value is not None}
        try:
            # A configuration that was loaded before in this process would be copied, and restored by its own hooks.
            kubernetes.client.Configuration.set_default(None)
            # The client took the variable when it was imported, which is before a task's environment is there.
            kube_config.KUBE_CONFIG_DEFAULT_LOCATION = os.environ.get("KUBECONFIG", _DEFAULT_KUBECONFIG)
            # kubernetes.core does so as it is imported, which Ansible's loader of plugins undoes.
            urllib3.disable_warnings()
            with credentials.loading(plugin_timeout) as files:
                self._configuration = _create_configuration(_create_auth_spec(None, **given))
                # One for requests, and one that a stream leaves behind.
                self._configuration.connection_pool_maxsize = 2
                _log_in_to_proxy(self._configuration)
                self._impersonation = _create_headers(None, **given)
                self._pool = kubernetes.client.ApiClient(self._configuration).rest_client.pool_manager
                self._read_certificates(files)
        except ApiFault:
            raise
        except Exception as err:  # a broken kubeconfig makes the client raise whatever its parts provoke
            raise _no_connection(given, err) from err
        self.server = _without_credentials(str(self._configuration.host)).rstrip("/")

    def _read_certificates(self, files: credentials.PrivateFiles) -> None:
        """Read CA, certificate and key into memory, and make the pool forget files that are about to go."""
        if not str(self._configuration.host).startswith("https"):
            return
        options = self._pool.connection_pool_kw
        if options.get("cert_file"):
            self._certificate = Path(options["cert_file"]).read_bytes()
        checked = options.get("assert_hostname") is not False
        # urllib3 turns the check off in its own context where it compares the names by itself.
        self._stream_context = credentials.tls_context(options, check_hostname=checked)
        options["ssl_context"] = credentials.tls_context(options, check_hostname=checked)
        options["cert_file"] = options["key_file"] = None
        if options.get("ca_certs") in files:
            options["ca_certs"] = None

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        """Send one request; see :class:`~..transport.Sender`.

        One that is refused with credentials that are not those of now is sent with these: a task may wait for hours,
        and a token may be withdrawn, or a plugin name no time at which what it gives ends.
        """
        since, reply = self.renewals, self._sent(method, path, body, content_type)
        return self._sent(method, path, body, content_type) if reply.code == 401 and self.renewed(since) else reply

    def _sent(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        def whole(response: Any, what: str) -> Reply:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(int(response.status), headers, _read_limited(response, what))

        return self._answered(method, path, whole, body=body, content_type=content_type)

    def stream(self, path: str, silence: float) -> Lines | Reply:
        """Open an answer that goes on; see :class:`~..transport.Streams`. Credentials are renewed as in ``send``."""
        since, found = self.renewals, self._opened_stream(path, silence)
        refused = isinstance(found, Reply) and found.code == 401
        return self._opened_stream(path, silence) if refused and self.renewed(since) else found

    def _opened_stream(self, path: str, silence: float) -> Lines | Reply:
        def begun(response: Any, what: str) -> Lines | Reply:
            if int(response.status) == 200:
                return ResponseLines(response, what, silence)
            return Reply(int(response.status), {}, _read_limited(response, what))

        return self._answered("GET", path, begun, silence=silence)

    def _answered(
        self,
        method: str,
        path: str,
        read: Callable[[Any, str], _Found],
        *,
        body: bytes | None = None,
        content_type: str | None = None,
        silence: float | None = None,
    ) -> _Found:
        """Send one request and return what ``read`` makes of its answer. Raises ApiFault."""
        what = f"{method} {self.server}{path.partition('?')[0]}"
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=silence or self._read_timeout)

        def asked() -> _Found:
            response = self._pool.request(
                method,
                self.server + path,
                body=body,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            return read(response, what)

        try:
            headers = self._headers(content_type)
            return in_time(asked, _READS * self._read_timeout, what)
        except urllib3.exceptions.HTTPError as err:
            raise _fault_of(err, what) from err
        except OSError as err:
            raise ApiFault(Fault.CONFIGURATION, f"the connection's files can't be used: {err}") from err

    def stream_options(self) -> dict[str, Any]:
        """Return how a stream to the server is opened: its headers, TLS and proxy in the words of websocket-client.

        Raises ApiFault for a proxy that it can't go through: websocket-client speaks no TLS to a proxy, and SOCKS by a
        package that neither collection asks for.
        """
        configuration = self._configuration
        # Requests go past the proxy where no_proxy says so. A pool for SOCKS has its address under a name of its own.
        proxied = bool(self._pool.proxy) or hasattr(self._pool, "proxy_url")
        proxy = urlsplit(configuration.proxy or "")
        if proxied and proxy.scheme != "http":
            problem = f"commands in pods can't go through a proxy of the kind {proxy.scheme}:// ({proxy.hostname})"
            raise ApiFault(Fault.CONFIGURATION, problem, hint=_OTHER_PROXY)
        tls: dict[str, Any] = {}
        if self._stream_context is not None:
            tls["context"] = self._stream_context
        if configuration.tls_server_name:
            tls["server_hostname"] = configuration.tls_server_name
        return {
            # A stream is no JSON, and some kubelets answer 406 to who would have nothing else.
            "header": [f"{name}: {value}" for name, value in self._headers(None).items() if name != "Accept"],
            "sslopt": tls,
            "http_proxy_host": proxy.hostname,
            "http_proxy_port": proxy.port or _PROXY_PORT,
            "http_proxy_auth": _proxy_login(configuration.proxy_headers or {}),
            "http_no_proxy": (configuration.no_proxy or "").split(",") if proxied else ["*"],
        }

    def renewed(self, since: int) -> bool:
        """Tell whether there are other credentials than ``since`` so many renewals, read anew. Raises ApiFault.

        Of threads that are refused side by side, one reads them for all.
        """
        with self._alone:
            if self.renewals != since:
                return True
            fresh = Client(self._options, read_timeout=self._read_timeout, plugin_timeout=self._plugin_timeout)
            if fresh.server != self.server or fresh._shown() == self._shown():
                return False
            self._configuration, self._pool, self._certificate = fresh._configuration, fresh._pool, fresh._certificate
            self._stream_context = fresh._stream_context
            self.renewals += 1
            return True

    def _shown(self) -> list[Any]:
        """Return what is shown to the server to tell who asks."""
        return [self._certificate, *(auth.get("value") for auth in self._auth_settings().values())]

    def _auth_settings(self) -> Mapping[str, Mapping[str, Any]]:
        with credentials.loading(self._plugin_timeout):
            # An expired token is asked for anew here.
            settings: Mapping[str, Mapping[str, Any]] = self._configuration.auth_settings()
        return settings

    def _headers(self, content_type: str | None) -> Any:
        headers = HTTPHeaderDict()
        headers.add("User-Agent", f"rdma.fabric/{VERSION}")
        headers.add("Accept", "application/json")
        if content_type:
            headers.add("Content-Type", content_type)
        for auth in self._auth_settings().values():
            if auth.get("in") == "header" and auth.get("value"):
                headers.add(auth["key"], auth["value"])
        for name, value in self._impersonation.items():
            for one in value if isinstance(value, list) else [value]:
                headers.add(name, one)
        return headers


def _log_in_to_proxy(configuration: Any) -> None:
    """Have a login of an http(s) proxy's address shown to it, as kubectl does; one of ``proxy_headers`` goes before.

    urllib3 shows none of an address, but to SOCKS proxies.
    """
    proxy, headers = urlsplit(configuration.proxy or ""), configuration.proxy_headers or {}
    given = any(name.lower() == _LOGIN_HEADER for name in headers)
    if given or not proxy.username or proxy.scheme not in ("http", "https"):
        return
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    configuration.proxy_headers = {**headers, _LOGIN_HEADER: f"Basic {base64.b64encode(login.encode()).decode()}"}


def _proxy_login(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password that requests show to the proxy, as websocket-client takes them; None without a login.

    They are a header of the requests: ours, or that of ``proxy_headers``, which urllib3's ``make_headers`` encodes as
    Latin-1. websocket-client encodes as UTF-8, and knows no other scheme than Basic.
    """
    given = next((value for name, value in headers.items() if name.lower() == _LOGIN_HEADER), "")
    scheme, _space, encoded = given.partition(" ")
    if scheme.lower() != "basic":
        return None
    shown = base64.b64decode(encoded)
    try:
        user, _colon, password = shown.decode().partition(":")
    except UnicodeDecodeError:
        user, _colon, password = shown.decode("latin-1").partition(":")
    return user, password


def _without_credentials(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}" if separator else address


class _Kubeconfig(NamedTuple):
    """Files that are read as kubeconfig, none where it is given as data, and what says so."""

    files: list[Path]
    origin: str


def _kubeconfig_of(given: Mapping[str, Any]) -> _Kubeconfig | None:
    """Return where the kubeconfig is looked for with these options and this environment; None where none is needed."""
    auth = _create_auth_spec(None, **given)
    if auth.get("host") and any(all(auth.get(name) for name in names) for names in _CREDENTIALS):
        return None
    if given.get("kubeconfig"):
        value, origin = given["kubeconfig"], "the option kubeconfig"
    elif auth.get("kubeconfig"):
        value, origin = auth["kubeconfig"], "K8S_AUTH_KUBECONFIG"
    elif os.environ.get("KUBECONFIG"):
        value, origin = os.environ["KUBECONFIG"], "KUBECONFIG"
    else:
        value, origin = _DEFAULT_KUBECONFIG, "the default, as nothing names another one"
    names = value.split(kube_config.ENV_KUBECONFIG_PATH_SEPARATOR) if isinstance(value, str) else []
    return _Kubeconfig([_path_of(name) for name in names if name], origin)


def _path_of(name: str) -> Path:
    """Return a file as the client finds it: a home that nobody has is a name like any other."""
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError:
        return Path(name).absolute()


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder on the way may not be looked into
        return True


def _no_connection(given: Mapping[str, Any], err: Exception) -> ApiFault:
    """Return why no connection could be made from the options, with the kubeconfig that was looked at."""
    wanted = _kubeconfig_of(given)
    # The address of a proxy that can't be one is told whole.
    said = _LOGIN_OF_ADDRESS.sub("", str(err))
    if wanted is None:
        return ApiFault(Fault.CONFIGURATION, f"no connection can be made from the given options: {said}")
    names = " and ".join(map(str, wanted.files)) or "given as data"
    if wanted.files and not any(_is_there(path) for path in wanted.files):
        problem = f"there is no kubeconfig {names} ({wanted.origin})"
        return ApiFault(Fault.CONFIGURATION, problem, hint=_OTHER_KUBECONFIG)
    return ApiFault(Fault.CONFIGURATION, f"the kubeconfig {names} ({wanted.origin}) makes no connection: {said}")


def _require_libraries() -> None:
    if IMPORT_ERROR is None:
        return
    missing = IMPORT_ERROR.strip().splitlines()[-1]
    raise ApiFault(
        Fault.CONFIGURATION,
        f"the Kubernetes client can't be imported: {missing}",
        hint=f"install the Python package kubernetes >= {KUBERNETES_MINIMUM} and the collection kubernetes.core >= "
        f"{KUBERNETES_CORE_MINIMUM} where ansible-playbook runs",
    )


def in_time(asked: Callable[[], _Found], seconds: float, what: str) -> _Found:
    """Return what ``asked`` returns, or raise what it raises; a TIMEOUT when it takes longer.

    A thread asks, as nothing ends a read in which now and then a byte comes. It is left to itself then: what it keeps
    is bounded.
    """
    ended: Future[_Found] = Future()

    def run() -> None:
        try:
            ended.set_result(asked())
        except BaseException as err:  # it is raised where it is waited for
            ended.set_exception(err)

    threading.Thread(target=run, name="request", daemon=True).start()
    if not wait([ended], seconds).done:
        raise ApiFault(Fault.TIMEOUT, f"{what}: the answer is not whole after {seconds:g} s")
    return ended.result()


def _read_limited(response: Any, what: str) -> bytes:
    """Return the whole body of an answer, and give its connection back. Raises ApiFault for one without measure."""
    content = bytearray()
    try:
        for chunk in response.stream(_CHUNK, decode_content=True):
            content += chunk
            if len(content) > MOST_BYTES:
                response.close()
                content.clear()  # the traceback of the fault keeps it
                raise ApiFault(Fault.TOO_LARGE, f"{what}: the answer is longer than {MOST_BYTES // 1024 // 1024} MiB")
    finally:
        response.release_conn()
    return bytes(content)


def _fault_of(err: Exception, what: str) -> ApiFault:
    """Return the fault that a urllib3 error means."""
    errors = urllib3.exceptions
    text = f"{what}: {err}"
    if isinstance(err, errors.SSLError):
        # A connection that is cut under TLS is no fault of certificates.
        was_cut = any(isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) for cause in err.args)
        return ApiFault(Fault.UNREACHABLE if was_cut else Fault.TLS, text)
    if isinstance(err, (errors.ReadTimeoutError, errors.ConnectTimeoutError)) and not isinstance(
        err, errors.NewConnectionError
    ):
        return ApiFault(Fault.TIMEOUT, text)
    if _REFUSED_LOGIN in text:
        return ApiFault(Fault.CONFIGURATION, text, hint=PROXY_LOGIN)
    if isinstance(err, errors.LocationValueError):
        return ApiFault(Fault.CONFIGURATION, text)
    return ApiFault(Fault.UNREACHABLE, text)


# etcd takes no object above 1.5 MiB.
LONGEST_LINE = 16 * 1024 * 1024
_CHUNK_OF_LINES = 64 * 1024
_ENDING_SECONDS = 1.0


class ResponseLines:
    """The :class:`~..transport.Lines` of a urllib3 response.

    A thread reads them: neither urllib3 nor http.client can go on with an answer once a read of it has timed out, and
    who waits for a line has to wake up in between. One that sends bytes and for ``silence`` seconds no line is silent.
    """

    def __init__(self, response: Any, what: str, silence: float) -> None:
        self._response, self._what, self._silence = response, what, silence
        self._heard = time.monotonic()
        self._lines: queue.SimpleQueue[bytes | ApiFault | None] = queue.SimpleQueue()
        self._end: ApiFault | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)
        self._thread.start()

    def receive(self, seconds: float) -> bytes | None:
        """Return the next line; see :class:`~..transport.Lines`."""
        if not self._ended:
            try:
                line = self._lines.get(timeout=max(seconds, 0.0)) if seconds > 0 else self._lines.get_nowait()
            except queue.Empty:
                if time.monotonic() - self._heard <= self._silence:
                    return b""
                line = ApiFault(Fault.UNREACHABLE, f"{self._what}: no line came for {self._silence:g} s")
            if isinstance(line, bytes):
                return line
            self._ended, self._end = True, line
        if self._end is not None:
            raise self._end
        return None

    def close(self) -> None:
        """End it: the thread wakes up when the connection is shut down under it."""
        connection: Any = getattr(self._response, "connection", None)
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_ENDING_SECONDS)
        if not self._thread.is_alive():
            self._response.close()

    def _read(self) -> None:
        end, rest = None, b""
        try:
            for chunk in self._response.stream(_CHUNK_OF_LINES, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    self._heard = time.monotonic()
                    self._lines.put(line)
                if len(rest) > LONGEST_LINE:
                    problem = f"{self._what}: a line is longer than {LONGEST_LINE // 1024 // 1024} MiB"
                    end = ApiFault(Fault.SERVER, problem)
                    break
        except Exception as err:  # whatever a connection that is cut or shut down makes urllib3 and ssl raise
            end = ApiFault(Fault.UNREACHABLE, f"{self._what}: the answer was cut: {err}")
        self._lines.put(end)
