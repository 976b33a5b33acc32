# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: run
short_description: Hosts of a run of rdma.fabric
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Returns the hosts that belong to the fabric, as C(rdma_fabric_hosts_pattern) says. The pattern of a play sees no
    C(group_vars) by itself.
  - The playbooks of this collection also read what earlier plays of the same run have left for later ones.
options:
  _terms:
    description:
      - V(hosts) is the names of the hosts that belong to the fabric, in the order of the inventory, V(hosts_pattern)
        their pattern, V(run_dir) the directory of the run, and V(push) whether it pushes to the cluster.
      - The other terms are for the playbooks of this collection, and may change.
    type: list
    elements: str
    required: true
    choices:
      - hosts
      - hosts_pattern
      - run_dir
      - push
      - verify_level
      - verify_cabling
      - nccl_image
      - reboots
      - reboots_give_back
      - reboots_parallel
      - discover_machine
      - teardown_server
      - canaries
      - turns
      - hooks
      - by_facts
"""

EXAMPLES = r"""
- name: Read the hosts of the fabric
  hosts: "{{ query('rdma.fabric.run', 'hosts') }}"
  gather_facts: false
  tasks:
    - name: Read the host without changing it
      rdma.fabric.rdma_info:
"""

RETURN = r"""
_raw:
  description: The names of the hosts, or what was left, if anything was.
  type: list
  elements: raw
"""

from typing import Any, Mapping

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.hooks import without_facts
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import fabric_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import END, node_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import names_by_facts, variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of

_VALUES = ("hosts_pattern", "run_dir", "push", "verify_level", "verify_cabling", "nccl_image")
_ASKED = {"reboots_parallel": "rdma_fabric_reboot_parallel", "discover_machine": "rdma_fabric_discover_machine"}


class LookupModule(LookupBase):
    """Looks up hosts of a run."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **_options: Any) -> list[Any]:
        """Return what the terms name; raises AnsibleLookupError where the pattern of the hosts has no value."""
        try:
            return [each for term in terms for each in self._found(term, variables or {})]
        except ActionFailure as failure:
            raise AnsibleLookupError(str(failure)) from failure

    def _found(self, term: str, variables: dict[str, Any]) -> list[Any]:
        def template(value: Any) -> Any:
            return plain(self._templar.template(value))

        given = Given(variables, template)
        if term == "hosts":
            return fabric_of(given, variables, self._loader)[1]
        if term in ("hooks", "by_facts"):
            return _of_host(term, variables, given)
        if term in _VALUES:
            value = given.value(f"rdma_fabric_{term}")
            return ["" if value is None else str(value).strip()]
        # What a user asks goes before what policies say.
        asked = given.get(_ASKED[term]) if term in _ASKED else None
        if asked is not None:
            return [str(asked).strip()]
        # Of localhost whatever the limit.
        left = (variables.get("hostvars") or {}).get("localhost") or {}
        return _left(term, left)


def _of_host(term: str, variables: Mapping[str, Any], given: Given) -> list[Any]:
    """Return the hooks of a stage of the task's host, or the variables that get back what facts of it have replaced."""
    hosts, host = variables_of_hosts(variables), variables["inventory_hostname"]
    own = hosts[host]
    if term == "hooks":
        stage = variables["host_stage"]
        row = TABLE[f"rdma_fabric_hooks_{stage}"]
        reason = "; ".join(each["why"] for each in (own.get(END) or {}).get("unfinished") or ())
        told = {"stage": stage, "node": node_of(host, given), "reason": reason}
        return [{**told, "file": str(path)} for path in value_of(row, own.get(row.name))[0] or ()]
    kept = without_facts(names_by_facts(own), own, hosts.get("localhost") or {})
    return [{"key": name, "value": value} for name, value in kept.items()]


def _left(term: str, left: Mapping[str, Any]) -> list[Any]:
    """Return what earlier plays have registered for localhost."""
    rollout, reboots, marks, ready = (
        left.get(f"_rdma_fabric_{each}") or {} for each in ("turns", "reboots", "marks", "ready_result")
    )
    # What Ansible has yet to fill in is read once.
    turns = [*(rollout.get("turns") or {}).values()]
    # Where that can't be read each of them is looked at, and fails with its own reason.
    marked = None if "marked" not in marks else {each["node"] for each in marks["marked"] if each["run"] == RUN}
    back = (reboots.get("give_back") or {}).items()
    return {
        "canaries": [turn["host"] for turn in turns if turn["canary"]],
        "turns": [turn["host"] for turn in turns if not turn["canary"]],
        "reboots": [*dict.fromkeys([*(reboots.get("reload") or []), *(reboots.get("reboot") or [])])],
        "reboots_parallel": [reboots["parallel"]] if "parallel" in reboots else [],
        "reboots_give_back": [host for host, node in back if marked is None or node in marked],
        "teardown_server": [ready["server"]] if "server" in ready else [],
    }.get(term, [])
