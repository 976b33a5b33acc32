# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and commands about a driver's repository, read and run by apt, dnf and zypper themselves.

apt runs the commands of a plan as they are, over directories of the test. Nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Iterable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import packages
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.failures import explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    CommandFailed,
    Operation,
    PutFile,
    Run,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import Family, family_of
from ansible_collections.rdma.fabric.tests.integration.isolated import lay_out, run_over
from ansible_collections.rdma.fabric.tests.lab.readers import Readers

VENDOR = Path(__file__).parents[1] / "fixtures" / "apt" / "vendor"
APT = ("/etc/apt", "/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg")
NEWER, OLDER = "2410mlnx54-1.2410114", "44.0-2"
_STANZA = "Package: {name}\nVersion: {version}\nArchitecture: all\nDescription: x\nMaintainer: x\n{more}\n"
_OFFERED = "Filename: ./{name}.deb\nSize: 1\nSHA256: " + "0" * 64 + "\n"
# dnf's own reader of its files, asked for what it made of ours.
ASK_DNF = """
import json, sys, dnf
base = dnf.Base()
base.conf.reposdir, base.conf.cachedir = [sys.argv[1]], sys.argv[2]
base.conf.substitutions.update(releasever="9", arch="x86_64", basearch="x86_64")
base.read_all_repos()
(found,) = base.repos.iter_enabled()
keys = ("id", "enabled", "gpgcheck", "priority", "module_hotfixes")
print(json.dumps({**{key: getattr(found, key) for key in keys}, "url": [*found.baseurl], "key": [*found.gpgkey]}))
"""


def family(identity: str, version: str) -> Family:
    found = family_of({"id": identity, "version_id": version})
    assert found is not None
    return found


DEBIAN, ROCKY, SLES = family("debian", "12"), family("rocky", "9.4"), family("sles", "15.7")


def repository(key: str | None) -> dict[str, Any]:
    """The vendor's flat repository on this machine; ``key`` is the name of the public key that is given for it."""
    return {"url": str(VENDOR), "gpg_key": (VENDOR / key).read_text() if key else None, "gpg_check": key is not None}


def commands(operations: Iterable[Operation]) -> list[Run]:
    return [operation for operation in operations if isinstance(operation, Run)]


def apt(readers: Readers, tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    for folder in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    status = tree / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.touch()
    return run_over(readers, tree, APT, argv)


def refreshed(readers: Readers, tree: Path, given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Have apt read the index of the repository, by our file and our command."""
    lay_out(tree, packages.repository_files(DEBIAN, given))
    (update,) = commands(packages.refresh_repository(DEBIAN, given))
    return apt(readers, tree, *update.argv)


@pytest.mark.parametrize("key", ["key.asc", None])
def test_apt_reads_a_signed_repository_and_one_that_is_declared_unchecked(
    readers: Readers, tmp_path: Path, key: str | None
) -> None:
    done = refreshed(readers, tmp_path, repository(key))
    assert done.returncode == 0, done.stderr
    shown = apt(readers, tmp_path, "apt-cache", "policy", "mlnx-tools").stdout
    assert "Candidate: 24.10.OFED.24.10.1.1.4.1-1\n" in shown


def test_apt_takes_nothing_that_another_key_signed(readers: Readers, tmp_path: Path) -> None:
    done = refreshed(readers, tmp_path, repository("another.asc"))
    assert done.returncode != 0
    told = explain(CommandFailed(("apt-get",), done.returncode, done.stderr), Run(("apt-get",)), packages.ERRORS)
    assert "signature does not fit the key" in told and "next: " in told


def test_apt_goes_back_to_the_distributions_packages_by_our_pin(readers: Readers, tmp_path: Path) -> None:
    """The vendor's builds are installed, newer and still on offer; one library has another name here."""
    chosen = family("debian", "13")
    offered = tmp_path / "distribution"
    stanzas = [(name, OLDER) for name in ("libibverbs1", "librdmacm1t64")]
    index = "".join(_STANZA.format(name=n, version=v, more=_OFFERED.format(name=n)) for n, v in stanzas)
    installed = "".join(
        _STANZA.format(name=name, version=NEWER, more="Status: install ok installed\n")
        for name in ("libibverbs1", "librdmacm1")
    )
    sources = f"deb [trusted=yes] file:{offered} ./\ndeb [trusted=yes] file:{VENDOR} ./\n"
    files = {"/distribution/Packages": index, "/distribution/Release": "Origin: Debian\nSuite: stable\n"}
    lay_out(tmp_path, {**files, "/etc/apt/sources.list": sources, "/var/lib/dpkg/status": installed})
    operations = packages.replace_by_distribution(chosen, ["libibverbs1", "librdmacm1"], [])
    lay_out(tmp_path, {operation.path: operation.text for operation in operations if isinstance(operation, PutFile)})
    update, install = commands(operations)
    done = apt(readers, tmp_path, *update.argv)
    assert done.returncode == 0, done.stderr
    done = apt(readers, tmp_path, *install.argv, "--simulate")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("Inst ", "Purg "))]
    assert sorted(line[:2] for line in lines) == [
        ["Inst", "libibverbs1"],
        ["Inst", "librdmacm1t64"],
        ["Purg", "librdmacm1"],
    ]
    assert f"Inst libibverbs1 [{NEWER}] ({OLDER} " in done.stdout


