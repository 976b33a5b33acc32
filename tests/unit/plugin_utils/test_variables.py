# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that nothing would read are found: misspelt ones, and those that only the controller reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Collection, Dict, Mapping

import pytest
import yaml
from ansible.errors import AnsibleUndefinedVariable
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HOST_VARIABLES, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import INTERFACE_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import (
    VariableSurvey,
    around_the_fabric,
    not_of_inventory,
    refuse_unseen,
)
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[3]
MANIFESTS = "rdma_fabric_manifests"


def survey(
    controller: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]], *given: str
) -> tuple[list[str], list[str]]:
    """Return the violations and the notices as sentences."""
    looked = VariableSurvey(controller, given, plain)
    for host, variables in hosts.items():
        looked.look(host, variables)
    violations, notices = looked.findings()
    return [each.sentence() for each in violations], [each.sentence() for each in notices]


def test_what_only_hosts_have_and_only_the_controller_reads_is_refused_once_with_the_hosts() -> None:
    hosts = {f"gpu0{number}": {MANIFESTS: ["a.yaml"]} for number in range(1, 6)}
    violations, notices = survey({}, hosts)
    assert violations == [
        f"variables: {MANIFESTS}: is set for gpu01, gpu02, gpu03 and 2 more and is not set for localhost, where it is "
        "read: it would be ignored (set it in group_vars/all, for localhost, or with -e)"
    ]
    assert notices == []


def test_what_differs_from_the_controller_is_refused_and_what_is_equal_is_not() -> None:
    controller = {MANIFESTS: ["a.yaml"], "rdma_fabric_namespace": "net"}
    hosts = {"a": {MANIFESTS: ("a.yaml",), "rdma_fabric_namespace": "other"}, "b": dict(controller)}
    violations, _notices = survey(controller, hosts)
    assert len(violations) == 1
    assert "rdma_fabric_namespace: is set for a and differs from localhost's" in violations[0]


def test_what_was_given_some_other_way_and_what_hosts_read_themselves_is_fine() -> None:
    hosts = {"a": {MANIFESTS: ["a.yaml"], "rdma_fabric_interfaces": [], "rdma_fabric_host_mode": "preview", "other": 1}}
    assert survey({}, hosts, MANIFESTS) == ([], [])


@pytest.mark.parametrize(
    ("name", "value", "nothing"),
    [
        ("rdma_fabric_kernel_modules", ["ib_umad"], []),
        ("rdma_fabric_drain", True, False),
        ("rdma_fabric_allow_reboot", True, False),
        ("rdma_fabric_host_strict", False, True),
        ("rdma_fabric_host_mode", "preview", ""),
    ],
)
def test_what_only_hosts_read_and_only_localhost_has_is_said(name: str, value: Any, nothing: Any) -> None:
    hosts: dict[str, dict[str, Any]] = {"a": {"rdma_fabric_interfaces": []}}
    violations, notices = survey({name: value, "rdma_fabric_interfaces": ["x"]}, hosts)
    assert violations == []
    assert notices == [
        f"variables: {name}: is set for localhost, which is not a host of the fabric, and for none of its hosts: "
        "nothing reads it (set it for the hosts, as in group_vars/rdma_fabric)"
    ]
    assert survey({name: value}, {}) == ([], [])
    assert survey({name: nothing}, hosts) == ([], [])
    assert survey(Broken({name: value}), hosts) == ([], [])
    assert survey({name: value}, {**hosts, "localhost": {name: value}}) == ([], [])


class Broken(Dict[str, Any]):
    """Variables whose values cannot be templated, as Ansible shows them."""

    def __getitem__(self, key: str) -> Any:
        raise AnsibleUndefinedVariable("'inventory_dir' is undefined")


