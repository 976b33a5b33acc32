# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's plan from literal facts: what a policy or a variable asks for, on a host that tells much or little."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.apply import work
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.packages import repository_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import UNREAD
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import family_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import (
    facts,
    netdev,
    nic,
    ofed,
    request,
    steps_of,
    two_ports,
    vf,
    with_functions,
)

PF = "0000:18:00.0"
KERNEL = "6.8.0-45-generic"
WANTED = "24.07-0.6.1.0-0"
CORE = f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko.zst"
INBOX_CORE = f"/lib/modules/{KERNEL}/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst"
SNAPSHOT = {"format": 1, "driver": "mlx5_core", "functions": [], "links": [], "vlans": [], "routes": []}
JOURNAL = '{"format":1,"driver":"mlx5_core","functions":[],"links":[],"vlans":[],"routes":[]}'
DROP_IN = "/etc/systemd/system/openibd.service.d/rdma-fabric.conf"
VENDOR_PACKAGES = {
    "mlnx-ofed-kernel-dkms": "24.07.OFED.24.07.0.6.1.1-1",
    "ofed-scripts": "24.07.OFED.24.07.0.6.1-1",
    "rdma-core": "2407mlnx52-1.2407061",
}


def stack(flavour: str = "inbox", version: str | None = None, **changes: Any) -> Any:
    base = {"flavour": flavour, "version": version, "gpu_driver": None, "gpu_driver_flavour": None, "peer_memory": None}
    return {**base, **changes}


def on_disk(path: str = INBOX_CORE, srcversion: str = "AAAA", version: str | None = None) -> Any:
    entry: Any = {
        "srcversion": srcversion,
        "version": version,
        "build_id": None,
        "depends": [],
        "signer": None,
    }
    return {"mlx5_core": {"path": path, **entry}}


def running(srcversion: str = "AAAA", **more: Any) -> Any:
    core = {"refcount": 1, "users": ["mlx5_ib"], "version": None, "srcversion": srcversion, "build_id": None}
    return {"mlx5_core": core, "mlx5_ib": {"refcount": 0, "users": []}, **more}


def read(**changes: Any) -> Any:
    """A host on the inbox driver that was asked about its driver, with headers and a local repository."""
    base = {
        **copy.deepcopy(dict(UNREAD)),
        "kernel": KERNEL,
        "next_kernel": KERNEL,
        "packages": {"rdma-core": "50.0-2build2"},
        "on_disk": on_disk(),
        "loaded": running(),
        "headers": {KERNEL: True},
        "initrds": {KERNEL: {"image": f"/boot/initrd.img-{KERNEL}", "stale": False}},
        "free_mib": {"/boot": 900, "/usr": 90000, "/var": 90000},
        "snapshot": SNAPSHOT,
    }
    return {**base, **changes}


def installed(**changes: Any) -> Any:
    """The same host after the packages were installed, before a reload."""
    base = {
        "packages": VENDOR_PACKAGES,
        "on_disk": on_disk(CORE, "BBBB", "24.07-0.6.1"),
        "built": [{"name": "mlnx-ofed-kernel", "version": "24.07.OFED.24.07.0.6.1.1", "kernel": KERNEL}],
        "openibd": True,
    }
    return read(**{**base, **changes})


def host(state: Any = None, **changes: Any) -> Any:
    made = two_ports(**changes)
    if state is not None:
        made["driver"] = state
    return made


def plan(made: Any, *requests: Any, **wanted: Any) -> Any:
    return make_plan(check_spec({"requests": list(requests), **wanted}), made)


def steps(made: Any, *requests: Any, **wanted: Any) -> list[Any]:
    return steps_of(plan(made, *requests, **wanted), "driver")


def asked(version: str = WANTED, **changes: Any) -> Any:
    return request(driver=ofed(version, **changes))


def waiting(version: str) -> Any:
    """Return what a policy asks for that upgrades no driver by itself."""
    return request(driver={**ofed(version), "auto_upgrade": False})


def in_container(version: str) -> Any:
    """Return what a policy says whose driver is a container."""
    return request(driver={**ofed(version), "source": "container"})


def statuses(found: list[Any]) -> dict[str, str]:
    return {step["id"].split(":", 1)[1]: step["status"] for step in found}


def step_named(found: list[Any], key: str) -> Any:
    return next(step for step in found if step["id"] == f"driver:{key}")


CONSENTED = {"consents": {"driver_reload": True}}


