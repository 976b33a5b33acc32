# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver as packages: mofed_driver on a root of Debian with its own apt, dpkg, DKMS, kmod and initramfs-tools.

The packages have the names, versions, dependencies and scripts of the vendor's (tests/fixtures/vendor/packages.yml). A
host "boots" into the modules that modprobe finds on its disk, which fails where they are not whole. Of what
interrupts it some is taken by default, with ``RDMA_FABRIC_SWEEPS=whole`` all.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.lab.driver_root import REPOSITORY, gather_driver_root, kernel_of, lacking
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error
from ansible_collections.rdma.fabric.tests.lab.root_host import RootHost
from ansible_collections.rdma.fabric.tests.lab.vendor_debs import (
    BUILD,
    INSTALLED,
    KERNEL_PACKAGE,
    Change,
    driver_of,
    make_repository,
    module_names,
    releases,
)
from ansible_collections.rdma.fabric.tests.sweeps import some_of

OLD, NEW = releases()
ABSENT: dict[str, Any] = {"state": "absent", "reload": "never"}
SICK = "/etc/sick"
# What the packages have besides the vendor's: a script to be interrupted in, between two packages of which one needs
# the other in its very version; and one of the newer release that fails while the host is sick.
WAITS = Change("infiniband-diags", "preinst", ":\n")
FAILS = Change("rdma-core", "postinst", f"if [ -e {SICK} ]; then echo the host is sick >&2; exit 1; fi\n")
CHANGES = {OLD: (WAITS,), NEW: (WAITS, FAILS)}
# A lock is held while apt waits here, before it calls dpkg.
APT_WAITS = """DPkg::Pre-Invoke {"sh -c 'if [ -p /run/hold/apt ]; then cat /run/hold/apt; fi'";};\n"""


def wish(release: str) -> dict[str, Any]:
    repository = {"url": f"/srv/{release}", "gpg_check": False}
    return {
        "flavour": "doca-ofed",
        "version": release,
        "source": "repository",
        "repository": repository,
        "reload": "never",
    }


class Hosts(NamedTuple):
    """What hosts are made of: their root, a layer over it with both releases, and where they keep what they make."""

    root: Path
    own: Path
    built: Path
    directory: Path

    def new(self, *layers: Path) -> RootHost:
        """A host that has, over the root, what others have left as ``layers``."""
        place = Path(tempfile.mkdtemp(dir=self.directory))
        document = FLEET["egx-02"]().document()
        layers = (*layers, self.own, self.root)
        return RootHost(place, layers, document, kernel_of(self.root), built=self.built)

    def keep(self, host: RootHost, name: str) -> Path:
        """Keep what a host has on its disk, for others to start from."""
        host.keep(self.directory / name)
        return self.directory / name


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Hosts:
    flaws = lacking()
    if flaws:
        do_without("\n".join(["no host of a root directory:", *flaws]))
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    try:
        with capture.global_and_fixture_disabled():
            root = gather_driver_root(os.environ, to_standard_error)
    except ProgramsUnavailable as reason:
        do_without(f"no root to install drivers in: {reason}")
    directory = tmp_path_factory.mktemp("hosts")
    own, built = directory / "own", directory / "built"
    for release in (OLD, NEW):
        make_repository(own / "srv" / release, release, *CHANGES[release])
    settings = own / "etc/initramfs-tools/conf.d/quick"
    settings.parent.mkdir(parents=True)
    settings.write_text("COMPRESSLEVEL=1\n", encoding="utf-8")
    built.mkdir()
    return Hosts(root, own, built, directory)


class Installed(NamedTuple):
    """The older release as it was installed: what the runs gave, and what the host has on its disk."""

    layer: Path
    first: dict[str, Any]
    second: dict[str, Any]
    after_boot: dict[str, Any]
    loaded: list[str]


