# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node can resolve and pull the lab's images by every name they have, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.lab.images import Config, File, write_image
from ansible_collections.rdma.fabric.tests.lab.registry import MANIFEST, Registry, digest_of, served_images

TOOL_NAMES = ("mellanox/rping-test", "nvcr.io/nvidia/mellanox/tool:26.4")
SECONDS = 30.0


class Client:
    """What a container runtime does."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)

    def ask(self, path: str, method: str = "GET") -> tuple[HTTPResponse, bytes]:
        self.connection.request(method, path, headers={"Accept": MANIFEST})
        response = self.connection.getresponse()
        return response, response.read()

    def blob(self, part: dict[str, object]) -> bytes:
        """Fetch a part of a manifest and make sure that it is what the manifest says."""
        response, body = self.ask(f"/v2/any/name/blobs/{part['digest']}")
        assert response.status == 200
        assert (len(body), digest_of(body)) == (part["size"], part["digest"])
        return body


class Service(NamedTuple):
    """A running registry of two images and a client on it."""

    client: Client
    port: int
    archives: list[Path]


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    images = {"tool": TOOL_NAMES, "pause": ("registry.k8s.io/pause:3.10",)}
    for name, names in images.items():
        write_image(
            tmp_path / f"{name}.tar", {name: File(name.encode() * 99999)}, Config((f"/{name}",)), names, "amd64"
        )
    return sorted(tmp_path.glob("*.tar"))


@pytest.fixture
def service(archives: list[Path]) -> Iterator[Service]:
    with Registry(("127.0.0.1", 0), served_images(archives)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        port = server.server_address[1]
        client = Client(port)
        yield Service(client, port, archives)
        client.connection.close()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "entrypoint"),
    [
        ("/v2/mellanox/rping-test/manifests/latest?ns=docker.io", "/tool"),
        ("/v2/mellanox/rping-test/manifests/latest", "/tool"),
        ("/v2/nvidia/mellanox/tool/manifests/26.4?ns=nvcr.io", "/tool"),
        ("/v2/pause/manifests/3.10?ns=registry.k8s.io", "/pause"),
    ],
)
def test_an_image_is_pulled_whole_by_each_of_its_names(service: Service, path: str, entrypoint: str) -> None:
    head, nothing = service.client.ask(path, "HEAD")
    assert (head.status, nothing) == (200, b"")
    response, body = service.client.ask(path)
    assert response.getheader("Content-Type") == json.loads(body)["mediaType"] == MANIFEST
    digest = response.getheader("Docker-Content-Digest")
    assert digest == head.getheader("Docker-Content-Digest") == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert head.getheader("Content-Length") == str(len(body))
    assert service.client.ask(f"/v2/any/name/manifests/{digest}")[1] == body
    manifest = json.loads(body)
    config = json.loads(service.client.blob(manifest["config"]))
    assert config["config"]["Entrypoint"] == [entrypoint]
    assert [layer["digest"] for layer in manifest["layers"]] == config["rootfs"]["diff_ids"]
    assert entrypoint[1:].encode() * 99999 in service.client.blob(manifest["layers"][0])


@pytest.mark.parametrize(
    "path",
    [
        "/v2/mellanox/rping-test/manifests/1.0?ns=docker.io",
        "/v2/mellanox/rping-test/manifests/latest?ns=nvcr.io",
        "/v2/nvidia/mellanox/tool/manifests/26.4?ns=docker.io",
        f"/v2/any/blobs/sha256:{'0' * 64}",
        f"/v2/any/manifests/sha256:{'0' * 64}",
        "/v2/%20/manifests/latest",
        "/v2/a b/manifests/latest?ns=",
        "/v2//manifests/latest",
        "/v2/manifests/latest",
        "/mellanox/rping-test/manifests/latest",
        "/v2/any/blobs/../../etc/passwd",
        "/",
        "/v2/_catalog",
    ],
)
def test_what_the_lab_does_not_have_is_not_found(service: Service, path: str) -> None:
    response, body = service.client.ask(path.replace(" ", "%20"))
    assert response.status == 404
    assert json.loads(body)["errors"][0]["code"] == "MANIFEST_UNKNOWN"


def test_an_archive_that_has_become_shorter_is_a_broken_transfer(service: Service) -> None:
    path = next(path for path in service.archives if path.name == "tool.tar")
    _response, body = service.client.ask("/v2/mellanox/rping-test/manifests/latest")
    os.truncate(path, 100_000)
    with pytest.raises(IncompleteRead):
        service.client.ask(f"/v2/any/name/blobs/{json.loads(body)['layers'][0]['digest']}")
