# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What projects publish is taken by checksum from a real HTTP server, and what can't be used is built."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import tarfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab import prebuilt, programs
from ansible_collections.rdma.fabric.tests.lab.gobuild import Recipe, build_key, go_architecture
from ansible_collections.rdma.fabric.tests.lab.prebuilt import ARCHIVES, Archive, may_download, taken
from ansible_collections.rdma.fabric.tests.lab.programs import GROUPS, KUBERNETES_VERSION

NAMES = ("etcd", "etcdctl")


class Pages(BaseHTTPRequestHandler):
    """Answers with the file that the server has, or with less of it than it says."""

    def __init__(self, server: Server, *arguments: object) -> None:
        self.of = server
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.of.asked += 1
        self.send_response(self.of.status)
        self.send_header("Content-Length", str(len(self.of.content) + self.of.held_back))
        self.end_headers()
        self.wfile.write(self.of.content)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing on standard error."""


class Server:
    """One archive on a server of this machine."""

    def __init__(self) -> None:
        self.content, self.status, self.held_back, self.asked = archive_with(*NAMES), 200, 0, 0
        self.digest = hashlib.sha256(self.content).hexdigest()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, self))
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    @property
    def archive(self) -> Archive:
        return Archive(f"http://127.0.0.1:{self.http.server_port}/etcd.tar.gz", f"sha256:{self.digest}", "etcd-v1")

    def stop(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def archive_with(*names: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as content:
        for path in (*(f"etcd-v1/{name}" for name in names), "etcd-v1/README.md", "../escaped"):
            data = f"#!/bin/sh\necho {path}\n".encode()
            member = tarfile.TarInfo(path)
            member.size = len(data)
            content.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Server()
    yield found
    found.stop()


def test_programs_are_taken_once_and_nothing_else_of_the_archive_is(server: Server, tmp_path: Path) -> None:
    lines: list[str] = []
    first = taken("etcd", NAMES, server.archive, tmp_path, lines.append)
    assert first is not None
    assert sorted(each.name for each in first.iterdir()) == sorted(NAMES)
    assert all(os.access(first / name, os.X_OK) for name in NAMES)
    assert (first / "etcd").read_text() == "#!/bin/sh\necho etcd-v1/etcd\n"
    assert lines == ["downloading etcd"]
    assert taken("etcd", NAMES, server.archive, tmp_path, lines.append) == first
    assert server.asked == 1
    assert not list(tmp_path.rglob("escaped"))


def refused(archive: Archive, cache: Path, *names: str) -> str:
    """Return why the archive is not used; nothing of it is left."""
    lines: list[str] = []
    assert taken("etcd", names or NAMES, archive, cache, lines.append) is None
    assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return lines[-1]


def test_another_content_than_was_published_is_not_used(server: Server, tmp_path: Path) -> None:
    server.content += b"more"
    other = hashlib.sha256(server.content).hexdigest()
    assert refused(server.archive, tmp_path) == (
        f"etcd is built: {server.archive.url} can't be used: its sha256 is {other}, {server.digest} was published"
    )


def test_an_answer_that_is_cut_is_not_used(server: Server, tmp_path: Path) -> None:
    server.content, server.held_back = server.content[:-20], 20
    assert "etcd is built: " in refused(server.archive, tmp_path)


def test_a_page_that_is_gone_and_a_server_that_is_away_are_told(server: Server, tmp_path: Path) -> None:
    server.status = 404
    assert "HTTP Error 404" in refused(server.archive, tmp_path)
    nobody = server.archive._replace(url="http://127.0.0.1:1/etcd.tar.gz")
    assert "Connection refused" in refused(nobody, tmp_path)


def test_a_host_that_drops_packets_costs_seconds_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def dropped(address: tuple[str, int], **_options: float) -> None:
        asked.append(address[0])
        threading.Event().wait(1)
        raise TimeoutError

    monkeypatch.setattr(prebuilt, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr("socket.create_connection", dropped)
    away = server.archive._replace(url="https://dropped.example/etcd.tar.gz")
    assert "dropped.example did not answer within" in refused(away, tmp_path)
    refused(away, tmp_path)
    assert asked == ["dropped.example"]


def test_an_archive_without_a_program_is_not_used(server: Server, tmp_path: Path) -> None:
    assert "it holds no etcd-v1/etcdutl" in refused(server.archive, tmp_path, "etcd", "etcdutl")


def test_one_that_was_not_usable_once_is_taken_later(server: Server, tmp_path: Path) -> None:
    server.status = 503
    refused(server.archive, tmp_path)
    server.status = 200
    assert taken("etcd", NAMES, server.archive, tmp_path, lambda _line: None) is not None


@pytest.mark.parametrize(
    ("environ", "tried"),
    [({}, True), ({"CI": "true"}, True), ({prebuilt.SWITCH: "no"}, False), ({prebuilt.SWITCH: "yes"}, True)],
)
def test_a_user_may_say_no(environ: dict[str, str], tried: bool) -> None:
    assert may_download(environ) is tried


def test_what_was_built_before_is_used_before_anything_is_downloaded(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe("etcd", GROUPS[0].recipe.module_dir, dict.fromkeys(NAMES, ""), "")
    architecture = go_architecture(platform.machine())
    monkeypatch.setattr(programs, "ARCHIVES", {("etcd", architecture): server.archive})
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/nowhere"}
    cache = tmp_path / "rdma-fabric"
    assert programs.provided(recipe, recipe, environ, lambda _line: None).parent == cache / "download"
    built = cache / "bin" / build_key(recipe, platform.machine())
    built.mkdir(parents=True)
    assert programs.provided(recipe, recipe, environ, lambda _line: None) == built
    assert server.asked == 1


def test_what_is_published_is_of_the_release_that_is_built() -> None:
    etcd = re.search(r"go\.etcd\.io/etcd/server/v3 (v\S+)", (GROUPS[0].recipe.module_dir / "go.mod").read_text())
    assert etcd is not None
    releases = {"kubernetes": f"/v{KUBERNETES_VERSION}/", "etcd": f"/{etcd[1]}/"}
    assert {name for name, _architecture in ARCHIVES} == set(releases)
    for (name, architecture), archive in ARCHIVES.items():
        assert releases[name] in archive.url
        assert archive.url.endswith(f"-linux-{architecture}.tar.gz")
        algorithm, _colon, digest = archive.digest.partition(":")
        assert len(digest) == 2 * hashlib.new(algorithm).digest_size
