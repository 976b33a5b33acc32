# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write container images without a registry or a container runtime: docker archives of one layer.

The format is that of ``docker save`` (Docker Image Specification v1.2), which ``ctr images import`` reads. The same
files give the same bytes: no clock, no user, no order of a directory has a part in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Mapping, NamedTuple, Sequence, Union

EPOCH = "1970-01-01T00:00:00Z"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STICKY = ("tmp", "var/tmp")
CHUNK = 1 << 20


class File(NamedTuple):
    """A regular file: its content, or the path of a file that has it, and its mode."""

    content: bytes | Path
    mode: int = 0o755


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Directory(NamedTuple):
    """An empty directory; those that hold files need not be named."""


Entry = Union[File, Link, Directory]


class Config(NamedTuple):
    """What a container runs when its pod does not say: the fields of an image's configuration."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    environment: tuple[str, ...] = (f"PATH={DEFAULT_PATH}",)


class InvalidImage(Exception):
    """What was asked for makes no image; the text says what and why."""


def canonical_reference(reference: str) -> str:
    """Give the full name of an image as a container runtime keeps it: with registry, and with a tag or a digest.

    "busybox" is "docker.io/library/busybox:latest" (the reference grammar of github.com/distribution/reference).
    """
    first, slash, rest = reference.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if has_registry else ("docker.io", reference)
    if not path or path.startswith(("/", ":", "@")) or any(character.isspace() for character in path):
        raise InvalidImage(f"{reference!r} is not a valid image reference")
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tagged = "@" in path or ":" in path.rpartition("/")[2]
    return f"{registry}/{path}" if tagged else f"{registry}/{path}:latest"


def write_layer(target: Path, entries: Mapping[str, Entry]) -> None:
    """Write the layer (a tar) that holds the entries, by their path without leading slash.

    Everything belongs to root and is of 1970. Missing parents are made. Raises ``InvalidImage`` for a path that leaves
    the image or lies below something that is no directory.
    """
    complete = _with_parents(entries)
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as layer:
        for path, entry in sorted(complete.items()):
            _add(layer, path, entry)


def write_image(
    target: Path, entries: Mapping[str, Entry], config: Config, references: Sequence[str], architecture: str
) -> None:
    """Write a docker archive of the entries, known by every one of ``references``, to a new file ``target``.

    ``architecture`` is Go's name of the machine, such as "amd64". The layer passes through a file beside ``target``.
    """
    names = sorted({canonical_reference(reference) for reference in references})
    if not names or any("@" in name for name in names):
        raise InvalidImage(f"{target.name} needs names with a tag, not {references!r}")
    layer = target.with_name(f".{target.name}.layer")
    try:
        write_layer(layer, entries)
        digest = file_digest(layer)
        described = _described(config, digest, architecture)
        config_name = f"{hashlib.sha256(described).hexdigest()}.json"
        layer_name = f"{digest}/layer.tar"
        manifest = _encoded([{"Config": config_name, "RepoTags": names, "Layers": [layer_name]}])
        with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive, layer.open("rb") as content:
            _add(archive, config_name, File(described, 0o644))
            header = _header(layer_name, 0o644)
            header.size = layer.stat().st_size
            archive.addfile(header, content)
            _add(archive, "manifest.json", File(manifest, 0o644))
    finally:
        layer.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """Give the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _with_parents(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    complete = dict(entries)
    for path in entries:
        pure = PurePosixPath(path)
        if pure.is_absolute() or str(pure) != path or ".." in pure.parts or path == ".":
            raise InvalidImage(f"{path!r} is not a path inside an image")
        for parent in pure.parents[:-1] if len(pure.parts) > 1 else ():
            if not isinstance(complete.setdefault(str(parent), Directory()), Directory):
                raise InvalidImage(f"{path} lies below {parent}, which is not a directory")
    return complete


def _header(path: str, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.mode = mode
    return header


def _add(archive: tarfile.TarFile, path: str, entry: Entry) -> None:
    if isinstance(entry, Link):
        header = _header(path, 0o777)
        header.type, header.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(header)
    elif isinstance(entry, Directory):
        header = _header(path, 0o1777 if path in STICKY else 0o755)
        header.type = tarfile.DIRTYPE
        archive.addfile(header)
    elif isinstance(entry.content, Path):
        header = _header(path, entry.mode)
        header.size = entry.content.stat().st_size
        with entry.content.open("rb") as content:
            archive.addfile(header, content)
    else:
        header = _header(path, entry.mode)
        header.size = len(entry.content)
        archive.addfile(header, io.BytesIO(entry.content))


def _described(config: Config, digest: str, architecture: str) -> bytes:
    """Give the image's configuration (OCI image specification, config.md) as JSON."""
    run = {
        "Entrypoint": list(config.entrypoint) or None,
        "Cmd": list(config.command) or None,
        "Env": list(config.environment),
        "User": config.user,
        "WorkingDir": "/",
    }
    return _encoded(
        {
            "architecture": architecture,
            "config": {name: value for name, value in run.items() if value},
            "created": EPOCH,
            "history": [{"created": EPOCH, "created_by": "rdma.fabric's lab"}],
            "os": "linux",
            "rootfs": {"diff_ids": [f"sha256:{digest}"], "type": "layers"},
        }
    )


def _encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