def test_a_value_that_makes_no_sense_on_a_host_is_not_compared() -> None:
    assert survey({MANIFESTS: []}, {"a": Broken({MANIFESTS: 1})}) == ([], [])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rdma_fabric_manifest", MANIFESTS),
        ("rdma_fabric_nic_cluster_polcy", "rdma_fabric_nic_cluster_policy"),
        ("rdma_fabric_interface", "rdma_fabric_interfaces"),
        ("rdma_fabric_allow_vf_resets", "rdma_fabric_allow_vf_reset"),
        ("rdma-fabric-interfaces", "rdma_fabric_interfaces"),
        ("RDMA_FABRIC_INTERFACE", "rdma_fabric_interfaces"),
        ("rdma_Fabric_interfaces", "rdma_fabric_interfaces"),
        ("rdma_interfaces", "rdma_fabric_interfaces"),
        ("fabric_manifests", MANIFESTS),
    ],
)
def test_a_misspelt_variable_is_refused_wherever_it_is_set(name: str, meant: str) -> None:
    expected = [f"variables: {name}: is not a variable of this collection (did you mean {meant}?)"]
    assert survey({name: 1}, {})[0] == expected
    assert survey({}, {"a": {name: 1}, "b": {name: 2}})[0] == expected


def test_what_a_variable_is_made_of_may_have_its_name_without_the_prefix() -> None:
    made: dict[str, Any] = {"rdma_interfaces": [], "rdma_fabric_interfaces": []}
    assert survey({}, {"a": made}) == ([], [])


def test_a_variable_of_the_user_with_our_prefix_is_only_said() -> None:
    violations, notices = survey({"rdma_fabric_rack_of_site": 1, "rdma_other": 2}, {})
    assert violations == []
    assert notices == ["variables: rdma_fabric_rack_of_site: is not a variable of this collection, nothing reads it"]


def test_keys_of_a_variable_that_has_the_prefix_for_its_name_are_refused_unless_they_are_variables_too() -> None:
    nested = {"rdma_fabric": {"interfaces": [], "manifests": [], "rack": 1}, "rdma_fabric_manifests": []}
    (said,) = survey({"rdma_fabric_manifests": []}, {"a": nested, "b": nested})[0]
    assert said.startswith("variables: rdma_fabric_interfaces: is a key of a variable rdma_fabric, which nothing reads")
    assert survey({"rdma_fabric": "gpu"}, {"a": Broken(rdma_fabric=1)}) == ([], [])


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("vars", {"rdma_fabric_interfaces": [], "rdma_fabric_manifests": []}),
        ("rdma_fabric", {"vars": {"rdma_fabric_interfaces": []}, "hosts": {"a": None}}),
        ("rdma_fabric", {"rdma_fabric_interfaces": []}),
        ("all", {"vars": {"rdma_fabric_interfaces": []}}),
    ],
)
def test_sections_of_an_inventory_that_became_variables_are_refused(section: str, value: Any) -> None:
    said = survey({"rdma_fabric_manifests": []}, {"a": {section: value}})[0][0]
    assert said.startswith(
        f"variables: rdma_fabric_interfaces: is a key of a variable {section}, which nothing reads ("
    )
    assert said == survey({section: value}, {"a": {}})[0][0]


def test_what_stands_below_vars_is_refused_even_where_it_has_a_value_beside_it() -> None:
    given = {"vars": {"rdma_fabric_interfaces": [1], "other": 2}, "rdma_fabric_interfaces": []}
    (said,) = survey({}, {"a": given})[0]
    assert said.endswith(
        "(write rdma_fabric_interfaces: VALUE without vars above it: only a group of an inventory has this section)"
    )


def test_words_of_extra_variables_that_are_none_are_refused() -> None:
    (said,) = survey({"_raw_params": "rdma_fabric_allow_reboot true", "": ""}, {})[0]
    assert said.startswith("extra variables (-e): has words that are not NAME=VALUE (2), which Ansible passes over (")