@pytest.fixture(scope="module")
def installed(hosts: Hosts) -> Installed:
    with hosts.new() as host:
        first, second = host.module("mofed_driver", wish(OLD)), host.module("mofed_driver", wish(OLD))
        loaded = host.boot()
        after_boot = host.module("mofed_driver", wish(OLD))
        return Installed(hosts.keep(host, "installed"), first, second, after_boot, loaded)


@pytest.fixture(scope="module")
def failed(hosts: Hosts, installed: Installed) -> tuple[Path, dict[str, Any], list[str]]:
    """A host whose upgrade failed in a script, what the run gave, and the modules that it would load."""
    with hosts.new(installed.layer) as host:
        (host.root / SICK[1:]).touch()
        result = host.module("mofed_driver", wish(NEW))
        return hosts.keep(host, "failed"), result, host.loadable("mlx5_ib")


def packages(host: RootHost) -> list[str]:
    """Every package with its version and state, also those that left nothing but their configuration."""
    return host.told("dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Status}\n").splitlines()


def configuration(host: RootHost) -> list[str]:
    return host.told("find", "/etc", "/usr/lib/modules", "/usr/src", "-xdev", "!", "-type", "d").splitlines()


def stems(files: list[str]) -> list[str]:
    return [Path(file).name.partition(".")[0] for file in files]


def is_whole(host: RootHost) -> bool:
    """Whether dpkg has nothing to complain about, and apt nothing left to do."""
    return host.told("dpkg", "--audit") == "" and host.run("apt-get", "check").returncode == 0


def assert_holds(host: RootHost, wanted: dict[str, Any]) -> None:
    """The host boots into the wanted driver, dpkg has all packages whole, and the next run changes nothing."""
    assert is_whole(host), host.run("dpkg", "--audit").stdout
    files = host.boot()
    vendors = [file for file in files if "/updates/" in file]
    release = wanted.get("version")
    assert stems(vendors) == (module_names() if release else [])
    again = host.module("mofed_driver", wanted)
    assert (again.get("failed"), again["changed"], again["reboot_required"]) == (None, False, False), again["msg"]
    running = again["driver"]["running"]
    assert running == {
        "flavour": "doca-ofed" if release else "inbox",
        "version": driver_of(release) if release else None,
    }


def test_the_vendors_driver_is_installed_once(installed: Installed) -> None:
    assert (installed.first.get("failed"), installed.first["changed"]) == (None, True), installed.first["msg"]
    assert installed.first["reboot_required"] is True
    assert (installed.second["changed"], installed.second["reboot_required"]) == (False, True), installed.second["msg"]
    assert stems(installed.loaded) == module_names()
    assert all("/updates/dkms/" in file for file in installed.loaded)
    after = installed.after_boot
    assert (after["changed"], after["reboot_required"]) == (False, False), after["msg"]
    assert after["driver"]["running"] == {"flavour": "doca-ofed", "version": driver_of(OLD)}


def test_an_upgrade_replaces_the_release_and_its_removal_leaves_the_distributions_own(
    hosts: Hosts, installed: Installed
) -> None:
    with hosts.new() as host:
        before = packages(host), configuration(host)
    with hosts.new(installed.layer) as host:
        upgraded = host.module("mofed_driver", wish(NEW))
        assert (upgraded.get("failed"), upgraded["changed"]) == (None, True), upgraded["msg"]
        assert host.module("mofed_driver", wish(NEW))["changed"] is False
        assert_holds(host, wish(NEW))
        removed = host.module("mofed_driver", ABSENT)
        assert (removed.get("failed"), removed["changed"]) == (None, True), removed["msg"]
        assert host.module("mofed_driver", ABSENT)["changed"] is False
        assert_holds(host, ABSENT)
        assert (packages(host), configuration(host)) == before


def test_a_script_that_fails_is_told_and_leaves_a_driver_to_boot_into(
    failed: tuple[Path, dict[str, Any], list[str]],
) -> None:
    _layer, result, loadable = failed
    assert result["failed"] is True
    assert "the host is sick" in result["msg"]
    assert "error processing package rdma-core" in result["msg"]
    assert "next: repair what dpkg says there" in result["msg"]
    assert stems(loadable) == module_names()