class TestRequests:
    def test_an_inbox_driver_is_replaced_in_order(self) -> None:
        found = steps(host(read()), asked(), **CONSENTED)
        assert [step["id"] for step in found] == [
            "driver:order",
            "driver:packages",
            "driver:initrd",
            "driver:load",
        ]
        assert {step["status"] for step in found} == {"planned"}
        assert step_named(found, "packages")["action"] == "install DOCA-OFED 24.07-0.6.1.0"
        load = step_named(found, "load")
        assert load["action"] == "load DOCA-OFED 24.07-0.6.1.0 in place of the inbox driver"

    def test_only_the_reload_interrupts_and_needs_consent(self) -> None:
        found = steps(host(read()), asked())
        assert statuses(found) == {
            "order": "planned",
            "packages": "planned",
            "initrd": "planned",
            "load": "needs_consent",
        }
        assert [step["interrupts"] for step in found] == ["nothing"] * 3 + ["traffic on ens1, ens2"]
        assert step_named(found, "load")["consent"] == "rdma_fabric_allow_driver_reload"

    def test_the_old_image_means_mlnx_ofed(self) -> None:
        found = steps(host(read()), asked("5.0-2.1.8.0", image="mofed"))
        assert step_named(found, "packages")["action"] == "install MLNX_OFED 5.0-2.1.8.0"

    @pytest.mark.parametrize("version", ["23.10-1.1.9", "23.10-1.1.9.0"])
    def test_the_wanted_release_needs_no_step(self, version: str) -> None:
        assert steps(host(stack=stack("doca-ofed", version)), asked("23.10-1.1.9.0-0")) == []

    @pytest.mark.parametrize(
        ("wanted", "action"),
        [
            ("24.10-0.7.0.0-0", "upgrade MLNX_OFED 23.10-1.1.9 to DOCA-OFED 24.10-0.7.0.0"),
            ("23.07-0.5.0.0-0", "downgrade MLNX_OFED 23.10-1.1.9 to DOCA-OFED 23.07-0.5.0.0"),
        ],
    )
    def test_another_release_says_the_direction(self, wanted: str, action: str) -> None:
        state = host(stack=stack("mlnx-ofed", "23.10-1.1.9", installed="MLNX_OFED_LINUX-23.10-1.1.9"))
        assert step_named(steps(state, asked(wanted)), "packages")["action"] == action

    @pytest.mark.parametrize("version", [None, "unknown", "sha256:"])
    def test_a_vendor_driver_of_unknown_release_is_replaced(self, version: str | None) -> None:
        found = steps(host(stack=stack("mlnx-ofed", version)), asked())
        assert step_named(found, "load")["action"].startswith("load DOCA-OFED 24.07-0.6.1.0 in place of MLNX_OFED")

    def test_where_no_driver_runs_nothing_is_interrupted(self) -> None:
        found = steps(host(read(loaded={}, on_disk=None), stack=stack("none"), modules={}), asked())
        load = step_named(found, "load")
        assert (load["action"], load["status"], load["interrupts"]) == (
            "load DOCA-OFED 24.07-0.6.1.0",
            "planned",
            "nothing",
        )

    def test_an_installed_release_is_only_loaded(self) -> None:
        state = host(stack=stack(installed="OFED-internal-24.07-0.6.1"))
        assert list(statuses(steps(state, asked()))) == ["load"]

    @pytest.mark.parametrize(
        ("kind", "advice"), [("ostree", "rpm-ostree install"), ("transactional", "transactional-update pkg install")]
    )
    def test_a_system_that_changes_in_images_is_refused(self, kind: str, advice: str) -> None:
        state = host()
        state["system"][kind] = True
        (step,) = steps(state, asked())
        assert (step["status"], "source: container" in step["detail"]) == ("refused", True)
        assert advice in step["detail"]

    def test_a_host_without_nvidia_nic_gets_nothing(self) -> None:
        state = facts([nic(PF, "eno1", vendor="8086")], [netdev("eno1", PF)])
        assert steps(state, asked()) == []
        own = plan(state, driver={"flavour": "doca-ofed"})
        assert own["steps"] == []
        assert "no NVIDIA NIC" in own["notices"][0]

    @pytest.mark.parametrize(
        ("selector", "labels", "is_asked"),
        [
            ({}, {}, True),
            ({"feature.node.kubernetes.io/pci-15b3.present": "true"}, {}, True),
            ({"kubernetes.io/arch": "arm64"}, {}, False),
            ({"role": "gpu"}, {}, False),
            ({"role": "gpu"}, {"role": "gpu"}, True),
            ({"role": "gpu", "rack": "r1"}, {"role": "gpu"}, False),
        ],
    )
    def test_only_selected_hosts_are_asked(
        self, selector: dict[str, str], labels: dict[str, str], is_asked: bool
    ) -> None:
        found = steps(host(), request(node_selector=selector, driver=ofed(WANTED)), node_labels=labels)
        assert bool(found) is is_asked

    def test_two_requests_for_one_host_are_refused_by_name(self) -> None:
        (step,) = steps(
            host(),
            request("NicNodePolicy/b", driver=ofed("24.10-0.7.0.0-0")),
            request("NicClusterPolicy/a", driver=ofed(WANTED)),
        )
        assert step["status"] == "refused"
        assert "NicClusterPolicy/a" in step["reason"] and "NicNodePolicy/b" in step["reason"]

    def test_a_policy_and_a_variable_that_contradict_each_other_are_refused(self) -> None:
        (step,) = steps(host(), asked(), driver={"flavour": "doca-ofed", "version": "24.10-1.1.4.0"})
        assert step["status"] == "refused"
        assert "NicClusterPolicy/nic-cluster-policy asks for 24.07-0.6.1.0" in step["reason"]

    def test_settings_without_a_flavour_only_say_how(self) -> None:
        found = steps(host(read()), asked(), driver={"reload": "never"})
        assert step_named(found, "load")["status"] == "needs_reboot"

    def test_a_digest_names_no_release(self) -> None:
        digest = "sha256:" + "0" * 64
        (step,) = steps(host(stack=stack("doca-ofed", "24.07-0.6.1.0")), asked(digest))
        assert (step["status"], "digest" in step["detail"]) == ("refused", True)
        # With the release in a variable there is nothing left to do.
        own = {"flavour": "doca-ofed", "version": "24.07-0.6.1.0"}
        assert steps(host(stack=stack("doca-ofed", "24.07-0.6.1.0")), asked(digest), driver=own) == []

    @pytest.mark.parametrize("version", ["latest", "24.07\nrefused: all"])
    def test_an_unreadable_version_is_refused(self, version: Any) -> None:
        (step,) = steps(host(), asked(version))
        assert (step["status"], "24.07-0.6.1.0-0" in step["detail"]) == ("refused", True)


