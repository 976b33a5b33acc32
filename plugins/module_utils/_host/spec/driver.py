# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of a host's driver stack and of its peer memory."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, TypedDict, TypeVar

from .driver_families import BUILDS, DKMS, FIRST_DKMS_ONLY, FLAVOURS, INBOX, MLNX_OFED, PRECOMPILED
from .driver_version import FIRST_DOCA_ONLY, parse_driver_version
from .place import Check, Place, known_keys, mapping_of, shown, switch_of, text_of

PRESENT, ABSENT = "present", "absent"
STATES = (PRESENT, ABSENT)
DISTRIBUTION, REPOSITORY, ARCHIVE, CONTAINER = "distribution", "repository", "archive", "container"
SOURCES = (DISTRIBUTION, REPOSITORY, ARCHIVE, CONTAINER)
NEVER, IF_IDLE, REQUIRED = "never", "if_idle", "required"
RELOADS = (NEVER, IF_IDLE, REQUIRED)
STAGE, UNLOAD = "stage", "unload"
STORAGE_POLICIES = (STAGE, UNLOAD)
AUTO, NONE = "auto", "none"
MECHANISMS = (AUTO, "nvidia-peermem", "nv_peer_mem", "dma-buf", NONE)

DRIVER_KEYS = (
    "state",
    "flavour",
    "version",
    "source",
    "repository",
    "archive",
    "build",
    "with_firmware_update",
    "reload",
    "storage_modules",
    "signing_key",
)
PEER_MEMORY_KEYS = ("state", "mechanism")
REPOSITORY_KEYS = ("url", "gpg_key", "gpg_check")
_URL = re.compile(r"(?:https?://|file:///|/)[!-~]{1,2000}")
_PATH = re.compile(r"/[ -~]{1,1000}")
_INSTALLERS = (".tgz", ".tar.gz", ".iso")
_REPOSITORY_PACKAGES = (".deb", ".rpm")
_ARMOUR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_MAX_KEY = 64 * 1024


_Default = TypeVar("_Default", str, None)


class Repository(TypedDict):
    """Where packages come from."""

    url: str | None
    gpg_key: str | None
    gpg_check: bool


class DriverSpec(TypedDict):
    """The NIC driver that a host shall have; None is for the host to decide."""

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
    """How GPU memory is reached over RDMA."""

    state: str
    mechanism: str


def driver(place: Place, value: object) -> DriverSpec | None:
    """Return the complete settings of the driver, None when nothing is said about it."""
    return None if value is None else driver_settings(place, value)


def driver_settings(place: Place, value: object) -> DriverSpec:
    """Return the settings of the driver with what they leave out."""
    given = mapping_of(place, value, "driver settings")
    known_keys(place, given, DRIVER_KEYS)
    settings: DriverSpec = {
        "state": _choice(place.at("state"), given.get("state"), STATES, PRESENT),
        "flavour": _choice(place.at("flavour"), given.get("flavour"), FLAVOURS, None),
        "version": _optional(place.at("version"), given.get("version"), "a driver release", _version_problem),
        "source": _choice(place.at("source"), given.get("source"), SOURCES, DISTRIBUTION),
        "repository": _repository(place.at("repository"), given.get("repository")),
        "archive": _optional(place.at("archive"), given.get("archive"), "a path on the host", _archive_problem),
        "build": _choice(place.at("build"), given.get("build"), BUILDS, DKMS),
        "with_firmware_update": _flag(place.at("with_firmware_update"), given.get("with_firmware_update"), False),
        "reload": _choice(place.at("reload"), given.get("reload"), RELOADS, IF_IDLE),
        "storage_modules": _choice(place.at("storage_modules"), given.get("storage_modules"), STORAGE_POLICIES, STAGE),
        "signing_key": _optional(
            place.at("signing_key"), given.get("signing_key"), "a path on the host", _path_problem
        ),
    }
    _check_together(place, settings, given)
    return settings