@pytest.mark.parametrize(
    "wanted",
    some_of(
        [
            pytest.param(wish(NEW), id="repaired"),
            pytest.param(wish(OLD), id="older release"),
            pytest.param(ABSENT, id="absent"),
        ],
        2,
    ),
)
def test_after_a_script_that_failed_the_next_run_gets_there(
    hosts: Hosts, failed: tuple[Path, dict[str, Any], list[str]], wanted: dict[str, Any]
) -> None:
    """Only who wants the release whose script failed has to repair what it failed for."""
    with hosts.new(failed[0]) as host:
        assert not is_whole(host)
        if wanted == wish(NEW):
            (host.root / SICK[1:]).unlink()
        result = host.module("mofed_driver", wanted)
        assert (result.get("failed"), result["changed"]) == (None, True), result["msg"]
        assert_holds(host, wanted)


@pytest.mark.parametrize(
    ("where", "was", "wanted"),
    some_of(
        [
            pytest.param("infiniband-diags.preinst", None, wish(OLD), id="unpacking"),
            pytest.param(INSTALLED, OLD, wish(NEW), id="the modules are in place"),
            pytest.param(f"{KERNEL_PACKAGE}.prerm", OLD, ABSENT, id="removing the modules"),
        ],
        2,
    ),
)
def test_after_a_loss_of_power_the_next_run_gets_there(
    hosts: Hosts, installed: Installed, where: str, was: str | None, wanted: dict[str, Any]
) -> None:
    with hosts.new(*([installed.layer] if was else [])) as host:
        host.hold(where)
        running = host.start_module("mofed_driver", wanted)
        let_go = host.reach(where, running)
        host.cut_power()
        os.close(let_go)
        running.communicate()
        assert not is_whole(host)
        result = host.module("mofed_driver", wanted)
        assert (result.get("failed"), result["changed"]) == (None, True), result["msg"]
        assert_holds(host, wanted)


def test_while_another_apt_has_the_lock_nothing_is_begun(hosts: Hosts, installed: Installed) -> None:
    with hosts.new(installed.layer) as host:
        (host.root / "etc/apt/apt.conf.d/99waits").write_text(APT_WAITS)
        host.hold("apt")
        other = host.start("apt-get", "--yes", "install", "libibverbs-dev")
        let_go = host.reach("apt", other)
        refused = host.module("mofed_driver", wish(NEW))
        os.close(let_go)
        said, complaints = other.communicate()
        assert other.returncode == 0, said + complaints
        assert (refused["failed"], refused["changed"]) == (True, False)
        assert "the package manager's lock is held by apt-get (pid " in refused["msg"]
        assert "wait for it to end and run again" in refused["msg"]


def test_a_package_that_is_held_is_told_before_anything_is_replaced(hosts: Hosts, installed: Installed) -> None:
    with hosts.new(installed.layer) as host:
        host.told("apt-mark", "hold", KERNEL_PACKAGE)
        before = packages(host)
        refused = host.module("mofed_driver", wish(NEW))
        assert refused["failed"] is True
        assert "a package is held at its version; next: release it" in refused["msg"]
        assert packages(host) == before
        assert stems(host.boot()) == module_names()