class TestUpgradesThatWait:
    """What a policy without ``autoUpgrade: true`` asks for."""

    NEWER = "24.10-0.7.0.0-0"

    def test_another_release_takes_consent_and_nothing_else_is_planned(self) -> None:
        (step,) = steps(host(installed(), stack=stack("doca-ofed", "24.07-0.6.1")), waiting(self.NEWER))
        assert (step["id"], step["status"]) == ("driver:packages", "needs_consent")
        assert step["consent"] == "rdma_fabric_allow_driver_upgrade"
        assert "autoUpgrade of NicClusterPolicy/nic-cluster-policy is not true" in step["detail"]

    def test_with_consent_it_is_planned_as_any_other(self) -> None:
        made, consents = host(installed(), stack=stack("doca-ofed", "24.07-0.6.1")), {"driver_upgrade": True}
        found = steps(made, waiting(self.NEWER), consents=consents)
        assert found == steps(made, asked(self.NEWER), consents=consents)
        assert statuses(found)["packages"] == "planned"

    def test_the_first_driver_of_a_vendor_and_the_same_release_take_none(self) -> None:
        assert statuses(steps(host(read()), waiting(WANTED)))["packages"] == "planned"
        same = host(installed(loaded=running("BBBB")), stack=stack("doca-ofed", "24.07-0.6.1"))
        assert [step["status"] for step in steps(same, waiting(WANTED))] == ["planned"]

    def test_a_host_whose_variable_names_the_release_has_said_so(self) -> None:
        own = {"flavour": "doca-ofed", "version": "24.10-0.7.0.0"}
        made = host(installed(), stack=stack("doca-ofed", "24.07-0.6.1"))
        assert "needs_consent" not in statuses(steps(made, waiting(self.NEWER), driver=own))["packages"]

    def test_a_reload_that_was_interrupted_is_finished_all_the_same(self) -> None:
        made = host(installed(journal=JOURNAL), stack=stack("doca-ofed", "24.07-0.6.1"))
        found = statuses(steps(made, waiting(self.NEWER)))
        assert found == {"packages": "needs_consent", "restore": "planned"}

    def test_what_forbids_the_upgrade_is_no_matter_before_it_is_asked_for(self) -> None:
        made = host(installed(), stack=stack("doca-ofed", "24.07-0.6.1"))
        made["system"]["ostree"] = True
        assert list(statuses(steps(made, waiting(self.NEWER))).values()) == ["needs_consent"]


class TestRefusals:
    def test_all_at_once_and_nothing_else_is_planned(self) -> None:
        state = read(
            headers={KERNEL: False},
            headers_offered={KERNEL: False},
            locks=[{"pid": 812, "program": "unattended-upgr", "path": "/var/lib/dpkg/lock-frontend"}],
            free_mib={"/boot": 20, "/usr": 90000, "/var": 900},
            key={"path": "/var/lib/shim-signed/mok/MOK.der", "enrolled": False},
        )
        made = host(state)
        made["system"]["secure_boot"] = True
        found = steps(made, asked(), **CONSENTED)
        assert statuses(found) == dict.fromkeys(("headers", "secure_boot", "lock", "space"), "refused")
        assert "linux-headers-6.8.0-45-generic" in step_named(found, "headers")["detail"]
        assert "unattended-upgr (pid 812)" in step_named(found, "lock")["detail"]
        assert "/boot has 20 MiB free, 150 MiB are needed" in step_named(found, "space")["detail"]
        assert "mokutil --import /var/lib/shim-signed/mok/MOK.der" in step_named(found, "secure_boot")["detail"]

    def test_headers_that_dnf_hides_look_like_those_that_nobody_has(self) -> None:
        """Of a kernel that is to stay: gridhead/nvidia-auto-installer-for-fedora-linux#99."""
        made = host(read(headers={KERNEL: False}, headers_offered={KERNEL: False}))
        assert "dnf hides" not in step_named(steps(made, asked()), "headers")["detail"]
        made["system"]["os"].update(id="rocky", version_id="9.6")
        assert "or dnf hides them (exclude=kernel*, vers" in step_named(steps(made, asked()), "headers")["detail"]

    def test_headers_that_a_repository_offers_are_installed(self) -> None:
        state = read(headers={KERNEL: False}, headers_offered={KERNEL: True})
        assert "packages" in statuses(steps(host(state), asked()))

    @pytest.mark.parametrize(
        ("key", "refused"),
        [
            ({"path": "/var/lib/dkms/mok.pub", "enrolled": True}, False),
            ({"path": "/var/lib/dkms/mok.pub", "enrolled": False}, True),
            ({"path": "/var/lib/dkms/mok.pub", "enrolled": None}, True),
            ({"path": None, "enrolled": None}, True),
        ],
    )
    def test_secure_boot_needs_a_key_that_the_firmware_trusts(self, key: Any, refused: bool) -> None:
        made = host(read(key=key))
        made["system"]["secure_boot"] = True
        assert ("secure_boot" in statuses(steps(made, asked()))) is refused

    @pytest.mark.parametrize(
        ("identity", "version"),
        [("ubuntu", "20.04"), ("rhel", "8.10"), ("fedora", "44"), ("opensuse-leap", "15.6"), ("", "")],
    )
    def test_a_clear_answer_for_any_other_distribution(self, identity: str, version: str) -> None:
        made = host(read())
        made["system"]["os"] = {"id": identity, "id_like": [], "version_id": version, "name": "Some Linux"}
        (step,) = steps(made, asked())
        assert step["status"] == "refused"
        assert "Some Linux" in step["detail"] and "SLES 15" in step["detail"] and "inbox" in step["detail"]

    def test_the_driver_container_owns_the_modules(self) -> None:
        state = read(container={"ready": True, "lock": True, "blacklist": False})
        (step,) = steps(host(state), asked(), **CONSENTED)
        assert (step["status"], "source: container" in step["detail"]) == ("refused", True)

    def test_a_declared_container_is_left_alone(self) -> None:
        state = read(container={"ready": True, "lock": True, "blacklist": True})
        found = plan(host(state), asked(), driver={"source": "container"}, **CONSENTED)
        assert found["steps"] == []
        assert "the driver container is to bring it" in found["notices"][0]

    def test_a_driver_that_a_policy_has_in_a_container_is_left_to_it(self) -> None:
        found = plan(host(read()), in_container(WANTED))
        assert found["steps"] == []
        assert "from a driver container, and none has run on this host yet" in found["notices"][0]
        assert plan(host(read()), in_container("sha256:" + "0" * 64))["steps"] == []

    @pytest.mark.parametrize("own", [{"storage_modules": "unload"}, {"version": "24.10-1.1.4.0"}, {"state": "absent"}])
    def test_packages_beside_a_container_of_a_policy_are_refused(self, own: Any) -> None:
        (step,) = steps(host(read()), in_container(WANTED), driver=own)
        assert step["status"] == "refused" and "is about packages" in step["reason"]
        assert "leave rdma_fabric_driver out" in step["detail"]

    def test_installed_packages_are_removed_before_a_container_brings_the_driver(self) -> None:
        (step,) = steps(host(installed()), in_container(WANTED))
        assert (step["id"], step["status"]) == ("driver:container", "refused")
        assert "rdma_fabric_driver: {state: absent} and rdma_fabric_driver_source: packages" in step["detail"]

    def test_a_host_that_has_what_it_needs_is_not_refused_for_anything(self) -> None:
        state = installed(loaded=running("BBBB"), locks=[{"pid": 1, "program": "apt", "path": "/x"}], free_mib={})
        made = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
        assert list(statuses(steps(made, asked()))) == ["order"]

    def test_precompiled_modules_where_there_are_none(self) -> None:
        own = {"flavour": "doca-ofed", "version": "24.10-1.1.4.0", "build": "precompiled"}
        (step,) = steps(host(read()), driver=own)
        assert (step["id"], step["status"]) == ("driver:packages", "refused")

    @pytest.mark.parametrize(("flavour", "refused"), [("azure", True), ("64kb", True), ("default", False)])
    def test_precompiled_modules_of_suse_are_for_its_default_kernel(self, flavour: str, refused: bool) -> None:
        """They would bring kernel-default along, which the next boot would start."""
        kernel = f"6.4.0-150700.51-{flavour}"
        made = host(read(kernel=kernel, next_kernel=kernel, headers={kernel: True}))
        made["system"]["os"] = {"id": "sles", "id_like": [], "version_id": "15.7", "name": "SLES 15"}
        own = {"flavour": "doca-ofed", "version": "24.10-1.1.4.0", "build": "precompiled"}
        assert (statuses(steps(made, driver=own))["packages"] == "refused") is refused

    def test_an_archive_that_is_not_there(self) -> None:
        own = {"flavour": "mlnx-ofed", "source": "archive", "archive": "/srv/ofed.tgz"}
        (step,) = steps(host(read(archive=False)), driver=own)
        assert (step["id"], step["status"]) == ("driver:archive", "refused")