def peer_memory(place: Place, value: object) -> PeerMemorySpec | None:
    """Return the settings of peer memory, None when nothing is said about it."""
    if value is None:
        return None
    given = mapping_of(place, value, "peer memory settings")
    known_keys(place, given, PEER_MEMORY_KEYS)
    settings: PeerMemorySpec = {
        "state": _choice(place.at("state"), given.get("state"), STATES, PRESENT),
        "mechanism": _choice(place.at("mechanism"), given.get("mechanism"), MECHANISMS, AUTO),
    }
    if settings["state"] == ABSENT and settings["mechanism"] not in {AUTO, NONE}:
        place.at("mechanism").violation(
            f"is {settings['mechanism']} beside state absent, which leaves none", "leave one of the two out"
        )
    return settings


def _check_together(place: Place, settings: DriverSpec, given: Mapping[str, object]) -> None:
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
            f"{version.release} is no MLNX_OFED release: the last one is 24.10", "flavour: doca-ofed"
        )
    if settings["build"] == PRECOMPILED and version is not None and version.fields[:2] >= FIRST_DKMS_ONLY:
        place.at("build").violation(
            f"is precompiled, but repositories of {version.release} hold sources only (since DOCA 3.2)", "build: dkms"
        )
    archive = settings["archive"] or ""
    if source == ARCHIVE and archive.endswith(_INSTALLERS) and flavour not in {None, MLNX_OFED}:
        place.at("archive").violation(
            f"{shown(archive)} is an MLNX_OFED installer, flavour is {flavour}", "doca-ofed comes as .deb or .rpm"
        )


def _choice(place: Place, value: object, choices: Iterable[str], default: _Default) -> str | _Default:
    if value is None:
        return default
    if isinstance(value, str) and value in choices:
        return str(value)
    place.violation(f"is {shown(value)}, one of {', '.join(choices)} is needed")
    return default


def _flag(place: Place, value: object, default: bool) -> bool:
    given = switch_of(place, value)
    return default if given is None else given


def _optional(place: Place, value: object, what: str, check: Check) -> str | None:
    return None if value is None else text_of(place, value, what, check)


def _repository(place: Place, value: object) -> Repository | None:
    if value is None:
        return None
    given = mapping_of(place, value, "url, gpg_key and gpg_check")
    known_keys(place, given, REPOSITORY_KEYS)
    repository: Repository = {
        "url": _url(place.at("url"), given.get("url")),
        "gpg_key": _optional(
            place.at("gpg_key"), given.get("gpg_key"), "a public key or its path on the host", _key_problem
        ),
        "gpg_check": _flag(place.at("gpg_check"), given.get("gpg_check"), True),
    }
    if repository["gpg_check"] and not given.get("gpg_key"):
        place.at("gpg_key").violation(
            "is missing: packages run as root, so their signature is checked",
            "give the public key, or gpg_check: false for a repository that only you can write to",
        )
    if not repository["gpg_check"] and (repository["url"] or "").startswith("http://"):
        place.at("gpg_check").notice(
            "is false and the URL is http: whoever is on the way to the mirror can replace packages, which run as root",
            "use https, or give the public key",
        )
    return repository


def _version_problem(text: str) -> str:
    if parse_driver_version(text) is None:
        return "is no driver release such as 24.10-1.1.4.0 or doca3.1.0-25.07-0.9.7.0"
    return ""


def _url(place: Place, value: object) -> str | None:
    if isinstance(value, str) and "@" in value:
        # Not shown: what stands before the sign is a secret.
        place.violation("holds credentials", "keep them in the package manager's own configuration")
        return None
    return text_of(place, value, "the repository's URL or its path on the host", _url_problem)


def _url_problem(text: str) -> str:
    return "" if _URL.fullmatch(text) else "is no http, https or file URL and no absolute path"


def _path_problem(text: str) -> str:
    return "" if _PATH.fullmatch(text) else "is no absolute path"


def _archive_problem(text: str) -> str:
    known = (*_INSTALLERS, *_REPOSITORY_PACKAGES)
    return _path_problem(text) or ("" if text.endswith(known) else f"has none of the endings {', '.join(known)}")


def _key_problem(text: str) -> str:
    if text.lstrip().startswith(_ARMOUR):
        return "" if len(text) <= _MAX_KEY and text.isascii() else "is no armoured public key"
    return "" if _PATH.fullmatch(text) else "is neither an armoured public key nor an absolute path"