def test_a_key_that_was_made_a_variable_is_said_with_where_it_belongs() -> None:
    hints = {name: survey({f"rdma_fabric_{name}": 1}, {})[1][0].partition("reads it")[2] for name in ("mtu", "memlock")}
    assert hints == {"mtu": " (belongs in rdma_fabric_interfaces[])", "memlock": " (belongs in rdma_fabric_limits)"}


def test_every_variable_of_hosts_is_documented_with_the_role() -> None:
    ours = {name for name in HOST_VARIABLES if name.startswith("rdma_fabric_")}
    specification = yaml.safe_load((CHECKOUT / "roles" / "host" / "meta" / "argument_specs.yml").read_text())
    options = specification["argument_specs"]["main"]["options"]
    of_runs = {"rdma_fabric_run_dir", "rdma_fabric_link_timeout", "rdma_fabric_show_secrets"}
    assert {name for name in options if not name.startswith("rdma_fabric_host_")} == ours | of_runs
    told = " ".join(options["rdma_fabric_interfaces"]["description"])
    assert [key for key in INTERFACE_KEYS if f"C({key})" not in told] == []


def test_a_variable_that_preflight_takes_as_not_given_is_none_for_the_role_either() -> None:
    """A line of group_vars with nothing behind the colon is null; preflight let it pass, and then every host failed."""
    specification = yaml.safe_load((CHECKOUT / "roles" / "host" / "meta" / "argument_specs.yml").read_text())
    validator = ArgumentSpecValidator(specification["argument_specs"]["main"]["options"])
    nothing = parse_host_variables("gpu01", {})
    none_of(
        f"{name}: {where}"
        for name in HOST_VARIABLES
        if name.startswith("rdma_fabric_")
        for where, fits in (
            ("preflight", parse_host_variables("gpu01", {name: None}) == nothing),
            ("the role", not validator.validate({name: None}).error_messages),
        )
        if not fits
    )


class TestAroundTheFabric:
    """What is said about the hosts of the inventory that the fabric's pattern does not match."""

    GPUS: ClassVar = {f"gpu0{number}": {"rdma_fabric_interfaces": [], "rack": 1} for number in range(1, 6)}

    def said(
        self, pattern: str, hosts: Collection[str], hostvars: Mapping[str, Any], *controller: str
    ) -> tuple[list[str], list[str]]:
        violations, notices = around_the_fabric(pattern, hosts, hostvars, controller)
        return [each.sentence() for each in violations], [each.sentence() for each in notices]

    def test_hosts_with_wishes_in_another_group_are_refused_when_the_fabric_has_none(self) -> None:
        expected = (
            "variables: rdma_fabric_hosts_pattern: is 'rdma_fabric', which matches no host of the inventory: nothing "
            "would read rdma_fabric_interfaces of gpu01, gpu02, gpu03 and 2 more (put the hosts into the group "
            "rdma_fabric, or give their own group as rdma_fabric_hosts_pattern)"
        )
        assert self.said("rdma_fabric", [], self.GPUS) == ([expected], [])
        assert self.said("rdma_fabric", [], self.GPUS, "rdma_fabric_interfaces") == ([expected], [])

    def test_a_pattern_of_the_users_own_that_matches_nothing_is_refused(self) -> None:
        (violation,), notices = self.said("gpu_nodes", [], {"gpu01": {}})
        assert "rdma_fabric_hosts_pattern: is 'gpu_nodes', which matches no host of the inventory" in violation
        assert notices == []

    @pytest.mark.parametrize("hosts", [[], ["gpu01"]])
    def test_an_empty_pattern_is_refused_as_ansible_takes_it_for_every_host(self, hosts: list[str]) -> None:
        (violation,), _notices = self.said(" ", hosts, self.GPUS)
        assert "is empty, which Ansible takes for every host" in violation

    def test_a_subset_may_be_meant_and_the_hosts_that_it_leaves_out_are_told(self) -> None:
        violations, notices = self.said("gpu01", ["gpu01"], {**self.GPUS, "other": {"ansible_host": "10.0.0.1"}})
        assert violations == []
        assert notices == [
            "variables: rdma_fabric_hosts_pattern: is 'gpu01', which leaves hosts out: nothing reads "
            "rdma_fabric_interfaces of gpu02, gpu03, gpu04 and 1 more (right when the run is for the others only)"
        ]

    def test_what_is_set_for_everybody_says_nothing_about_a_host_that_is_left_out(self) -> None:
        assert self.said("gpu01", ["gpu01"], self.GPUS, "rdma_fabric_interfaces") == ([], [])

    def test_a_cluster_without_hosts_is_fine_beside_hosts_that_ask_for_nothing(self) -> None:
        consents = {"web": {"rdma_fabric_allow_reboot": True, "ansible_host": "10.0.0.1"}}
        assert self.said("rdma_fabric", [], {}) == ([], [])
        assert self.said("rdma_fabric", [], consents) == ([], [])