class TestReload:
    def load(self, state: Any, made: Any = None, **own: Any) -> Any:
        made = made or host(state)
        made["driver"] = state
        wanted = {"driver": own} if own else {}
        return step_named(steps(made, asked(), **CONSENTED, **wanted), "load")

    def test_equal_builds_are_not_reloaded(self) -> None:
        state = installed(loaded=running("BBBB"))
        made = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
        assert "load" not in statuses(steps(made, asked(), **CONSENTED))

    def test_an_equal_version_of_another_build_is_reloaded(self) -> None:
        state = installed(loaded=running("AAAA"))
        made = host(state, stack=stack("doca-ofed", "24.07-0.6.1"))
        assert "load" in statuses(steps(made, asked(), **CONSENTED))

    def test_two_absent_srcversions_are_not_equal(self) -> None:
        state = installed(on_disk=on_disk(CORE, "", "24.07-0.6.1"), loaded=running(""))
        assert "load" in statuses(steps(host(state), asked(), **CONSENTED))

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"loaded": running(ib_iser={"refcount": 0, "users": []})}, "ib_iser (storage over RDMA) is loaded"),
            ({"loaded": running(irdma={"refcount": 0, "users": []})}, "irdma, another vendor's RDMA driver"),
            (
                {"users": [{"pid": 4711, "program": "ib_write_bw", "path": "/dev/infiniband/uverbs0"}]},
                "ib_write_bw (pid 4711) has /dev/infiniband/uverbs0 open",
            ),
            ({"loaded": running(nvidia_peermem={"refcount": 2, "users": []})}, "nvidia_peermem is in use"),
        ],
    )
    def test_what_is_in_the_way_leaves_it_to_a_reboot_and_is_named(self, changes: Any, named: str) -> None:
        load = self.load(installed(**changes))
        assert (load["status"], load["when"]) == ("needs_reboot", "boot")
        assert named in load["detail"]

    def test_required_is_refused_with_everything_that_is_in_the_way(self) -> None:
        state = installed(
            loaded=running(ib_iser={"refcount": 0, "users": []}),
            users=[{"pid": 4711, "program": "opensm", "path": "/dev/infiniband/umad0"}],
        )
        load = self.load(state, reload="required")
        assert load["status"] == "refused"
        assert "ib_iser" in load["detail"] and "opensm (pid 4711)" in load["detail"]

    def test_unused_storage_may_be_unloaded(self) -> None:
        state = installed(loaded=running(ib_iser={"refcount": 0, "users": []}))
        assert self.load(state, storage_modules="unload")["status"] == "planned"

    def test_a_module_under_a_mounted_disk_is_used_although_nothing_references_it(self) -> None:
        """As with native multipath on a booted host: tests/guests/test_netdevsim.py."""
        mounted = {"mounts": {"NVMe/RDMA": ["/data"]}}
        state = installed(loaded=running(nvme_rdma={"refcount": 0, "users": []}), **mounted)
        load = self.load(state, storage_modules="unload")
        assert load["status"] == "needs_reboot" and "nvme_rdma (storage over RDMA) carries /data" in load["detail"]

    def test_a_policy_may_let_unused_storage_be_unloaded(self) -> None:
        """``UNLOAD_STORAGE_MODULES`` of ofedDriver.env; a variable of the host says it by itself."""
        made = host(installed())
        made["driver"] = installed(loaded=running(ib_iser={"refcount": 0, "users": []}))
        of_policy = request(driver={**ofed(WANTED), "storage_modules": "unload"})
        assert step_named(steps(made, of_policy, **CONSENTED), "load")["status"] == "planned"
        own = {"driver": {"storage_modules": "stage"}}
        assert step_named(steps(made, of_policy, **own, **CONSENTED), "load")["status"] == "needs_reboot"

    @pytest.mark.parametrize("consents", [{}, {"uplink_change": True}])
    @pytest.mark.parametrize("journal", [None, JOURNAL])
    def test_the_uplink_is_never_cut_whatever_is_consented_to(
        self, journal: str | None, consents: dict[str, bool]
    ) -> None:
        made = host(installed())
        made["uplinks"] = [{"netdev": "ens2", "pci": "0000:40:00.0", "reasons": ["default route"]}]
        made["driver"] = installed(journal=journal)
        found = steps(made, asked(), consents={"driver_reload": True, **consents})
        load = step_named(found, "load")
        assert (load["status"], load["when"]) == ("needs_reboot", "boot")
        assert "ens2 carries the uplink (default route)" in load["detail"]
        # What an interrupted reload took away comes back now all the same.
        assert ("restore" in statuses(found)) is (journal is not None)
        refused = step_named(steps(made, asked(), driver={"reload": "required"}, consents=consents), "load")
        assert (refused["status"], "ens2 carries the uplink" in refused["detail"]) == ("refused", True)

    def test_functions_in_containers_and_machines(self) -> None:
        made = with_functions(host(installed()), PF, 2)
        made["nics"] = [
            vf(entry["address"], PF, driver="vfio-pci") if entry["address"] == "0000:18:00.1" else entry
            for entry in made["nics"]
        ]
        load = self.load(installed(), made)
        assert (load["status"], "0000:18:00.1 is given to a virtual machine" in load["detail"]) == (
            "needs_reboot",
            True,
        )

    def test_it_says_that_functions_are_created_again(self) -> None:
        load = self.load(installed(), with_functions(host(installed()), PF, 2))
        assert "the 2 VFs are removed and created again" in load["detail"]

    def test_an_interrupted_reload_is_taken_up_whatever_is_in_the_way(self) -> None:
        state = installed(journal=JOURNAL, loaded=running(ib_iser={"refcount": 0, "users": []}))
        assert self.load(state)["status"] == "planned"
        state = installed(journal=JOURNAL, loaded=running("BBBB"))
        found = steps(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked())
        assert statuses(found)["restore"] == "planned"

    @pytest.mark.parametrize(("own", "consents"), [({"reload": "never"}, CONSENTED["consents"]), ({}, {})])
    def test_an_interrupted_reload_is_finished_where_none_is_made_now(
        self, own: Any, consents: dict[str, bool]
    ) -> None:
        wanted = {"driver": own} if own else {}
        found = steps(host(installed(journal=JOURNAL)), asked(), consents=consents, **wanted)
        assert list(statuses(found))[-2:] == ["restore", "load"]
        assert statuses(found)["restore"] == "planned" and statuses(found)["load"] != "planned"

    def test_a_broken_journal_blocks_nothing(self) -> None:
        state = installed(journal="{", loaded=running("BBBB"))
        assert "restore" not in statuses(steps(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked()))


