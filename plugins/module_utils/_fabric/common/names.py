# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for names: Kubernetes objects, labels, images, network interfaces.

Sources: apimachinery ``pkg/util/validation``, the OCI distribution specification, Linux ``dev_valid_name``
and ``ALTIFNAMSIZ``.
Every function returns no problem or says what is wrong with the text.
"""

from __future__ import annotations

import re
from typing import Callable, List

from .jsontext import Problem

Check = Callable[[str], List[Problem]]

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_IMAGE_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*", re.ASCII)
_REGISTRY = re.compile(r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?", re.ASCII)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_DRIVER_VERSION = re.compile(
    r"sha256:[0-9a-f]{64}"
    r"|doca\d+\.\d+(?:\.\d+)?-\d+\.\d+-(?:\d+\.\d+\.\d+\.\d+|\d+)-\d+(?:-[\w.-]+)?"
    r"|\d+\.\d+-\d+(?:\.\d+)*(?:-\d+)?(?:-[\w.-]+)?",
    re.ASCII,
)
_REQUIREMENT = re.compile(
    r"\s*!?\s*([^\s=!(),]+)\s*(?:(?:==?|!=)\s*([^\s=!(),]*)\s*|(?:in|notin)\s*\(([^()]*)\)\s*)?", re.ASCII
)
LONGEST_LABEL = 63
"""The most characters of a label's value, and of the name in its key."""

_LONGEST_SELECTOR = 4096
LONGEST_INTERFACE = 15
_LONGEST_ALTERNATIVE = 127
_NO_NAME = re.compile(r"[/:\s\x00-\x1f]")


def dns_label(text: str) -> list[Problem]:
    """Judge the name of a namespace, container or service (RFC 1123 label, at most 63 characters)."""
    return _dns(text, 63, dots=False)


def dns_subdomain(text: str) -> list[Problem]:
    """Judge the name of most objects (RFC 1123 subdomain, at most 253 characters)."""
    return _dns(text, 253, dots=True)


def label_key(text: str) -> list[Problem]:
    """Judge a label key, an extended resource or a taint key: ``[prefix/]name``."""
    prefix, slash, name = text.rpartition("/")
    if slash and (dns_subdomain(prefix) or "/" in prefix):
        return [Problem("", f"has the prefix {prefix[:80]!r}, which is not a DNS name", "write prefix/name")]
    return _label_name(name)


def label_value(text: str) -> list[Problem]:
    """Judge a label value: empty, or at most 63 letters, digits, ``-``, ``_`` and ``.``."""
    return _label_name(text) if text else []


def node_policy_name(text: str) -> list[Problem]:
    """Judge the name of a NicNodePolicy: at most 30 characters, because object names are derived from it.

    Source: the server, to which it is any object's name, and ``maxNicNodePolicyNameLength`` of
    ``api/v1alpha1/validator/nicpolicy_webhook.go``.
    """
    return dns_subdomain(text) or _too_long(text, 30)


def env_name(text: str) -> list[Problem]:
    """Judge the name of an environment variable."""
    if _ENV_NAME.fullmatch(text):
        return []
    return [
        Problem("", "is not a valid name of an environment variable", "use letters, digits, _, - and .; no digit first")
    ]


def interface(text: str) -> list[Problem]:
    """Judge a name that a CNI plugin looks an interface up by: its own, or an alternative one of up to 127 bytes.

    netlink's LinkByName, which the plugins use, takes what has more than 15 bytes for an alternative name.
    """
    if 0 < len(text.encode()) <= _LONGEST_ALTERNATIVE and text not in (".", "..") and not _NO_NAME.search(text):
        return []
    return [Problem("", "is not a valid name of a network interface", "1 to 127 bytes without slash, colon or space")]


def is_alternative(name: str) -> bool:
    """Tell whether a name is too long to be an interface's own, so that it can only be an alternative one."""
    return len(name.encode()) > LONGEST_INTERFACE