class TestNotOfInventory:
    """Variables of hosts that a role or a play has and the inventory has not."""

    def found(self, task: Mapping[str, Any], inventory: Mapping[str, Any]) -> list[str]:
        return not_of_inventory(task, inventory, plain)

    def test_what_the_inventory_lacks_or_has_otherwise_is_found_and_the_same_value_is_not(self) -> None:
        task = {"rdma_fabric_allow_vf_reset": True, "rdma_fabric_interfaces": []}
        assert self.found(task, {"ansible_host": "a"}) == ["rdma_fabric_interfaces", "rdma_fabric_allow_vf_reset"]
        inventory = {"rdma_fabric_sysctls": {"a": 1}, "rdma_fabric_kernel_modules": ["x"]}
        assert self.found({**inventory, "rdma_fabric_kernel_modules": ("x",)}, inventory) == []
        assert self.found({"rdma_fabric_sysctls": {"a": 2}}, inventory) == ["rdma_fabric_sysctls"]

    @pytest.mark.parametrize("value", [None, False])
    def test_a_consent_that_is_withheld_and_a_wish_for_nothing_are_as_good_as_not_given(self, value: Any) -> None:
        consent = {"rdma_fabric_allow_vf_reset": value}
        assert self.found({**consent, "rdma_fabric_driver": None}, {}) == []
        assert self.found(consent, {"rdma_fabric_allow_vf_reset": False, "rdma_fabric_driver": None}) == []
        assert self.found(consent, {"rdma_fabric_allow_vf_reset": True}) == ["rdma_fabric_allow_vf_reset"]
        assert self.found({"rdma_fabric_multirail_sysctls": False}, {}) == ["rdma_fabric_multirail_sysctls"]

    def test_what_the_role_reads_itself_is_none(self) -> None:
        task = {"rdma_fabric_allow_reboot": True, "rdma_fabric_recording": "a", "rdma_fabric_host_mode": "preview"}
        assert self.found({**task, "ansible_host": "10.0.0.1", "rdma_fabric_hosts_pattern": "x"}, {}) == []


class TestUnseen:
    """Inputs of the cluster objects that a role is given behind preflight, which alone reads them."""

    NETWORKS = "rdma_fabric_macvlan_networks"

    def test_what_preflight_did_not_see_is_refused_by_name(self) -> None:
        with pytest.raises(InvalidInput, match=f"{self.NETWORKS}: is set where only this role sees it"):
            refuse_unseen({"rdma_fabric_preflight_result": {"given": []}, self.NETWORKS: {"a": {}}}, plain)

    @pytest.mark.parametrize("value", [None, "", {}, " "])
    def test_what_it_saw_and_what_asks_for_nothing_is_not(self, value: Any) -> None:
        refuse_unseen({"rdma_fabric_preflight_result": {"given": []}, self.NETWORKS: value}, plain)
        refuse_unseen({"rdma_fabric_preflight_result": {"given": [self.NETWORKS]}, self.NETWORKS: {"a": {}}}, plain)
        refuse_unseen({self.NETWORKS: {"a": {}}}, plain)
