# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the release still offered that a host is to have? Asked before the one that it has is removed for it.

A mirror that keeps the newest release only would leave a host that goes back with neither.
"""

from __future__ import annotations

from typing import Sequence

from ...engine.failures import Fault
from ...engine.operations import Found, Operation
from ...machine.access import Host
from ...spec.driver_families import Family
from ...spec.driver_version import DriverVersion, parse_packaged

_ASKED_SECONDS = 120.0
# Each lists all versions of a package that repositories have, by the indexes that were read last.
_LIST = {
    "apt": ("apt-cache", "madison"),
    "dnf": ("dnf", "--quiet", "--cacheonly", "repoquery"),
    "zypper": ("zypper", "--non-interactive", "--no-refresh", "search", "--details", "--match-exact"),
}
# zypper ends with this when nothing matches, and lists what is installed and in no repository so.
_ZYPPER_NONE = 104
_ZYPPER_INSTALLED = "(System Packages)"


def before_removal(family: Family, package: str, wanted: DriverVersion | None) -> Operation:
    """Return what fails, with nothing changed yet, where no repository has the package in the release that is wanted.

    What does not tell, such as a package manager without an index, keeps nobody from going on.
    """

    def operations(host: Host) -> Sequence[Operation]:
        lines = _versions(host, family, package)
        if lines is None or _is_among(lines, wanted):
            return ()
        found = {release.release for release in map(parse_packaged, lines) if release is not None}
        has = f"they have {', '.join(sorted(found))}" if found else "they have none"
        what = f"{package} of {wanted.release}" if wanted is not None else package
        raise Fault(
            f"no repository of this host offers {what} ({has}), so the release that is installed stays; next: have the "
            "repository offer it again, or name one that does (repository.url), and run again"
        )

    return Found(f"find {package} before what is installed is removed for it", operations, _ASKED_SECONDS)


def _versions(host: Host, family: Family, package: str) -> list[str] | None:
    """Return a line for each version that is offered, None where that can't be told."""
    done = host.run((*_LIST[family.manager], package), _ASKED_SECONDS)
    if done.rc == _ZYPPER_NONE and family.manager == "zypper":
        return []
    if done.rc != 0:
        return None
    lines = [line for line in done.stdout.splitlines() if package in line]
    return [line for line in lines if _ZYPPER_INSTALLED not in line]


def _is_among(lines: Sequence[str], wanted: DriverVersion | None) -> bool:
    releases = [parse_packaged(line) for line in lines]
    if wanted is None or any(release is None for release in releases):
        return bool(lines)
    return any(release is not None and release.fields == wanted.fields for release in releases)
