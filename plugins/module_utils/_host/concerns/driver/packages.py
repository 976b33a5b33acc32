# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that install, replace and remove packages with apt, dnf and zypper."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, Sequence

from ...engine.failures import KEY_REJECTED, Fault
from ...engine.operations import Found, Operation, PutFile, RemoveFile, Run
from ...machine.access import Host
from ...machine.host_files import MARKER
from ...spec.driver import Repository
from ...spec.driver_families import Family
from ...spec.driver_version import DriverVersion, parse_packaged

REPOSITORY = "rdma-fabric-driver"
KEY_FILE = "/etc/pki/rpm-gpg/RPM-GPG-KEY-rdma-fabric-driver"
_REPOSITORY_FILES = {
    "apt": f"/etc/apt/sources.list.d/{REPOSITORY}.sources",
    "dnf": f"/etc/yum.repos.d/{REPOSITORY}.repo",
    "zypper": f"/etc/zypp/repos.d/{REPOSITORY}.repo",
}
PIN = "/etc/apt/preferences.d/rdma-fabric-inbox.pref"
# Every path at which these functions may put a file.
OWNED = (*_REPOSITORY_FILES.values(), KEY_FILE, PIN)
# Building modules for one kernel takes minutes on a small machine.
_INSTALL_SECONDS = 3600.0
_REFRESH_SECONDS = 600.0
# No questions, no restarts of services, and a wait for another package manager that is still running.
_APT = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "NEEDRESTART_SUSPEND=1",
    "apt-get",
    "--yes",
    "-o",
    "DPkg::Lock::Timeout=60",
    "-o",
    "Dpkg::Options::=--force-confold",
)
_DNF = ("dnf", "--assumeyes")
_ZYPPER = ("zypper", "--non-interactive")

# Their messages if a package of an index is gone or has changed, by source: apt-pkg/acquire-item.cc, librepo's
# downloader, libzypp's MediaFileNotFoundException.
_REPLACED = (
    "  404  ",
    "File not found - ",
    "Hash Sum mismatch",
    "Status code: 404",
    "mirrors were already tried",
    "not found on medium",
    # Of apt, which may never have read an index.
    "Unable to locate package",
)

