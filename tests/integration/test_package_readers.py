# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and commands about a driver's repository, read and run by apt, dnf and zypper themselves.

apt runs the commands of a plan as they are, over directories of the test. Nothing is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterable, Iterator, Sequence, cast

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import packages
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.failures import explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    CommandFailed,
    Found,
    Operation,
    PutFile,
    Run,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver import Repository
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


def repository(key: str | None) -> Repository:
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


def refreshed(readers: Readers, tree: Path, given: Repository) -> subprocess.CompletedProcess[str]:
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


class ByApt:
    """A host of which only apt is asked, over directories of the test."""

    def __init__(self, readers: Readers, tree: Path) -> None:
        self._readers, self._tree = readers, tree

    def run(self, argv: Sequence[str], _timeout: float) -> CommandResult:
        done = apt(self._readers, self._tree, *argv)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def lacks(self, names: Sequence[str]) -> Sequence[Operation]:
        """What is to be done before these packages are installed."""
        found, _install = packages.install(DEBIAN, names, refresh=False)
        assert isinstance(found, Found)
        return found.operations(cast(Host, self))


def publish(folder: Path, version: str) -> None:
    """Have a repository of others offer one package in this version alone."""
    shutil.rmtree(folder, ignore_errors=True)
    control = folder / "of-others/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text(_STANZA.format(name="of-others", version=version, more="").rstrip() + "\n")
    path = folder / f"of-others_{version}.deb"
    subprocess.run(["dpkg-deb", "--build", folder / "of-others", path], check=True, capture_output=True)
    data = path.read_bytes()
    offered = f"Filename: ./{path.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    index = _STANZA.format(name="of-others", version=version, more=offered)
    # By its own index apt knows whether the other one is as before.
    release = f"SHA256:\n {hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages\n"
    lay_out(folder, {"/Packages": index, "/Release": f"Origin: others\n{release}"})
    # What was not modified since is not read again, and two are published within a second.
    for name in ("Packages", "Release"):
        os.utime(folder / name, (float(version), float(version) * 1000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a web server of the repository in ``others``."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path / "others"))) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def test_indexes_are_read_again_once_where_a_package_of_others_is_gone(
    readers: Readers, tmp_path: Path, server: str
) -> None:
    others, host = tmp_path / "others", ByApt(readers, tmp_path / "host")
    publish(others, "1.0")
    files = {"/etc/apt/sources.list": f"deb [trusted=yes] {server} ./\n"}
    lay_out(tmp_path / "host", {**files, "/etc/apt/apt.conf.d/direct": 'Acquire::http::Proxy "DIRECT";\n'})
    assert host.run(["apt-get", "update"], 60).rc == 0
    publish(others, "1.1")
    assert host.run(["apt-get", "--yes", "--download-only", "install", "of-others"], 60).rc == 100
    (update,) = commands(host.lacks(["of-others"]))
    assert host.run(update.argv, 60).rc == 0
    assert host.lacks(["of-others"]) == []
    assert [path.name for path in (tmp_path / "host/var/cache/apt/archives").glob("*.deb")] == ["of-others_1.1_all.deb"]
    # What apt does not know may be in an index that was never read; of what no repository has the installation tells.
    assert commands(host.lacks(["of-nobody"])) == [update]


def test_dnf_reads_the_repository(readers: Readers, tmp_path: Path) -> None:
    given: Repository = {"url": "/srv/doca", "gpg_key": (VENDOR / "key.asc").read_text(), "gpg_check": True}
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
    given: Repository = {"url": "/srv/doca", "gpg_key": (VENDOR / "key.asc").read_text(), "gpg_check": True}
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
    given: Repository = {"url": "https://mirror.example/doca", "gpg_key": "/srv/KEY", "gpg_check": True}
    lay_out(tmp_path, packages.repository_files(SLES, given))
    zypper: list[str | Path] = [readers.program("usr/bin/zypper"), "--xmlout", "--root", tmp_path, "--non-interactive"]
    done = readers.run([*zypper, "repos", "--details"], ZYPP_LOCKFILE_ROOT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("<repo ")]
    for attribute in ('enabled="1"', 'priority="50"', 'gpgcheck="1"', f'alias="{packages.REPOSITORY}"'):
        assert attribute in line, line
    assert "<url>https://mirror.example/doca</url>" in done.stdout