class TestDisk:
    def test_a_stale_initial_ram_disk_is_rebuilt(self) -> None:
        initrds = {KERNEL: {"image": f"/boot/initrd.img-{KERNEL}", "stale": True}}
        state = installed(initrds=initrds, loaded=running("BBBB"))
        found = steps(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked())
        assert list(statuses(found)) == ["order", "initrd"]

    def test_a_kernel_without_the_build_gets_one(self) -> None:
        new = "6.8.0-51-generic"
        state = installed(loaded=running("BBBB"), headers={KERNEL: True, new: True}, next_kernel=new)
        found = steps(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked())
        assert f"build:{new}" in statuses(found)

    def test_a_stale_blacklist_of_a_container_is_removed(self) -> None:
        state = installed(loaded=running("BBBB"), container={"ready": False, "lock": False, "blacklist": True})
        found = steps(host(state, stack=stack("doca-ofed", "24.07-0.6.1")), asked())
        assert next(iter(statuses(found))) == "blacklist"

    def test_a_repository_is_made_known_first(self) -> None:
        own = {
            "flavour": "doca-ofed",
            "version": "24.07-0.6.1.0",
            "source": "repository",
            "repository": {"url": "/srv/doca", "gpg_key": "/srv/doca/KEY"},
        }
        found = steps(host(read()), driver=own)
        assert list(statuses(found)) == ["repository", "order", "packages", "initrd", "load"]


NEXT = "6.8.0-51-generic"
NEXT_CORE = CORE.replace(KERNEL, NEXT)
NEXT_INBOX = INBOX_CORE.replace(KERNEL, NEXT)
RELEASED = {"stack": stack("doca-ofed", "24.07-0.6.1")}


