# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a host's driver: by its own settings and by policies. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from ...engine.context import Context, requests_for
from ...spec.driver import (
    ABSENT,
    CONTAINER,
    FIRST_DOCA_ONLY,
    REPOSITORY,
    DriverSpec,
    DriverVersion,
    Repository,
    driver_settings,
    is_image_digest,
    parse_driver_version,
)
from ...spec.driver_families import DOCA_OFED, FLAVOUR_TITLES, INBOX, MLNX_OFED
from ...spec.host import HostRequest
from ...spec.place import Found, Place

VARIABLE = "rdma_fabric_driver"
_DOCA_IMAGE = "doca-driver"


class Wish(NamedTuple):
    """The wanted driver; ``settings`` are those of ``wanted.driver``, complete.

    One that ``waits`` is for hosts without a vendor's driver; on others it takes consent.
    """

    asked_by: str
    flavour: str
    version: DriverVersion | None
    settings: DriverSpec
    waits: bool = False

    @property
    def is_vendor(self) -> bool:
        """Return whether a vendor's stack is wanted."""
        return self.flavour != INBOX

    @property
    def repository(self) -> Repository | None:
        """Return the repository that packages come from, None where they come from elsewhere."""
        return self.settings["repository"] if self.settings["source"] == REPOSITORY else None

    @property
    def returns(self) -> bool:
        """Return whether state absent asks for the way back, after which nothing of ours is kept."""
        return self.settings["state"] == ABSENT

    @property
    def title(self) -> str:
        """Return what a person calls it: ``DOCA-OFED 24.10-1.1.4.0``."""
        title = FLAVOUR_TITLES[self.flavour]
        return f"{title} {self.version.release}" if self.version else title


class Unclear(NamedTuple):
    """Why it can't be told what is wanted: what was to be decided, who asks, and what to do."""

    action: str
    reason: str
    detail: str


def wish_of(context: Context) -> Wish | Unclear | None:
    """Return what is wanted of the driver, None when nobody asks for anything."""
    own = context.desired["driver"]
    requests = requests_for(context, "driver")
    if len(requests) > 1:
        names = " and ".join(f"{request['source']} ({_section(request).get('version')})" for request in requests)
        detail = "narrow their nodeSelector so that one is left"
        return Unclear("choose between contradicting driver requests", f"{names} all select this host", detail)
    if own and requests and _in_container(requests[0]) and own["source"] != CONTAINER:
        return Unclear(
            "choose between packages and a container of the driver",
            f"{requests[0]['source']} has its driver in a container, and {VARIABLE} is about packages",
            f"leave {VARIABLE} out for this host, or keep the policy off its node with a nodeSelector",
        )
    if own and (own["state"] == ABSENT or own["flavour"] or own["version"]):
        return _own_wish(own, requests[0] if requests else None)
    return _requested_wish(requests[0], own) if requests else None


def flavour_of(image: object, version: DriverVersion | None) -> str:
    """Return the flavour that a release means: DOCA-OFED since 25.01, or when an operator's DOCA image names it."""
    newer = version is not None and (version.doca is not None or version.fields[:2] >= FIRST_DOCA_ONLY)
    return DOCA_OFED if newer or image == _DOCA_IMAGE else MLNX_OFED


def _in_container(request: HostRequest) -> bool:
    """Return whether a policy has the driver of its nodes in a container, and asks hosts for no packages."""
    return _section(request).get("source") == CONTAINER


def _section(request: HostRequest | None) -> Mapping[str, object]:
    """Return what a policy says of the driver, nothing without one."""
    return (request["driver"] if request is not None else None) or {}


def _own_wish(own: DriverSpec, request: HostRequest | None) -> Wish | Unclear:
    version = parse_driver_version(own["version"] or "")
    flavour = INBOX if own["state"] == ABSENT else own["flavour"] or flavour_of(None, version)
    asked = parse_driver_version(str(_section(request).get("version") or ""))
    if request is not None and asked is not None and (version is None or version.fields != asked.fields):
        return Unclear(
            "choose between contradicting driver requests",
            f"{request['source']} asks for {asked.release}, {VARIABLE} for {own['version'] or flavour}",
            "let them name one release, or leave one of them out",
        )
    return Wish(VARIABLE, flavour, version, own)


def _requested_wish(request: HostRequest, own: DriverSpec | None) -> Wish | Unclear:
    section = _section(request)
    text = str(section.get("version") or "")
    version = parse_driver_version(text)
    if version is None and not _in_container(request):
        reason = f"{request['source']} asks for an ofedDriver"
        if is_image_digest(text):
            detail = f"a digest does not say which release it holds; name it in {VARIABLE}: {{version: ...}}"
        else:
            detail = f"its version {text!r} is neither a driver release such as 24.07-0.6.1.0-0 nor a sha256 digest"
        return Unclear("read the wanted driver version", reason, detail)
    asked = {"storage_modules": section["storage_modules"]} if section.get("storage_modules") else {}
    if _in_container(request):
        asked = {"source": CONTAINER}
    settings = own if own is not None else driver_settings(Place(Found(), VARIABLE), asked)
    waits = section.get("auto_upgrade") is False
    return Wish(str(request["source"]), flavour_of(section.get("image"), version), version, settings, waits)