def repository(text: str) -> list[Problem]:
    """Judge the repository of an image: ``[registry[:port]/]path``, the path in lower case."""
    parts = text.split("/")
    if len(parts) > 1 or "." in parts[0] or ":" in parts[0]:
        registry, parts = parts[0], parts[1:]
        if not (_REGISTRY.fullmatch(registry) or _IMAGE_PART.fullmatch(registry)):
            return [Problem("", f"{registry[:80]!r} is not a valid registry", "write host[:port]/path")]
    if all(_IMAGE_PART.fullmatch(part) for part in parts):
        return []
    hint = "lower case letters, digits, '.', '_' and '-' between slashes; no tag and no https://"
    return [Problem("", "is not a valid image repository", hint)]


def image(text: str) -> list[Problem]:
    """Judge an image's name, which may begin with the end of its path, without tag."""
    if all(map(_IMAGE_PART.fullmatch, text.split("/"))):
        return []
    hint = "lower case letters and digits, joined by '.', '_' or '-'; registry and tag go to repository and version"
    return [Problem("", "is not a valid image name", hint)]


def version(text: str) -> list[Problem]:
    """Judge the version of an image: a tag or ``sha256:`` with 64 hexadecimal digits."""
    if _DIGEST.fullmatch(text):
        return []
    if text.startswith("sha256:"):
        return [Problem("", "is not a digest", "sha256: and 64 hexadecimal digits in lower case")]
    if _TAG.fullmatch(text):
        return []
    return [
        Problem("", "is not a valid image tag", "at most 128 letters, digits, '_', '.' and '-'; no '-' or '.' first")
    ]


def driver_version(text: str) -> list[Problem]:
    """Judge ``ofedDriver.version`` by the rule of the vendor's webhook (api/v1alpha1/validator).

    That takes digests in upper case as well, which name no image, and not yet what it ships itself as a beta of 26.10:
    ``doca3.6.0-26.10-043000-0``.
    """
    if _DRIVER_VERSION.fullmatch(text):
        return []
    hint = "write it like 24.10-0.7.0.0-0, doca3.4.1-26.04-1.1.0.0-1 or sha256:<64 hexadecimal digits>"
    return [Problem("", "is not a valid driver version", hint)]


def or_empty(check: Check) -> Check:
    """Return a check that accepts empty text, which upstream takes for "not given"."""
    return lambda text: check(text) if text else []


def label_selector(text: str) -> list[Problem]:
    """Judge a label selector as kubectl takes it: ``app=x,tier!=y,env in (a, b),!legacy``."""
    if len(text) > _LONGEST_SELECTOR:
        return _too_long(text, _LONGEST_SELECTOR)
    for requirement in re.split(r",(?![^(]*\))", text):
        match = _REQUIREMENT.fullmatch(requirement)
        key, values = (match[1], re.split(r"\s*,\s*", (match[2] or match[3] or "").strip())) if match else ("", [])
        if label_key(key) or any(label_value(value) for value in values):
            return [Problem("", f"{requirement.strip()[:80]!r} selects no labels", "write app=x,tier!=y,env in (a, b)")]
    return []


def _dns(text: str, longest: int, dots: bool) -> list[Problem]:
    parts = text.split(".") if dots else [text]
    if not all(_DNS_LABEL.fullmatch(part) for part in parts):
        hint = "lower case letters, digits and '-'" + (", in parts joined by '.'" if dots else "")
        return [
            Problem(
                "", "is not a valid Kubernetes name" if text else "is empty", f"{hint}; letter or digit at both ends"
            )
        ]
    return _too_long(text, longest)


def _label_name(text: str) -> list[Problem]:
    if not _LABEL_NAME.fullmatch(text):
        hint = "letters, digits, '-', '_' and '.'; letter or digit at both ends"
        return [Problem("", "is not a valid label name" if text else "has an empty name", hint)]
    return _too_long(text, LONGEST_LABEL)


def _too_long(text: str, longest: int) -> list[Problem]:
    if len(text) <= longest:
        return []
    return [Problem("", f"is {len(text)} characters long", f"at most {longest} are allowed")]
