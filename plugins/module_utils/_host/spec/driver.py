# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the driver stack and peer memory in the spec."""

from __future__ import annotations

import re
from typing import Mapping, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown

from .driver_families import BUILDS, DKMS, FIRST_DKMS_ONLY, FLAVOURS, INBOX, MLNX_OFED, PRECOMPILED
from .driver_version import FIRST_DOCA_ONLY, parse_driver_version
from .peer_memory import AUTO, DMA_BUF, LEGACY, NONE, PEERMEM
from .place import Place, Readers, flag, matching, one_of, optional_text, record_of, text_of

PRESENT, ABSENT = "present", "absent"
STATES = (PRESENT, ABSENT)
DISTRIBUTION, REPOSITORY, ARCHIVE, CONTAINER = "distribution", "repository", "archive", "container"
SOURCES = (DISTRIBUTION, REPOSITORY, ARCHIVE, CONTAINER)
NEVER, IF_IDLE, REQUIRED = "never", "if_idle", "required"
RELOADS = (NEVER, IF_IDLE, REQUIRED)
STAGE, UNLOAD = "stage", "unload"
STORAGE_POLICIES = (STAGE, UNLOAD)
MECHANISMS = (AUTO, PEERMEM, LEGACY, DMA_BUF, NONE)

_URL = re.compile(r"(?:https?://|file:///|/)[!-~]{1,2000}")
_PATH = re.compile(r"/[ -~]{1,1000}")
_URL_CHECK = matching(_URL, "is neither an http, https or file URL nor an absolute path")
_PATH_CHECK = matching(_PATH, "is not an absolute path")
INSTALLERS = (".tgz", ".tar.gz", ".iso")
_REPOSITORY_PACKAGES = (".deb", ".rpm")
_ARMOUR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_MAX_KEY = 64 * 1024


class Repository(TypedDict):
    """A package repository."""

    url: str | None
    gpg_key: str | None
    gpg_check: bool


class DriverSpec(TypedDict):
    """The NIC driver of a host; None means no requirement."""

    state: str
    flavour: str | None
    version: str | None
    source: str
    repository: Repository | None
    archive: str | None
    build: str
    with_firmware_update: bool
    reload: str
    storage_modules: str
    signing_key: str | None


class PeerMemorySpec(TypedDict):
    """How RDMA accesses GPU memory."""

    state: str
    mechanism: str


def driver(place: Place, value: object) -> DriverSpec | None:
    """Return the complete settings of the driver, None if not set."""
    return None if value is None else driver_settings(place, value)


def driver_settings(place: Place, value: object) -> DriverSpec:
    """Return the settings of the driver with defaults."""
    settings = cast(DriverSpec, record_of(place, value, "driver settings", _DRIVER))
    _check_together(place, settings, value if isinstance(value, Mapping) else {})
    return settings


def peer_memory(place: Place, value: object) -> PeerMemorySpec | None:
    """Return the settings of peer memory, None if not set."""
    if value is None:
        return None
    settings = cast(PeerMemorySpec, record_of(place, value, "peer memory settings", _PEER_MEMORY))
    if settings["state"] == ABSENT and settings["mechanism"] not in {AUTO, NONE}:
        place.at("mechanism").violation(
            f"is {settings['mechanism']} beside state absent, which leaves none", "leave one of the two out"
        )
    return settings


