# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer as every registry that the lab's images name, read-only, from their archives.

A pod whose image has no tag, as users write them, has its reference resolved each time it starts (the pull policy
``Always``), whatever the node already holds. ``python -m tests.lab.registry --images DIR --listen ADDRESS:PORT`` serves
the pulling part of the OCI distribution specification 1.1; container runtimes that use it as a mirror name the registry
they mean in the parameter ``ns``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tarfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence
from urllib.parse import parse_qs, urlsplit

from .images import CHUNK, InvalidImage, canonical_reference

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
BLOB = "application/octet-stream"


class Part(NamedTuple):
    """Bytes in an archive: a configuration or a layer."""

    archive: Path
    offset: int
    size: int


class Served(NamedTuple):
    """What is served: manifests by full reference and by digest, parts by digest ("sha256:...")."""

    manifests: Mapping[str, bytes]
    parts: Mapping[str, Part]


class Answer(NamedTuple):
    """A response: its status, type, digest (empty for an error) and body."""

    status: HTTPStatus
    content_type: str
    digest: str
    body: bytes | Part

    @property
    def size(self) -> int:
        """Length of the body in bytes."""
        return self.body.size if isinstance(self.body, Part) else len(self.body)


def served_images(archives: Sequence[Path]) -> Served:
    """Read what docker archives, as this lab writes them, hold."""
    manifests: dict[str, bytes] = {}
    parts: dict[str, Part] = {}
    for path in archives:
        with tarfile.open(path) as archive:
            members = {member.name: member for member in archive.getmembers()}
            described = archive.extractfile("manifest.json")
            if described is None:
                raise InvalidImage(f"{path} has no manifest.json")
            (entry,) = json.load(described)
        found = {}
        for name in (entry["Config"], *entry["Layers"]):
            digest = f"sha256:{name.partition('/')[0].partition('.')[0]}"
            found[digest] = Part(path, members[name].offset_data, members[name].size)
        parts.update(found)
        manifest = _manifest(found)
        for reference in (*entry["RepoTags"], digest_of(manifest)):
            manifests[reference] = manifest
    return Served(manifests, parts)


def digest_of(content: bytes) -> str:
    """Give the digest by which a registry names content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def answer(served: Served, target: str) -> Answer:
    """Answer a GET of ``target`` (path and query)."""
    split = urlsplit(target)
    if split.path == "/v2/":
        return Answer(HTTPStatus.OK, "application/json", "", b"{}")
    path, _slash, wanted = split.path.rpartition("/")
    place, _slash, kind = path.rpartition("/")
    name = place[len("/v2/") :] if place.startswith("/v2/") else ""
    if kind == "blobs" and wanted in served.parts:
        return Answer(HTTPStatus.OK, BLOB, wanted, served.parts[wanted])
    if kind == "manifests" and name:
        reference = wanted if ":" in wanted else _full(parse_qs(split.query), name, wanted)
        if reference in served.manifests:
            manifest = served.manifests[reference]
            return Answer(HTTPStatus.OK, MANIFEST, digest_of(manifest), manifest)
    error = {"code": "MANIFEST_UNKNOWN", "message": f"the lab has no image for {target}"}
    return Answer(HTTPStatus.NOT_FOUND, "application/json", "", json.dumps({"errors": [error]}).encode())


def _full(query: Mapping[str, list[str]], name: str, tag: str) -> str:
    registry = query.get("ns", ["docker.io"])[0]
    try:
        return canonical_reference(f"{registry}/{name}:{tag}")
    except InvalidImage:
        return ""


def _manifest(parts: Mapping[str, Part]) -> bytes:
    types = [CONFIG, *([LAYER] * (len(parts) - 1))]
    described = [
        {"mediaType": kind, "digest": digest, "size": part.size} for kind, (digest, part) in zip(types, parts.items())
    ]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
    return json.dumps(manifest, sort_keys=True).encode()


class Registry(ThreadingHTTPServer):
    """The server; it holds what its handlers answer from."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], served: Served) -> None:
        self.served = served
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    """One connection of a container runtime."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Registry

    def do_HEAD(self) -> None:
        """Answer with the headers only."""
        self._head(answer(self.server.served, self.path))

    def do_GET(self) -> None:
        """Answer with the content."""
        found = answer(self.server.served, self.path)
        self._head(found)
        if not isinstance(found.body, Part):
            self.wfile.write(found.body)
            return
        with found.body.archive.open("rb") as stream:
            stream.seek(found.body.offset)
            left = found.body.size
            while left > 0:
                chunk = stream.read(min(left, CHUNK))
                if not chunk:
                    self.close_connection = (
                        True  # the archive is shorter than it was: the client sees a broken transfer
                    )
                    return
                self.wfile.write(chunk)
                left -= len(chunk)

    def _head(self, found: Answer) -> None:
        self.send_response(found.status)
        self.send_header("Content-Type", found.content_type)
        self.send_header("Content-Length", str(found.size))
        if found.digest:
            self.send_header("Docker-Content-Digest", found.digest)
        self.end_headers()


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.registry", description="The lab's images, to be pulled.")
    parser.add_argument("--images", type=Path, required=True, help="a directory of docker archives, NAME.tar")
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Serve until the process is ended."""
    arguments = parse_arguments(argv)
    address, _colon, port = arguments.listen.rpartition(":")
    served = served_images(sorted(arguments.images.glob("*.tar")))
    with Registry((address, int(port)), served) as server:
        names = [name for name in served.manifests if not name.startswith("sha256:")]
        print(f"serving {len(names)} images on {address}:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