@pytest.mark.parametrize(
    ("where", "loads"),
    [("infiniband-diags.preinst", "updates"), (BUILD, "kernel")],
    ids=["unpacking", "building the modules"],
)
def test_after_a_disk_that_got_full_the_next_run_gets_there(
    hosts: Hosts, installed: Installed, where: str, loads: str
) -> None:
    """Until then it is the former driver that loads, once that was removed the kernel's own."""
    with hosts.new(installed.layer) as host:
        host.hold(where)
        running = host.start_module("mofed_driver", wish(NEW))
        let_go = host.reach(where, running)
        host.fill()
        os.close(let_go)
        failed = json.loads(running.communicate()[0])
        assert failed["failed"] is True
        assert "a file system is full; next: free space in /var, /usr and /boot and run again" in failed["msg"]
        assert {file.split("/")[4] for file in host.loadable("mlx5_ib")} == {loads}
        before = packages(host)
        refused = host.module("mofed_driver", wish(NEW))
        assert (refused["failed"], refused["changed"]) == (True, False)
        # A little is free again, as apt has taken away what it had begun to write.
        assert re.search(r"/var has \d MiB free, 2048 MiB are needed: free space and run again", refused["msg"])
        assert packages(host) == before
        host.clear()
        result = host.module("mofed_driver", wish(NEW))
        assert (result.get("failed"), result["changed"]) == (None, True), result["msg"]
        assert_holds(host, wish(NEW))


def publish(host: RootHost, index: str) -> None:
    """Have the distribution's repository offer what an index names, and the host know that."""
    offer(host, index)
    host.told("apt-get", "update")


def offer(host: RootHost, index: str) -> None:
    """Have the distribution's repository offer what an index names, which the host has not read yet."""
    repository = host.root / REPOSITORY
    (repository / "Packages").write_text(index, encoding="utf-8")
    # apt looks at the index again where this one is newer.
    release = repository / "Release"
    release.write_text(f"{release.read_text(encoding='utf-8')}Version: {time.time_ns()}\n", encoding="utf-8")


def test_while_headers_of_the_kernel_are_missing_the_former_driver_stays(hosts: Hosts, installed: Installed) -> None:
    """They were removed since it was built, and the distribution withdraws those of kernels that it has replaced."""
    with hosts.new(installed.layer) as host:
        headers = f"linux-headers-{host.kernel}"
        host.told("apt-get", "--yes", "purge", headers)
        offered = (host.root / REPOSITORY / "Packages").read_text(encoding="utf-8")
        stanzas = offered.split("\n\n")
        withdrawn = [stanza for stanza in stanzas if not stanza.startswith(f"Package: {headers}\n")]
        assert len(withdrawn) == len(stanzas) - 1
        before = packages(host)

        publish(host, "\n\n".join(withdrawn))
        refused = host.module("mofed_driver", wish(NEW))
        assert (refused["failed"], refused["changed"]) == (True, False)
        assert f"{host.kernel} are neither installed nor in any repository of this host ({headers})" in refused["msg"]

        publish(host, offered)
        (file,) = (host.root / REPOSITORY).glob(f"{headers}_*.deb")
        text = file.read_bytes()
        file.unlink()
        failed = host.module("mofed_driver", wish(NEW))
        assert failed["failed"] is True
        assert "the repository has no such file" in failed["msg"]
        assert "where it was headers of a kernel, update the kernel and reboot first" in failed["msg"]
        assert (packages(host), stems(host.boot())) == (before, module_names())

        file.write_bytes(text)
        result = host.module("mofed_driver", wish(NEW))
        assert (result.get("failed"), result["changed"]) == (None, True), result["msg"]
        assert_holds(host, wish(NEW))


def test_packages_of_the_distribution_that_were_replaced_since_its_index_was_read_are_found(
    hosts: Hosts, installed: Installed
) -> None:
    with hosts.new(installed.layer) as host:
        headers = f"linux-headers-{host.kernel}"
        host.told("apt-get", "--yes", "purge", headers)
        offered = (host.root / REPOSITORY / "Packages").read_text(encoding="utf-8")
        publish(host, offered)
        (file,) = (host.root / REPOSITORY).glob(f"{headers}_*.deb")
        other = file.rename(file.with_name(f"again-{file.name}"))
        offer(host, offered.replace(file.name, other.name))
        result = host.module("mofed_driver", wish(NEW))
        assert (result.get("failed"), result["changed"]) == (None, True), result["msg"]
        assert_holds(host, wish(NEW))
        assert stems(host.boot()) == module_names()