def _check_together(place: Place, settings: DriverSpec, given: Mapping[object, object]) -> None:
    flavour, source = settings["flavour"], settings["source"]
    version = parse_driver_version(settings["version"] or "")
    if settings["state"] == ABSENT or flavour == INBOX:
        if settings["version"]:
            place.at("version").violation("names a release, but the inbox driver comes with the kernel", "leave it out")
        if settings["state"] == ABSENT and flavour not in {None, INBOX}:
            place.at("flavour").violation(f"is {flavour} beside state absent, which returns to the inbox driver")
        return
    for key, read in (("repository", settings["repository"]), ("archive", settings["archive"])):
        if source == key and not given.get(key):
            place.at(key).violation(f"is missing: source is {source}", f"give {key}")
        elif source != key and read:
            place.at(key).violation(f"is given, but source is {source}", "set source, or leave it out")
    if flavour == MLNX_OFED and version is not None and version.fields[:2] >= FIRST_DOCA_ONLY:
        place.at("version").violation(
            f"{version.release} is not an MLNX_OFED release: the last one is 24.10", "flavour: doca-ofed"
        )
    if settings["build"] == PRECOMPILED and version is not None and version.fields[:2] >= FIRST_DKMS_ONLY:
        place.at("build").violation(
            f"is precompiled, but repositories of {version.release} hold sources only (since DOCA 3.2)", "build: dkms"
        )
    archive = settings["archive"] or ""
    if source == ARCHIVE and archive.endswith(INSTALLERS) and flavour not in {None, MLNX_OFED}:
        place.at("archive").violation(
            f"{shown(archive)} is an MLNX_OFED installer, flavour is {flavour}", "doca-ofed comes as .deb or .rpm"
        )


def _repository(place: Place, value: object) -> Repository | None:
    if value is None:
        return None
    repository = cast(Repository, record_of(place, value, "url, gpg_key and gpg_check", _REPOSITORY))
    if repository["gpg_check"] and not (isinstance(value, Mapping) and value.get("gpg_key")):
        place.at("gpg_key").violation(
            "is missing: packages run as root, so their signature is checked",
            "give the public key, or gpg_check: false for a repository that only you can write to",
        )
    if not repository["gpg_check"] and (repository["url"] or "").startswith("http://"):
        place.at("gpg_check").notice(
            "is false and the URL is http: anyone on the way to the mirror can replace packages, which run as root",
            "use https, or give the public key",
        )
    return repository


def _version_problem(text: str) -> str:
    if parse_driver_version(text) is None:
        return "is not a driver release such as 24.10-1.1.4.0 or doca3.1.0-25.07-0.9.7.0"
    return ""


def _url(place: Place, value: object) -> str | None:
    if isinstance(value, str) and "@" in value:
        # Not shown in the message: the text before the sign is a secret.
        place.violation("holds credentials", "keep them in the package manager's own configuration")
        return None
    return text_of(place, value, "the repository's URL or its path on the host", _URL_CHECK)


def _archive_problem(text: str) -> str:
    known = (*INSTALLERS, *_REPOSITORY_PACKAGES)
    return _PATH_CHECK(text) or ("" if text.endswith(known) else f"has none of the endings {', '.join(known)}")


def _key_problem(text: str) -> str:
    if text.lstrip().startswith(_ARMOUR):
        return "" if len(text) <= _MAX_KEY and text.isascii() else "is not an armoured public key"
    return "" if _PATH.fullmatch(text) else "is neither an armoured public key nor an absolute path"


_DRIVER: Readers = {
    "state": one_of(STATES, PRESENT),
    "flavour": one_of(FLAVOURS, None),
    "version": optional_text("a driver release", _version_problem),
    "source": one_of(SOURCES, DISTRIBUTION),
    "repository": _repository,
    "archive": optional_text("a path on the host", _archive_problem),
    "build": one_of(BUILDS, DKMS),
    "with_firmware_update": flag(),
    "reload": one_of(RELOADS, IF_IDLE),
    "storage_modules": one_of(STORAGE_POLICIES, STAGE),
    "signing_key": optional_text("a path on the host", _PATH_CHECK),
}
_PEER_MEMORY: Readers = {"state": one_of(STATES, PRESENT), "mechanism": one_of(MECHANISMS, AUTO)}
_REPOSITORY: Readers = {
    "url": _url,
    "gpg_key": optional_text("a public key or its path on the host", _key_problem),
    "gpg_check": flag(default=True),
}
DRIVER_KEYS, PEER_MEMORY_KEYS, REPOSITORY_KEYS = tuple(_DRIVER), tuple(_PEER_MEMORY), tuple(_REPOSITORY)