class TestNextKernel:
    """What another kernel that the next boot starts needs, from facts alone."""

    def state(self, core: str = NEXT_INBOX, version: str | None = None, **changes: Any) -> Any:
        base = {
            "loaded": running("BBBB"),
            "next_kernel": NEXT,
            "next_on_disk": on_disk(core, "CCCC", version),
            "headers": {KERNEL: True, NEXT: True},
            "initrds": {each: {"image": f"/boot/initrd.img-{each}", "stale": False} for each in (KERNEL, NEXT)},
        }
        return installed(**{**base, **changes})

    def planned(self, state: Any, **wanted: Any) -> tuple[list[str], list[str]]:
        """The keys of the steps about other things than files, and the notices."""
        made = plan(host(state, **RELEASED), asked(), **wanted)
        keys = [step["id"].split(":", 1)[1] for step in steps_of(made, "driver")]
        return [key for key in keys if key != "order"], made["notices"]

    def test_it_gets_the_driver_and_a_ram_disk_with_it(self) -> None:
        assert self.planned(self.state()) == ([f"build:{NEXT}", f"initrd:{NEXT}"], [])

    def test_one_that_has_it_needs_nothing(self) -> None:
        assert self.planned(self.state(NEXT_CORE, "24.07-0.6.1")) == ([], [])

    def test_an_older_release_on_its_disk_is_replaced(self) -> None:
        built = [{"name": "mlnx-ofed-kernel", "version": "x", "kernel": each} for each in (KERNEL, NEXT)]
        state = self.state(NEXT_CORE, "23.10-0.5.5", built=built)
        assert self.planned(state) == ([f"build:{NEXT}", f"initrd:{NEXT}"], [])

    def test_what_dkms_has_built_and_not_installed_is_not_there(self) -> None:
        built = [{"name": "mlnx-ofed-kernel", "version": "x", "kernel": each} for each in (KERNEL, NEXT)]
        assert self.planned(self.state(built=built))[0] == [f"build:{NEXT}", f"initrd:{NEXT}"]

    def test_where_modinfo_tells_nothing_dkms_does(self) -> None:
        built = [{"name": "mlnx-ofed-kernel", "version": "x", "kernel": each} for each in (KERNEL, NEXT)]
        assert self.planned(self.state(next_on_disk=None, built=built)) == ([], [])
        assert self.planned(self.state(next_on_disk=None))[0] == [f"build:{NEXT}", f"initrd:{NEXT}"]

    @pytest.mark.parametrize(("offered", "builds"), [(True, True), (None, True), (False, False)])
    def test_headers_that_may_be_had_are_tried(self, offered: bool | None, builds: bool) -> None:
        state = self.state(headers={KERNEL: True, NEXT: False}, headers_offered={NEXT: offered})
        keys, notices = self.planned(state)
        assert (f"build:{NEXT}" in keys, bool(notices)) == (builds, not builds)

    def test_a_kernel_without_any_driver_has_no_ram_disk_to_make(self) -> None:
        state = self.state(next_on_disk={}, initrds={KERNEL: {"image": "/boot/initrd.img", "stale": False}})
        assert self.planned(state)[0] == [f"build:{NEXT}"]

    def test_one_with_precompiled_modules_is_none_that_dkms_builds_for(self) -> None:
        keys, (notice,) = self.planned(self.state(built=[]))
        assert keys == []
        assert f"it was not built for {NEXT}; next: install the vendor's modules that were built for it" in notice

    def test_an_installation_builds_for_both(self) -> None:
        state = read(next_kernel=NEXT, next_on_disk=on_disk(NEXT_INBOX), headers={KERNEL: True, NEXT: False})
        state["initrds"][NEXT] = {"image": f"/boot/initrd.img-{NEXT}", "stale": False}
        found, context = plan_with_context(check_spec({"requests": [asked()]}), host(state), ("driver",))
        assert list(statuses(found["steps"])) == [
            "order",
            "packages",
            f"build:{NEXT}",
            "initrd",
            f"initrd:{NEXT}",
            "load",
        ]
        done = [run for run in work(context, step_named(found["steps"], "packages")).do if isinstance(run, Run)]
        (install,) = [run.argv for run in done if "install" in run.argv]
        assert {f"linux-headers-{KERNEL}", f"linux-headers-{NEXT}"} <= {*install}
        (build,) = work(context, step_named(found["steps"], f"build:{NEXT}")).do
        assert isinstance(build, Run) and build.argv == ("dkms", "autoinstall", "-k", NEXT)

    @pytest.mark.parametrize(
        ("spec", "has_it"),
        [
            ({"requests": [asked(version="26.07-0.5.1.0")]}, True),
            ({"requests": [asked(version="26.10-1.0.0.0")]}, False),
            ({"driver": {"flavour": "doca-ofed"}}, False),
            ({"driver": {"flavour": "mlnx-ofed"}}, True),
        ],
    )
    def test_the_package_with_ofed_info_is_asked_of_releases_that_have_it(
        self, spec: dict[str, Any], has_it: bool
    ) -> None:
        found, context = plan_with_context(check_spec(spec), host(), ("driver",))
        done = [run for run in work(context, step_named(found["steps"], "packages")).do if isinstance(run, Run)]
        assert ("ofed-scripts" in next(run.argv for run in done if "install" in run.argv)) is has_it

    def test_headers_of_the_running_kernel_that_nobody_has_are_no_reason_to_load_the_inbox_driver(self) -> None:
        """A package without a build would have had the kernel's own driver loaded in its name."""
        state = installed(
            on_disk=on_disk(), built=[], headers={KERNEL: False}, headers_offered={KERNEL: False}, next_kernel=KERNEL
        )
        assert statuses(steps(host(state), asked(), **CONSENTED)) == {"headers": "refused"}

    def test_secure_boot_is_looked_at_before_a_build(self) -> None:
        made = host(self.state(key={"path": "/var/lib/dkms/mok.pub", "enrolled": False}), **RELEASED)
        made["system"]["secure_boot"] = True
        assert statuses(steps(made, asked())) == {"secure_boot": "refused"}


