# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the control plane's programs as their projects publish them, by checksum, where these can be reached.

Checksums: ``CHANGELOG/CHANGELOG-1.35.md`` of Kubernetes ("Downloads for v1.35.4") and ``SHA256SUMS`` of etcd's release.
KWOK publishes none; it is built.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
import socket
import tarfile
import threading
import time
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import IO, Collection, Mapping, NamedTuple
from urllib.parse import urlsplit

from .gobuild import PROGRESS_SECONDS, Report, make_once

SWITCH = "RDMA_FABRIC_LAB_DOWNLOAD"
# A host that sends nothing for so long is given up; one that takes no connection for so long is not asked again.
TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 4.0
_PIECE = 1 << 20


class Archive(NamedTuple):
    """What a project publishes: a tar archive, its digest as ``ALGORITHM:HEX``, and the folder of programs in there."""

    url: str
    digest: str
    folder: str


_KUBERNETES = "https://dl.k8s.io/v1.35.4/kubernetes-server-linux-{}.tar.gz"
_ETCD = "https://github.com/etcd-io/etcd/releases/download/v3.6.5/etcd-v3.6.5-linux-{}.tar.gz"
ARCHIVES: Mapping[tuple[str, str], Archive] = {
    ("kubernetes", "amd64"): Archive(
        _KUBERNETES.format("amd64"),
        "sha512:7454c2d9023de3230972e965e1e2a587a291e2a1abee703bb0737057e1646b23"
        "ebac538b93dd778e93579e3c293dc1fa8d002e6848ad5ebc01598bc47358fe44",
        "kubernetes/server/bin",
    ),
    ("kubernetes", "arm64"): Archive(
        _KUBERNETES.format("arm64"),
        "sha512:67187a2fe780be7816f9d10e082ed02cbba306bab379980280d00ba4c4017ff5"
        "3c50cd2ff81d248c91ddcc064276b8760e17c73a1a7da1d35067a6fc0ffbdc88",
        "kubernetes/server/bin",
    ),
    ("etcd", "amd64"): Archive(
        _ETCD.format("amd64"),
        "sha256:66bad39ed920f6fc15fd74adcb8bfd38ba9a6412f8c7852d09eb11670e88cac3",
        "etcd-v3.6.5-linux-amd64",
    ),
    ("etcd", "arm64"): Archive(
        _ETCD.format("arm64"),
        "sha256:7010161787077b07de29b15b76825ceacbbcedcb77fe2e6832f509be102cab6b",
        "etcd-v3.6.5-linux-arm64",
    ),
}


class NotTaken(Exception):
    """Why what is published can't be used."""


def may_download(environ: Mapping[str, str]) -> bool:
    """Tell whether downloads are tried: a user may say no."""
    return environ.get(SWITCH, "").lower() not in ("no", "0", "false")


def taken(name: str, programs: Collection[str], archive: Archive, cache: Path, report: Report) -> Path | None:
    """Give the directory with the programs of an archive, downloaded once; None, and a line that says why, else."""
    digest = archive.digest.partition(":")[2]

    def take(target: Path) -> None:
        file = target / "archive"
        try:
            _download(name, archive, file, report)
            _unpack(archive, programs, file, target)
        except BaseException:
            shutil.rmtree(target)
            raise
        file.unlink()

    try:
        return make_once(cache / "download" / f"{name}-{digest[:16]}", name, take, report)
    except (NotTaken, OSError, EOFError, http.client.HTTPException, tarfile.TarError) as error:
        report(f"{name} is built: {archive.url} can't be used: {error}")
        return None


@lru_cache(maxsize=None)
def _problem_of(host: str, port: int) -> str | None:
    """Say once per run why a host takes no connection; a name with many addresses costs no more than one."""
    problems = [f"{host} did not answer within {CONNECT_SECONDS:.0f} s"]

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            problems.clear()
        except OSError as error:
            problems[:] = [str(error)]

    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(CONNECT_SECONDS)
    return problems[0] if problems else None


def _refuse_unreachable(url: str) -> None:
    """Raise NotTaken for a host that takes no connection; a proxy decides itself what it reaches."""
    place = urlsplit(url)
    host, port = place.hostname or "", place.port or 443
    proxied = place.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
    problem = None if proxied else _problem_of(host, port)
    if problem:
        raise NotTaken(problem)


def _download(name: str, archive: Archive, file: Path, report: Report) -> None:
    """Write what the URL has to ``file``; raise NotTaken where it is something else than what was published."""
    _refuse_unreachable(archive.url)
    algorithm, _colon, wanted = archive.digest.partition(":")
    found, size, spoken = hashlib.new(algorithm), 0, time.monotonic()
    report(f"downloading {name}")
    answer = urllib.request.urlopen(archive.url, timeout=TIMEOUT_SECONDS)  # noqa: S310 - of the table above
    with answer, file.open("wb") as out:
        total = int(answer.headers.get("Content-Length") or 0)
        while piece := answer.read(_PIECE):
            found.update(piece)
            size += out.write(piece)
            if time.monotonic() - spoken >= PROGRESS_SECONDS:
                spoken = time.monotonic()
                report(f"downloading {name}: {size >> 20} of {total >> 20} MiB")
    if found.hexdigest() != wanted:
        raise NotTaken(f"its {algorithm} is {found.hexdigest()}, {wanted} was published")


def _unpack(archive: Archive, programs: Collection[str], file: Path, target: Path) -> None:
    """Write the programs to ``target``; raise NotTaken for one that is not there."""
    missing = {f"{archive.folder}/{program}": program for program in programs}
    with tarfile.open(file, mode="r|gz") as content:
        for member in content:
            program = missing.get(member.name) if member.isreg() else None
            stream = content.extractfile(member) if program else None
            if program and stream:
                _write(stream, target / program)
                del missing[member.name]
            if not missing:
                return
    raise NotTaken(f"it holds no {', '.join(sorted(missing))}")


def _write(stream: IO[bytes], path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out)
    path.chmod(0o755)