_LOCKED = "another package manager is at work; next: wait for it (or for unattended upgrades) to end and run again"
_FULL = "a file system is full; next: free space in /var, /usr and /boot and run again"
_UNREACHABLE = (
    "the repository can't be reached; next: look at its URL, the proxy and the mirror, or use a local one (source: "
    "repository with a path), and run again"
)
_NO_FILE = (
    "the repository has no such file: its URL is wrong, or its index names a package that is gone; next: look at the "
    "URL and at who keeps the repository, and run again; where it was headers of a kernel, update the kernel and "
    "reboot first"
)
_UNSIGNED = (
    "the repository's signature does not fit the key, or that has expired; next: give the public key that signed it, "
    "as its owner has it now (repository.gpg_key), and run again; nothing of it was installed"
)
_OLD_DIGEST = (
    "the key vouches for itself by SHA-1, which this system's policy accepts no more; next: give it as its owner signs "
    "it now (repository.gpg_key), or sign a mirror by a key of your own, and run again"
)
_NO_DKMS = (
    "no repository of this host has dkms; next: enable the one that does (EPEL on Red Hat's family, Package Hub on "
    "SLES) or a mirror of it, and run again"
)
_NOT_OFFERED = (
    "no repository of this host has the package for this system and kernel, or dnf hides it (exclude, versionlock); "
    "next: check that source, release and repository are those for this distribution, and that headers of the running "
    "kernel are still published (else update the kernel and reboot first)"
)
_MIXED = (
    "packages of the distribution and of the vendor contradict each other; next: run apt-get -f install or dnf "
    "distro-sync once, remove foreign repositories of rdma-core, and run again"
)
_BUILD = (
    "the modules could not be built for this kernel; next: read /var/lib/dkms/*/*/build/make.log; a release that is "
    "older than the kernel does not compile, take a newer one"
)
_HELD = (
    "a package is held at its version; next: release it (apt-mark showhold, apt-mark unhold) and run again, or ask for "
    "the release that is installed"
)
_SCRIPT = (
    "a package can't be unpacked, configured or removed; next: repair what dpkg says there, or take a release whose "
    "packages are whole, and run again; dpkg --audit names what is half installed, and the next run finishes, replaces "
    "or removes that"
)
# Texts of apt, dpkg, dnf, rpm, zypper and dkms (with LC_ALL=C).
ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "Could not get lock": _LOCKED,
        "Unable to acquire the dpkg frontend lock": _LOCKED,
        "Unable to lock directory": _LOCKED,
        "lock was locked by": _LOCKED,
        "is used by another process": _LOCKED,
        "System management is locked": _LOCKED,
        "can't create transaction lock": _LOCKED,
        "Failed to obtain rpm transaction lock": _LOCKED,
        "No space left on device": _FULL,
        "You don't have enough free space": _FULL,
        "needs more space on the": _FULL,
        "more space needed on the": _FULL,
        "Not enough space available": _FULL,
        # Of sqv and of rpm, which say first why they do not take a key.
        "SHA1 is not considered secure": _OLD_DIGEST,
        "Hash algorithm SHA1 not available": _OLD_DIGEST,
        "NO_PUBKEY": _UNSIGNED,
        "is not signed": _UNSIGNED,
        "GPG check FAILED": _UNSIGNED,
        "Signature verification failed": _UNSIGNED,
        "signatures couldn't be verified": _UNSIGNED,
        "signatures were invalid": _UNSIGNED,
        "repomd.xml GPG signature verification error": _UNSIGNED,
        "Public key for": _UNSIGNED,
        "  404  ": _NO_FILE,
        "File not found - ": _NO_FILE,
        "Could not resolve": _UNREACHABLE,
        "Could not connect": _UNREACHABLE,
        "Connection timed out": _UNREACHABLE,
        "Failed to fetch": _UNREACHABLE,
        "Cannot download repomd.xml": _UNREACHABLE,
        "Failed to download metadata": _UNREACHABLE,
        "Failed to retrieve new repository metadata": _UNREACHABLE,
        "Temporary failure resolving": _UNREACHABLE,
        "No match for argument: dkms": _NO_DKMS,
        "nothing provides dkms": _NO_DKMS,
        "No provider of 'dkms'": _NO_DKMS,
        "Unable to locate package": _NOT_OFFERED,
        "has no installation candidate": _NOT_OFFERED,
        "Unable to find a match": _NOT_OFFERED,
        "No match for argument": _NOT_OFFERED,
        "No provider of": _NOT_OFFERED,
        "not found in package names": _NOT_OFFERED,
        # A dependency; the general message is printed, too.
        "but it is not installable": _NOT_OFFERED,
        "nothing provides": _NOT_OFFERED,
        "Held packages were changed": _HELD,
        "held broken packages": _MIXED,
        "unmet dependencies": _MIXED,
        "conflicting requests": _MIXED,
        "Bad return status for module build": _BUILD,
        "Error! Your kernel headers": (
            "headers of the kernel are missing; next: install them (linux-headers-..., kernel-devel-...) and run again"
        ),
        "Key was rejected by service": KEY_REJECTED,
        "Required key not available": (
            "Secure Boot is on and the module is not signed; next: let DKMS sign it with an enrolled key"
        ),
        "disagrees about version of symbol": (
            "modules of two stacks are mixed; next: rebuild what stands on ib_core (the GPU driver's DKMS module, "
            "Lustre) and reboot"
        ),
        "Unknown symbol": (
            "modules of two stacks are mixed; next: run depmod -a, rebuild what stands on ib_core, and reboot"
        ),
        "is in use": (
            "something came to use the module after the plan was made; next: run again, the plan names it then"
        ),
        "EBUSY": "something came to use the module after the plan was made; next: run again, the plan names it then",
        # The last: dpkg prints it for any reason.
        "error processing": _SCRIPT,
    }
)
_ASKED_SECONDS = 120.0
# Each lists all versions of a package in the indexes as last read.
_LIST = {
    "apt": ("apt-cache", "madison"),
    "dnf": ("dnf", "--quiet", "--cacheonly", "repoquery"),
    "zypper": ("zypper", "--non-interactive", "--no-refresh", "search", "--details", "--match-exact"),
}
# zypper's exit status if nothing matches; it lists packages in this way that are installed but in no repository.
_ZYPPER_NONE = 104
_ZYPPER_INSTALLED = "(System Packages)"


