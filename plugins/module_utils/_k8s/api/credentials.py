# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps keys and certificates off the disk, and credential plugins within a time limit.

The kubernetes library writes the data of a kubeconfig to temporary files and removes them when Python exits, which
Ansible's workers never do. Here it writes them to memory, or, where the system has no such files, to a private
folder; both are gone as soon as OpenSSL has read them.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, Mapping

from .errors import ApiFault, Fault

# The client says what is missing when these can't be imported.
KUBE_CONFIG: Any = None
EXEC_PROVIDER: Any = None
URLLIB3_SSL: Any = None
try:
    from kubernetes.config import exec_provider, kube_config
    from urllib3.util import ssl_

    KUBE_CONFIG, EXEC_PROVIDER, URLLIB3_SSL = kube_config, exec_provider, ssl_
except ImportError:
    pass

PLUGIN_TIMEOUT = 60.0
_ALONE = threading.Lock()
_PLUGIN_FUNCTION = "_load_from_exec_plugin"
_PLUGIN_HINT = "run the plugin by hand as the user of ansible-playbook, then run again"


class PrivateFiles:
    """Files that only this process can open; they are gone after :meth:`close`, and whenever the process ends."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._folder = ""
        self._paths: set[str] = set()

    def write(self, content: str | bytes, _folder: str | None = None, force_recreate: bool = False) -> str:
        """Return the path of a new file; the arguments are those of the library's own function."""
        data = content.encode() if isinstance(content, str) else content
        path = self._in_memory(data) or self._in_folder(data)
        self._paths.add(path)
        return path

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def _in_memory(self, data: bytes) -> str:
        """Return the path of a file in memory, or an empty string where the system has none."""
        create = getattr(os, "memfd_create", None)
        if create is None:
            return ""
        try:
            descriptor = create("rdma-fabric")
        except OSError:
            return ""
        self._descriptors.append(descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        path = f"/proc/self/fd/{descriptor}"
        return path if Path(path).is_file() else ""

    def _in_folder(self, data: bytes) -> str:
        self._folder = self._folder or tempfile.mkdtemp(prefix="rdma-fabric-")
        descriptor, path = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path

    def close(self) -> None:
        """Remove all files."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


@contextmanager
def loading(plugin_timeout: float) -> Iterator[PrivateFiles]:
    """Let the library read credentials without a trace on the disk and within ``plugin_timeout`` seconds a plugin.

    Raises :class:`ApiFault` when a credential plugin failed, which the library only logs. Other threads wait for the
    end: what is replaced in the library is the same for all of them.
    """
    with _ALONE:
        yield from _loading(plugin_timeout)


def _loading(plugin_timeout: float) -> Iterator[PrivateFiles]:
    files, log = PrivateFiles(), _PluginLog()
    processes = SimpleNamespace(PIPE=subprocess.PIPE, Popen=_limited_process(plugin_timeout))
    replaced = [
        (KUBE_CONFIG, "_create_temp_file_with_content", files.write),
        (KUBE_CONFIG, "subprocess", processes),
        (EXEC_PROVIDER, "subprocess", processes),
    ]
    before = [getattr(owner, name) for owner, name, _value in replaced]
    logging.getLogger().addHandler(log)
    try:
        for owner, name, value in replaced:
            setattr(owner, name, value)
        yield files
    finally:
        for (owner, name, _value), old in zip(replaced, before):
            setattr(owner, name, old)
        logging.getLogger().removeHandler(log)
        files.close()
    if log.problems:
        problem = f"the credential plugin of the kubeconfig gives no credentials: {'; '.join(log.problems)}"
        raise ApiFault(Fault.CONFIGURATION, problem, hint=_PLUGIN_HINT)


class _PluginLog(logging.Handler):
    """Collects what the library logs about a credential plugin that failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.problems: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.funcName == _PLUGIN_FUNCTION:
            self.problems.append(" ".join(record.getMessage().split())[:500])


def _limited_process(seconds: float) -> type[subprocess.Popen[str]]:
    """Return a Popen whose ``communicate`` kills the program and all it started when it takes longer."""

    class LimitedProcess(subprocess.Popen):  # type: ignore[type-arg]  # it has no parameters in Python 3.8
        def __init__(self, argv: list[str], **options: Any) -> None:
            super().__init__(argv, start_new_session=True, **options)
            self._program = argv[0]

        def communicate(self, input: Any = None, timeout: float | None = None) -> Any:  # noqa: A002 - Popen's name
            try:
                return super().communicate(input, seconds if timeout is None else timeout)
            except BaseException as err:
                with suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
                self.wait()
                if isinstance(err, subprocess.TimeoutExpired):
                    raise TimeoutError(f"{self._program} did not end within {seconds:g} s") from err
                raise

    return LimitedProcess


def tls_context(options: Mapping[str, Any], *, check_hostname: bool) -> ssl.SSLContext:
    """Return a context with what urllib3's ``options`` name: CA, client certificate and key are read now.

    Raises OSError (ssl.SSLError is one) for files that can't be used.
    """
    context: ssl.SSLContext = URLLIB3_SSL.create_urllib3_context(cert_reqs=options["cert_reqs"])
    if options["cert_reqs"] == ssl.CERT_REQUIRED:
        context.check_hostname = check_hostname
        if options.get("ca_certs") or options.get("ca_cert_data"):
            context.load_verify_locations(cafile=options.get("ca_certs"), cadata=options.get("ca_cert_data"))
        else:
            context.load_default_certs()
    if options.get("cert_file"):
        context.load_cert_chain(options["cert_file"], options.get("key_file"), password=_no_password)
    return context


def _no_password() -> str:
    """Refuse an encrypted key: OpenSSL would ask a terminal that nobody looks at."""
    raise ssl.SSLError("the client key is encrypted; give it decrypted, or use a token")