class TestInbox:
    def test_the_way_back_takes_exactly_the_vendors_packages(self) -> None:
        files = {DROP_IN: f"# {MARKER}\n", "/etc/apt/sources.list.d/rdma-fabric-driver.sources": f"# {MARKER}\n"}
        made = host(installed(loaded=running("BBBB")), stack=stack("doca-ofed", "24.07-0.6.1"), boot={"files": files})
        found = steps(made, driver={"state": "absent"}, **CONSENTED)
        assert list(statuses(found)) == [*files, "packages", "initrd", "load"]
        packages = step_named(found, "packages")
        assert packages["action"] == "remove DOCA-OFED and keep the inbox driver"
        assert "removes mlnx-ofed-kernel-dkms, ofed-scripts; replaces rdma-core" in packages["detail"]
        assert step_named(found, "load")["action"] == "load the inbox driver in place of DOCA-OFED 24.07-0.6.1"

    def test_a_host_on_its_inbox_driver_needs_nothing(self) -> None:
        assert steps(host(read()), driver={"state": "absent"}) == []

    def test_present_inbox_is_loaded_before_kubelet(self) -> None:
        found = steps(host(read()), driver={"flavour": "inbox"})
        assert [(step["id"], step["to"]) for step in found] == [
            ("driver:order", ["/etc/modules-load.d/rdma-fabric-driver.conf"])
        ]

    def test_a_driver_that_is_not_loaded_is_loaded_without_consent(self) -> None:
        made = host(read(loaded={"ib_core": {"refcount": 1, "users": ["rdma_rxe"]}}), stack=stack(), modules={})
        load = step_named(steps(made, driver={"flavour": "inbox"}), "load")
        assert (load["status"], load["interrupts"]) == ("planned", "nothing")

    def test_a_kernel_without_the_driver_names_the_package_that_has_it(self) -> None:
        made = host(read(on_disk={}, loaded={}), stack=stack("none"), modules={})
        load = step_named(steps(made, driver={"flavour": "inbox"}), "load")
        assert (load["status"], f"install linux-modules-extra-{KERNEL}" in load["detail"]) == ("refused", True)
        made["system"]["os"]["id"] = "fedora"
        load = step_named(steps(made, driver={"flavour": "inbox"}), "load")
        assert load["status"] == "refused" and load["detail"].endswith("has no mlx5_core on this host")

    def test_an_unknown_distribution_keeps_its_inbox_driver(self) -> None:
        made = host(read(packages=None))
        made["system"]["os"]["id"] = "fedora"
        assert steps(made, driver={"state": "absent"}) == []


@pytest.mark.parametrize("name", ["mlnx-ofed-kernel", "mlnx-ofa_kernel", "doca-ofed-26.01-dkms"])
def test_a_next_kernel_is_built_from_what_dkms_has(name: str) -> None:
    """On RHEL 9 the plan was empty, and the host started its next kernel without the vendor's driver."""
    version, following = "24.07.OFED.24.07.0.6.1.1", "6.8.0-50-generic"
    state = installed(
        built=[{"name": name, "version": version, "kernel": KERNEL}],
        headers={KERNEL: True, following: True},
        next_kernel=following,
    )
    found, context = plan_with_context(check_spec({"requests": [asked()]}), host(state), ("driver",))
    step = step_named(found["steps"], f"build:{following}")
    (build,) = work(context, step).do
    assert isinstance(build, Run) and build.argv == ("dkms", "install", f"{name}/{version}", "-k", following)


def test_a_build_that_dkms_only_says_to_have_made_is_found_out() -> None:
    following = "6.8.0-50-generic"
    state = installed(headers={KERNEL: True, following: True}, next_kernel=following)
    found, context = plan_with_context(check_spec({"requests": [asked()]}), host(state), ("driver",))
    verify = work(context, step_named(found["steps"], f"build:{following}")).verify

    def on(path: str) -> RecordedHost:
        answer = {"rc": 0, "stdout": f"filename: {path}\nsrcversion: CC\n", "stderr": ""}
        document = FLEET["egx-02"]().document()
        return RecordedHost({**document, "commands": {f"modinfo -k {following} mlx5_core": answer}})

    assert verify(on(CORE.replace(KERNEL, following))) == ""
    assert f"it was not built for {following}" in verify(on(INBOX_CORE.replace(KERNEL, following)))


REPOSITORY: dict[str, Any] = {"source": "repository", "repository": {"url": "/srv/doca", "gpg_check": False}}


def packages_step(state: Any, flavour: str = "mlnx-ofed", version: str | None = WANTED, **more: Any) -> Any:
    """The step that changes packages, with the commands and files that it means; None without one."""
    wanted = {"flavour": flavour, **({"version": version, **REPOSITORY, **more} if version else {})}
    found, context = plan_with_context(check_spec({"driver": wanted}), host(state), ("driver",))
    step = next((step for step in found["steps"] if step["id"] == "driver:packages"), None)
    if step is None:
        return None
    runs = [operation.argv for operation in work(context, step).do if isinstance(operation, Run)]
    return step, [" ".join(word for word in argv if "=" not in word and word != "-o") for argv in runs]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_stack_asks_for_a_new_build_of_peer_memory_that_is_loaded(is_there: bool) -> None:
    modules = {"nvidia_peermem": {**two_ports()["modules"]["mlx5_core"], "loaded": is_there}}
    step = step_named(steps(host(read(), modules=modules), asked(), **CONSENTED), "packages")
    assert ("have DKMS build the GPU driver again after this step" in step["detail"]) is is_there