def test_dnf_reads_the_repository(readers: Readers, tmp_path: Path) -> None:
    given = {"url": "/srv/doca", "gpg_key": (VENDOR / "key.asc").read_text(), "gpg_check": True}
    lay_out(tmp_path, packages.repository_files(ROCKY, given))
    python = next((path for path in (readers.root / "usr/bin").glob("python3.?*")), Path("/usr/bin/python3"))
    variables = {
        "PYTHONPATH": str(readers.root / "usr/lib/python3/dist-packages"),
        "RPM_CONFIGDIR": str(readers.root / "usr/lib/rpm"),
    }
    done = readers.run([python, "-c", ASK_DNF, tmp_path / "etc/yum.repos.d", tmp_path / "cache"], **variables)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "id": packages.REPOSITORY,
        "enabled": True,
        "gpgcheck": True,
        "priority": 50,
        "module_hotfixes": True,
        "url": ["file:///srv/doca"],
        "key": [f"file://{packages.KEY_FILE}"],
    }
    assert "Invalid" not in done.stderr


def test_rpm_imports_an_armoured_key_from_our_file(readers: Readers, tmp_path: Path) -> None:
    """rpm leaves --import to rpmkeys; our mark stands above the armour."""
    given = {"url": "/srv/doca", "gpg_key": (VENDOR / "key.asc").read_text(), "gpg_check": True}
    lay_out(tmp_path, packages.repository_files(ROCKY, given))
    (imported, *_others) = commands(packages.refresh_repository(ROCKY, given))
    assert imported.argv == ("rpm", "--import", packages.KEY_FILE)
    (tmp_path / "keys").mkdir()
    keys = [f"--dbpath={tmp_path}/keys", "--import", str(tmp_path / packages.KEY_FILE[1:])]
    variables = {"RPM_CONFIGDIR": str(readers.root / "usr/lib/rpm")}
    done = readers.run([readers.program("usr/bin/rpmkeys"), *keys], **variables)
    assert (done.returncode, done.stderr) == (0, "")
    asked = [f"--dbpath={tmp_path}/keys", "-q", "gpg-pubkey", "--qf", "%{SUMMARY}"]
    shown = readers.run([readers.program("usr/bin/rpm"), *asked], **variables)
    assert "A key of tests, nobody has its other half" in shown.stdout


def test_zypper_reads_the_repository(readers: Readers, tmp_path: Path) -> None:
    given = {"url": "https://mirror.example/doca", "gpg_key": "/srv/KEY", "gpg_check": True}
    lay_out(tmp_path, packages.repository_files(SLES, given))
    zypper: list[str | Path] = [readers.program("usr/bin/zypper"), "--xmlout", "--root", tmp_path, "--non-interactive"]
    done = readers.run([*zypper, "repos", "--details"], ZYPP_LOCKFILE_ROOT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("<repo ")]
    for attribute in ('enabled="1"', 'priority="50"', 'gpgcheck="1"', f'alias="{packages.REPOSITORY}"'):
        assert attribute in line, line
    assert "<url>https://mirror.example/doca</url>" in done.stdout
