# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-networkd: which ``.network`` file an interface gets, and our drop-in for it.

Rules of systemd.network(5): the files of all directories are sorted by name, a file in a directory of higher priority
masks others of the same name, and an interface gets the first file whose [Match] section matches, and no other.
"""

from __future__ import annotations

import fnmatch
import posixpath
from typing import NamedTuple, Sequence

from ...machine.host_files import marked
from ...spec.routes import Route, Rule
from ..manager_shapes import NetworkFile
from .routes import networkd_lines

# By priority: a file in the first directory masks one of the same name in the others.
DIRECTORIES = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
)
DROP_IN = "90-rdma-fabric.conf"
_GLOB_SIGNS = frozenset("*?[!")
_UP_POLICIES = (None, "up", "always-up")


class Link(NamedTuple):
    """What [Match] sections are compared with. ``file`` is the one that networkd currently uses.

    ``kind`` is empty for hardware, and only hardware has a permanent address: the current address of a bond and its
    VLANs is that of a port.
    """

    name: str
    current_name: str
    mac: str
    permanent_mac: str
    path: str
    driver: str
    type: str
    kind: str
    file: str | None


def file_of(link: Link, files: Sequence[NetworkFile]) -> NetworkFile | None:
    """Return the file that configures ``link`` once it has its name; ``files`` is the result of ``read_networkd``."""
    return next((file for file in files if matches(file, link)), None)


def matches(file: NetworkFile, link: Link) -> bool:
    """Return whether a file's [Match] section matches.

    For conditions that can't be evaluated here (udev properties, alternative names, the kernel command line),
    networkd's current choice for the interface decides; all other conditions must still match.
    """
    rules = file["match"]
    judged = [fits(key, words, link) for key, words in rules.items() if key != "Name"]
    if False in judged:
        return False
    named = "Name" not in rules or _globs(rules["Name"], link.name)
    if not named:
        # If no glob matches the name, but networkd chose the file, a glob matches an alternative name.
        named = link.file == file["path"] and not _globs(rules["Name"], link.current_name)
    return named and (None not in judged or link.file == file["path"])


def names_interfaces(file: NetworkFile) -> bool:
    """Return whether a file lists its interfaces by name, so that it never configures any that appear later."""
    rules = file["match"]
    listed = [word for key in ("Name", "Path") for word in rules.get(key, ())]
    literal = bool(listed) and not any(_GLOB_SIGNS.intersection(word) for word in listed)
    return literal or bool({"MACAddress", "PermanentMACAddress"}.intersection(rules))


def fits(key: str, words: Sequence[str], link: Link) -> bool | None:
    """Return whether a condition of a [Match] section matches, None if unknown; also for ``.link`` files."""
    addresses = {"MACAddress": link.mac, "PermanentMACAddress": link.permanent_mac}
    if key in addresses:
        return addresses[key] in [_plain_address(word) for word in words]
    judged = {"Path": link.path, "Driver": link.driver, "Type": link.type, "Kind": link.kind}
    if key not in judged:
        return None
    return _globs(words, judged[key])


def _globs(words: Sequence[str], text: str) -> bool:
    """Return whether text matches one of the globs; an exclamation mark before the first inverts the whole list."""
    inverted = bool(words) and words[0].startswith("!")
    globs = [words[0][1:], *words[1:]] if inverted else list(words)
    return any(fnmatch.fnmatchcase(text, glob) for glob in globs) != inverted


def _plain_address(word: str) -> str:
    """Return an address with colons; networkd also accepts hyphens and Cisco's dots."""
    digits = "".join(c for c in word.lower() if c in "0123456789abcdef")
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2)) if len(digits) >= 12 else word.lower()


def drop_in_path(file: NetworkFile) -> str:
    """Return the path of our drop-in for a ``.network`` file."""
    return posixpath.join(DIRECTORIES[0], f"{posixpath.basename(file['path'])}.d", DROP_IN)


def drop_in_text(
    file: NetworkFile,
    mtu: int | None,
    state: str | None,
    routes: Sequence[Route] = (),
    rules: Sequence[Rule] = (),
) -> str | None:
    """Return our drop-in for ``file``, None if none is needed: networkd brings its interfaces up itself."""
    lines = [] if mtu is None else [f"MTUBytes={mtu}"]
    if state == "down":
        lines.append("ActivationPolicy=down")
    elif state == "up" and file["activation"] not in _UP_POLICIES:
        lines.append("ActivationPolicy=up")
    lines = ["[Link]", *lines] if lines else []
    lines += networkd_lines(routes, rules)
    return marked(lines) if lines else None