def repository_files(family: Family, repository: Repository) -> dict[str, str]:
    """Return the files that add a repository to the package manager, by path, including an armoured key."""
    path = _REPOSITORY_FILES[family.manager]
    url = str(repository["url"])
    url = f"file://{url}" if url.startswith("/") else url
    key = repository["gpg_key"] if repository["gpg_check"] else None
    if family.manager == "apt":
        return {path: _sources(url, key)}
    armoured = key is not None and not key.startswith("/")
    lines = [
        f"# {MARKER}",
        f"[{REPOSITORY}]",
        "name=NIC driver",
        f"baseurl={url}",
        "enabled=1",
        # The vendor's packages have the names of the distribution's; the lower number takes precedence.
        "priority=50",
        f"gpgcheck={int(key is not None)}",
        *([f"gpgkey=file://{KEY_FILE if armoured else key}"] if key else []),
    ]
    if family.manager == "dnf":
        lines.append("module_hotfixes=1")
    files = {path: "".join(f"{line}\n" for line in lines)}
    return {KEY_FILE: f"# {MARKER}\n{str(key).strip()}\n", **files} if armoured else files


def refresh_repository(family: Family, repository: Repository) -> list[Operation]:
    """Return how the package manager reads only the index of our repository."""
    if family.manager == "apt":
        ours = (
            "-o",
            f"Dir::Etc::SourceList={_REPOSITORY_FILES['apt']}",
            "-o",
            "Dir::Etc::SourceParts=-",
            "-o",
            "APT::Get::List-Cleanup=false",
            "-o",
            # Without it an unreachable repository is only a warning.
            "APT::Update::Error-Mode=any",
        )
        return [Run((*_APT, *ours, "update"), _REFRESH_SECONDS)]
    key = repository["gpg_key"] if repository["gpg_check"] else None
    imported: list[Operation] = []
    if key:
        imported.append(Run(("rpm", "--import", key if key.startswith("/") else KEY_FILE)))
    if family.manager == "dnf":
        return [*imported, Run((*_DNF, f"--repo={REPOSITORY}", "makecache", "--refresh"), _REFRESH_SECONDS)]
    return [*imported, Run((*_ZYPPER, "refresh", "--force", REPOSITORY), _REFRESH_SECONDS)]


def finish_interrupted() -> list[Operation]:
    """Return how an interrupted dpkg is finished, without which apt does nothing.

    1: a package can't be configured as it is. Later operations replace or remove it, or report why they can't.
    """
    words = ("dpkg", "--force-confold", "--configure", "--pending")
    return [Run(("env", "DEBIAN_FRONTEND=noninteractive", *words), _INSTALL_SECONDS, (0, 1))]


def complete() -> list[Operation]:
    """Return how apt installs the missing dependencies of half-installed packages.

    100: it can't. Later operations replace the packages, or report why they can't.
    """
    return [Run((*_APT, "--no-install-recommends", "--fix-broken", "install"), _INSTALL_SECONDS, (0, 100))]


def install(family: Family, names: Sequence[str], refresh: bool) -> list[Operation]:
    """Return how packages (or package files, by absolute path) are installed.

    All indexes are read first with ``refresh``, else only if a package in them is gone by now: dependencies of
    the driver come from other repositories, and apt itself advises to do so then.
    """
    before = _read_indexes(family) if refresh else _fetched(family, names)
    return [before, Run(_install_command(family, names), _INSTALL_SECONDS)]


def _install_command(family: Family, names: Sequence[str], *options: str) -> tuple[str, ...]:
    if family.manager == "apt":
        return (*_APT, "--no-install-recommends", *options, "install", *names)
    if family.manager == "dnf":
        return (*_DNF, *options, "install", *names)
    words = ("--no-recommends", "--allow-vendor-change", "--auto-agree-with-licenses")
    return (*_ZYPPER, "install", *words, *options, *names)


def _read_indexes(family: Family) -> Run:
    """Return how the indexes of all repositories are refreshed."""
    commands = {"apt": (*_APT, "update"), "dnf": (*_DNF, "makecache", "--refresh"), "zypper": (*_ZYPPER, "refresh")}
    return Run(commands[family.manager], _REFRESH_SECONDS)