class TestHalfInstalledPackages:
    HALF: ClassVar[dict[str, str]] = {"rdma-core": "2407mlnx52-1.2407061"}

    def test_what_dpkg_left_is_completed_though_the_release_is_there(self) -> None:
        assert packages_step(installed()) is None
        step, runs = packages_step(installed(unfinished=self.HALF))
        assert step["action"] == "finish the installation of MLNX_OFED 24.07-0.6.1.0"
        assert step["detail"].startswith("rdma-core half installed; ")
        complete, install = runs[-2:]
        assert complete.endswith("--fix-broken install")
        assert " install linux-headers-" in install
        assert not [run for run in runs if " dpkg " in run]

    def test_a_first_installation_that_was_interrupted_is_completed_too(self) -> None:
        step, runs = packages_step(read(unfinished={"infiniband-diags": "50.0-2build2"}))
        assert step["action"] == "install MLNX_OFED 24.07-0.6.1.0"
        assert [run for run in runs if run.endswith("--fix-broken install")] == runs[-2:-1]

    def test_a_dpkg_that_was_interrupted_is_brought_to_its_end_before_apt_is_called(self) -> None:
        _step, runs = packages_step(installed(unfinished=self.HALF, dpkg_interrupted=True))
        assert runs[0].endswith("dpkg --force-confold --configure --pending")
        _step, runs = packages_step(installed(unfinished=self.HALF, dpkg_interrupted=True), "inbox", None)
        assert runs[0].endswith("dpkg --force-confold --configure --pending")

    def test_the_kernel_package_counts_while_it_is_half_installed(self) -> None:
        """An upgrade that ended between its packages has the newer release, not none."""
        name = "mlnx-ofed-kernel-dkms"
        rest = {key: version for key, version in VENDOR_PACKAGES.items() if key != name}
        step, _runs = packages_step(installed(packages=rest, unfinished={name: VENDOR_PACKAGES[name]}))
        assert step["action"].startswith("finish the installation of MLNX_OFED")
        step, runs = packages_step(installed(packages=rest, unfinished={name: VENDOR_PACKAGES[name]}), "inbox", None)
        assert f"{name}-" in runs[-2].split()
        assert f"removes {name}, " in step["detail"]

    def test_half_installed_packages_of_the_distribution_are_replaced_on_the_way_back(self) -> None:
        step, runs = packages_step(installed(unfinished={"libibmad5": "50.0-2build2"}), "inbox", None)
        assert "replaces libibmad5, rdma-core by the distribution's" in step["detail"]
        assert " install libibmad5 rdma-core " in runs[-2]


class TestOtherReleases:
    def test_a_newer_release_goes_first_as_apt_only_goes_forward(self) -> None:
        step, runs = packages_step(installed(), version="24.04-0.7.0.0")
        assert step["action"].startswith("downgrade ")
        assert "the newer release is removed first" in step["detail"]
        back = next(i for i, run in enumerate(runs) if "--allow-downgrades" in run)
        assert runs[back].endswith("install rdma-core mlnx-ofed-kernel-dkms- ofed-scripts-")
        assert " install linux-headers-" in runs[-1] and back < len(runs) - 1

    def test_an_older_release_is_upgraded_in_place(self) -> None:
        step, runs = packages_step(installed(), version="24.07-0.7.0.0")
        assert step["action"].startswith("upgrade ")
        assert not [run for run in runs if "--allow-downgrades" in run or " purge " in run]

    def test_an_index_that_was_read_before_is_read_again(self) -> None:
        """The repository may offer since then what it lacked."""
        _step, runs = packages_step(installed(), version="24.07-0.7.0.0")
        assert not [run for run in runs if run.endswith(" update")]
        state, known = installed(), "/etc/apt/sources.list.d/rdma-fabric-driver.sources"
        family = family_of(two_ports()["system"]["os"])
        assert family is not None
        text = repository_files(family, {"url": "/srv/doca", "gpg_key": None, "gpg_check": False})[known]
        made = host(state, boot={"files": {known: text}})
        wanted = {"flavour": "mlnx-ofed", "version": "24.07-0.7.0.0", **REPOSITORY}
        found, context = plan_with_context(check_spec({"driver": wanted}), made, ("driver",))
        assert "repository" not in statuses([step for step in found["steps"] if step["id"].startswith("driver:")])
        runs = [each.argv for each in work(context, step_named(found["steps"], "packages")).do if isinstance(each, Run)]
        assert runs[0][-1] == "update"


def test_packages_without_ofed_info_are_no_installation_of_mlnx_ofed() -> None:
    """They were removed before those of DOCA-OFED were installed, as if another stack had owned the files."""
    rest = {name: version for name, version in VENDOR_PACKAGES.items() if name != "ofed-scripts"}
    step, runs = packages_step(installed(packages=rest), "doca-ofed", "24.07-0.7.0.0")
    assert step["action"] == "upgrade DOCA-OFED 24.07-0.6.1 to DOCA-OFED 24.07-0.7.0.0"
    assert not [run for run in runs if " purge " in run]
    older = {**rest, "mlnx-ofed-kernel-dkms": "23.10.OFED.23.10.1.1.9.1-1"}
    step, runs = packages_step(installed(packages=older), "doca-ofed", "24.07-0.7.0.0")
    assert step["action"].startswith("upgrade MLNX_OFED 23.10-1.1.9 ")
    assert [run for run in runs if " purge " in run]


def test_an_archive_is_installed_with_options_that_every_distributions_installer_knows() -> None:
    """mlnxofedinstall of the archives for Debian and Ubuntu takes -q, and ends with 22 for --quiet."""
    own = {"flavour": "mlnx-ofed", "source": "archive", "archive": "/srv/MLNX_OFED.tgz"}
    found, context = plan_with_context(check_spec({"driver": own}), host(read(archive=True)), ("driver",))
    step = step_named(found["steps"], "packages")
    assert "removes the distribution's RDMA and InfiniBand packages" in step["detail"]
    done = work(context, step).do
    (words,) = [run.argv for run in done if isinstance(run, Run) and run.argv[0].endswith("/mlnxofedinstall")]
    assert "-q" in words and "--quiet" not in words


def test_files_stay_while_nobody_asks_for_anything_else() -> None:
    made = host(boot={"files": {DROP_IN: f"# {MARKER}\n"}})
    assert plan(made)["steps"] == []


def test_a_second_plan_of_the_same_facts_is_equal() -> None:
    made = host(installed())
    assert plan(made, asked())["digest"] == plan(copy.deepcopy(made), asked())["digest"]