def _fetched(family: Family, names: Sequence[str]) -> Operation:
    """Return how packages are downloaded before they are installed, to find a stale index before anything changes.

    The installation reports all other errors.
    """
    option = "--downloadonly" if family.manager == "dnf" else "--download-only"

    def operations(host: Host) -> Sequence[Operation]:
        done = host.run(_install_command(family, names, option), _INSTALL_SECONDS)
        is_stale = done.rc != 0 and any(sign in f"{done.stdout}{done.stderr}" for sign in _REPLACED)
        return [_read_indexes(family)] if is_stale else []

    return Found("read the indexes of packages again", operations, _INSTALL_SECONDS + _REFRESH_SECONDS)


def remove(family: Family, names: Sequence[str]) -> list[Operation]:
    """Return how packages are removed with their configuration; a missing package is no error."""
    if not names:
        return []
    if family.manager == "apt":
        return [Run((*_APT, "purge", *names), _INSTALL_SECONDS)]
    if family.manager == "dnf":
        return [Run((*_DNF, "--noautoremove", "remove", *names), _INSTALL_SECONDS)]
    # 104: none of them is installed any longer.
    return [Run((*_ZYPPER, "remove", *names), _INSTALL_SECONDS, (0, 104))]


def replace_by_distribution(family: Family, names: Sequence[str], gone: Sequence[str]) -> list[Operation]:
    """Return how the vendor's builds of packages are replaced by the distribution's older ones of the same names.

    ``gone`` are removed, by apt in the same transaction: apt tries to configure every half-installed package, so a call
    that does not name a package with a broken script would fail.
    """
    if not names:
        return remove(family, gone)
    if family.manager == "apt":
        here = list(dict.fromkeys(family.renamed.get(name, name) for name in names))
        # apt removes packages whose name ends with a minus.
        minus = [f"{name}-" for name in (*gone, *(name for name in names if name in family.renamed))]
        # Only a priority above 1000 lets apt go back to an older version.
        origins = "".join(
            f"Package: {' '.join(here)}\nPin: release o={origin}\nPin-Priority: 1001\n\n"
            for origin in ("Debian", "Ubuntu")
        )
        return [
            PutFile(PIN, f"Explanation: {MARKER}\n{origins}"),
            Run((*_APT, "update"), _REFRESH_SECONDS),
            Run((*_APT, "--allow-downgrades", "--purge", "install", *here, *minus), _INSTALL_SECONDS),
            RemoveFile(PIN),
        ]
    removed = remove(family, gone)
    if family.manager == "dnf":
        return [*removed, Run((*_DNF, "distro-sync", *names), _INSTALL_SECONDS)]
    return [*removed, Run((*_ZYPPER, "install", "--force", "--allow-vendor-change", *names), _INSTALL_SECONDS)]


def _sources(url: str, key: str | None) -> str:
    """Return a deb822 source (sources.list(5)): a flat repository, trusted by its own key only."""
    lines = [f"# {MARKER}", "Types: deb", f"URIs: {url}", "Suites: ./"]
    if key is None:
        lines.append("Trusted: yes")
    elif key.startswith("/"):
        lines.append(f"Signed-By: {key}")
    else:
        lines.append("Signed-By:")
        lines += [f" {line.strip() or '.'}" for line in key.strip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def before_removal(family: Family, package: str, wanted: DriverVersion | None, numbers: int = 5) -> Operation:
    """Return a check that fails, before any change, if no repository has the package in the wanted release.

    If the package manager can't tell, for example without an index, the check passes. Only the first ``numbers`` of
    the release are compared.
    """

    def operations(host: Host) -> Sequence[Operation]:
        lines = _versions(host, family, package)
        if lines is None or _is_among(lines, wanted, numbers):
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
    """Return a line for each available version, None if unknown."""
    done = host.run((*_LIST[family.manager], package), _ASKED_SECONDS)
    if done.rc == _ZYPPER_NONE and family.manager == "zypper":
        return []
    if done.rc != 0:
        return None
    lines = [line for line in done.stdout.splitlines() if package in line]
    return [line for line in lines if _ZYPPER_INSTALLED not in line]


def _is_among(lines: Sequence[str], wanted: DriverVersion | None, numbers: int) -> bool:
    releases = [parse_packaged(line) for line in lines]
    if wanted is None or any(release is None for release in releases):
        return bool(lines)
    return any(release is not None and release.fields[:numbers] == wanted.fields[:numbers] for release in releases)
