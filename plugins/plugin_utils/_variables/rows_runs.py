# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of runs: which hosts, how far, the report and recordings."""

from __future__ import annotations

from .rows_turns import TURNS
from .variable import HOST, Variable

_TURN = ("host/give_back",)
_DRAIN = ("host/drain",)
_LOOK = ("host/drain", "host/look")
_NODE = ("host/drain", "host/give_back")
_JOIN = ("host/join",)
_SUPPORT = ("playbook support",)
_EVERY_ROLE = ("cluster", "discover", "drift", "host", "nccl", "preflight", "render", "report", "status", "verify")

RUN = (
    Variable(
        "hosts_pattern",
        "str",
        (
            "Pattern of the inventory hosts that belong to the fabric.",
            "A pattern that you set must match a host. Without hosts in the group C(rdma_fabric) a run handles only "
            "the cluster objects, unless hosts of the inventory have variables such as C(rdma_fabric_interfaces).",
        ),
        (
            "discover",
            "preflight",
            "playbook discover",
            "playbook drift",
            "playbook join",
            "playbook nccl",
            "playbook preview",
            "playbook record",
            "playbook rollback",
            "playbook site",
            "playbook status",
            "playbook support",
            "playbook teardown",
            "playbook upgrade",
            "playbook verify",
        ),
        default="rdma_fabric",
        asked=True,
    ),
    Variable(
        "run_dir",
        "path",
        ("Directory on the controller for the results of the run and its report.",),
        (
            "cluster",
            "discover",
            "drift",
            "host",
            "host/give_back",
            "host/upgrade",
            "nccl",
            "render",
            "report",
            "status",
            "verify",
            "playbook adopt",
            "playbook join",
            "playbook preview",
            "playbook record",
            "playbook release",
            "playbook site",
            "playbook support",
            *TURNS,
        ),
        default="rdma-fabric-run",
    ),
    Variable("show_secrets", "bool", ("Whether output shows secrets, not a mask.",), _EVERY_ROLE, default=False),
    Variable(
        "push",
        "bool",
        (
            "Whether the run pushes the cluster objects and writes the report. With V(false) it ends with its hosts, "
            "and leaves both to a run with C(rdma_fabric_host_mode=kept).",
        ),
        ("playbook site", "playbook upgrade"),
        default=True,
        asked=True,
    ),
    Variable("report_title", "str", ("Title of the page.",), ("report",), asked=True),
    Variable(
        "status_file",
        "path",
        ("File on the controller to which the status is written as JSON, for programs.",),
        ("status",),
    ),
    Variable(
        "status_counters",
        "bool",
        (
            "Whether the status shows the error counters of the host's RDMA ports.",
            "With O(rdma_fabric_status_file), the next status shows how much they rose since.",
        ),
        ("playbook status",),
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "status_gpus",
        "bool",
        (
            "Whether the status asks the DCGM exporters of the cluster for errors of GPUs, and shows them beside "
            "those of the NICs.",
            "With C(rdma_fabric_status_counters), each GPU is shown with the counters of the NIC of its rail.",
        ),
        ("status",),
        default=False,
        asked=True,
    ),
    Variable(
        "support_file",
        "path",
        (
            "Archive on the controller that C(rdma.fabric.support) writes, ending with C(.tar.gz). The default is "
            "C(support.tar.gz) in the run directory.",
        ),
        _SUPPORT,
    ),
    Variable(
        "support_logs",
        "int",
        ("Maximum number of containers that are not ready whose logs C(rdma.fabric.support) reads.",),
        _SUPPORT,
        default=20,
        least=0,
        asked=True,
    ),
    Variable(
        "support_log_lines",
        "int",
        ("Maximum number of lines from the end of each of these logs, within 256 KiB.",),
        _SUPPORT,
        default=500,
        least=1,
    ),
    Variable(
        "render_dir",
        "path",
        ("Folder on the controller. Files of an earlier rendering that are no longer needed are removed.",),
        ("render",),
        required=True,
    ),
    Variable(
        "reboot_parallel",
        "str",
        (
            "How many hosts the playbooks C(rdma.fabric.site) and C(rdma.fabric.join) reboot at once, or reload the "
            "NIC driver of, a number from V(1) on or a percentage such as V(10%) of those to be rebooted or reloaded.",
            "Without it C(ofedDriver.upgradePolicy) decides where nodes are drained, and one host goes at a time "
            "otherwise.",
            "A host that fails keeps the hosts after it from being rebooted and reloaded, unless its node joins.",
        ),
        ("preflight", "playbook join", "playbook site", "playbook teardown"),
        default="1",
        asked=True,
    ),
    Variable(
        "sealed_plan",
        "path",
        (
            "A file on the controller that C(rdma.fabric.site --check) has written. The run executes that plan. It "
            "refuses, and names, anything that has changed since: a variable, a cluster object or a host.",
        ),
        ("preflight",),
    ),
    Variable(
        "plan_file",
        "path",
        ("File on the controller to which C(rdma.fabric.site --check) writes its plan, for others to approve.",),
        ("preflight", "playbook join", "playbook site", *TURNS),
    ),
)
OF_RUNS = (
    Variable(
        "host_mode",
        "str",
        (
            "V(apply) executes the plan of the host, outside check mode.",
            "V(preview) shows the plan and goes on.",
            "V(kept) does not connect to the host: what an earlier run has left of it in C(rdma_fabric_run_dir) "
            "counts. A host that this does not tell finished fails.",
        ),
        ("host", "host/give_back"),
        HOST,
        default="apply",
        choices=("apply", "preview", "kept"),
        asked=True,
    ),
    Variable(
        "host_state",
        "str",
        (
            "V(absent) restores the values from before the first run, and removes every file of this collection from "
            "the host. Of the host's variables, only consents, C(rdma_fabric_protected_interfaces), "
            "C(rdma_fabric_firmware_allow) and C(rdma_fabric_revert_seconds) apply then.",
            "V(previous) brings the host to the last state that it reached before and that differs from the current "
            "spec.",
        ),
        ("host", "playbook drift", "playbook status"),
        HOST,
        default="present",
        choices=("present", "absent", "previous"),
        asked=True,
    ),
    Variable(
        "host_strict",
        "bool",
        (
            "Whether a refused step fails the host, after all others are executed.",
            "Steps that wait for a consent are reported. They fail the host only when everything is taken back, as "
            "in a teardown, because their settings would stay.",
        ),
        ("host",),
        HOST,
        default=True,
        asked=True,
    ),
    Variable(
        "record_dir",
        "path",
        ("Folder on the controller that recordings of hosts are written to, one file for each.",),
        ("playbook record",),
        HOST,
        default="rdma-fabric-recordings",
    ),
    Variable(
        "reboot_timeout",
        "int",
        ("Seconds to wait for the host to come back. Servers with many GPUs take long.",),
        ("host/reboot", "host/rollback"),
        HOST,
        default=1800,
        least=1,
        unit="seconds",
        asked=True,
    ),
    Variable(
        "allow_controller_node",
        "bool",
        (
            "Consent to drain, reload and reboot the host although it is the machine that Ansible runs on, or its node "
            "runs the API server that the run talks to. Without it such a host is refused.",
            "Ansible reboots no machine over a local connection.",
        ),
        (*TURNS, "playbook join", "playbook site"),
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "rollback",
        "bool",
        (
            "Whether C(rdma.fabric.upgrade) rolls a host whose turn fails back to its previous state. Its node stays "
            "cordoned in both cases.",
        ),
        ("host/upgrade",),
        HOST,
        default=True,
        asked=True,
    ),
    Variable(
        "link_timeout",
        "int",
        (
            "Seconds to wait until RDMA ports that were up when C(rdma.fabric.upgrade) or C(rdma.fabric.rollback) "
            "began are up again after the host's change and reboot.",
        ),
        ("host",),
        HOST,
        default=120,
        least=0,
        unit="seconds",
    ),
    Variable(
        "wire_test",
        "bool",
        (
            "Whether the host's node is tested on the wire with a healthy neighbour in its turn, after its change "
            "and before it takes pods again. If the test fails with two neighbours, the host is rolled back and its "
            "node stays cordoned.",
            "Networks, resources and pods are those of C(rdma.fabric.verify).",
        ),
        _TURN,
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "node_name",
        "str",
        ("Name of the host's node, by default the name in the inventory. No two hosts have the same node.",),
        (*_NODE, *_JOIN, "host/look", "playbook join"),
        HOST,
    ),
    Variable(
        "join_devices",
        "list",
        (
            "Resources that the host's node has to offer before C(rdma.fabric.join) lets it take pods, such as "
            "C(rdma/rdma_shared_device_a).",
            "By default those that the device plugins of the input offer on it.",
        ),
        _JOIN,
        HOST,
        elements="str",
    ),
    Variable(
        "join_timeout",
        "int",
        (
            "Seconds that C(rdma.fabric.join) waits for the host's node to be registered, Ready and with its devices. "
            "V(0) is no limit.",
        ),
        _JOIN,
        HOST,
        default=600,
        least=0,
        unit="seconds",
        asked=True,
    ),
    Variable(
        "drain",
        "bool",
        (
            "Whether the host's node in the cluster is drained before a reload of the NIC driver or a reboot and "
            "uncordoned afterwards.",
        ),
        _NODE,
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "drain_pods",
        "str",
        ("Which pods leave, those that hold RDMA devices, GPUs or secondary networks, or all.",),
        _DRAIN,
        HOST,
        default="devices",
        choices=("devices", "all"),
        asked=True,
    ),
    Variable(
        "drain_resources",
        "list",
        ("Patterns of the resource names that count as devices, if not those of C(rdma.fabric.node_drain).",),
        (*_NODE, "host/look"),
        HOST,
        elements="str",
    ),
    Variable(
        "drain_pod_selector",
        "str",
        ("Label selector of the pods that leave.",),
        _LOOK,
        HOST,
        default="",
        selects=True,
    ),
    Variable(
        "drain_force",
        "bool",
        ("Whether pods without a controller are evicted.",),
        _DRAIN,
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "drain_delete_empty_dir",
        "bool",
        ("Whether pods with C(emptyDir) volumes are evicted, whose data is lost.",),
        _DRAIN,
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "drain_timeout",
        "int",
        ("Seconds for evictions and the end of the pods, and for the node to be ready again. V(0) is no limit.",),
        _NODE,
        HOST,
        default=300,
        least=0,
        unit="seconds",
        asked=True,
    ),
    Variable(
        "drain_restart_daemon_sets",
        "bool",
        (
            "Whether pods of DaemonSets that hold a device are restarted before the node takes pods again. What they "
            "hold may be gone after the change.",
        ),
        _NODE,
        HOST,
        default=False,
        asked=True,
    ),
    Variable(
        "drain_give_back",
        "bool",
        (
            "Whether a node that can't be drained takes pods again, because its host was not changed. The host fails "
            "in both cases. A node that an earlier run left cordoned stays cordoned.",
        ),
        _DRAIN,
        HOST,
        default=True,
        asked=True,
    ),
    Variable(
        "drain_wait_for",
        "str",
        ("Label selector of jobs to wait for once the node is cordoned.",),
        _DRAIN,
        HOST,
        default="",
        selects=True,
    ),
    Variable(
        "drain_wait_timeout",
        "int",
        ("Seconds to wait for these jobs, V(0) without limit. After that they are treated like other pods.",),
        _DRAIN,
        HOST,
        default=0,
        least=0,
        unit="seconds",
        asked=True,
    ),
)
"""Read for each host by what goes on around its desired state."""


_DISCOVERY = ("discover",)

OF_THE_DISCOVERY = (
    Variable(
        "discover_machine",
        "str",
        (
            "Machine of hosts that are not there yet, such as V(dgx-h100): the files are written from its published "
            "layout, and no host is read. V(list) prints the machines with their sources.",
        ),
        (*_DISCOVERY, "playbook discover"),
        asked=True,
    ),
    Variable(
        "discover_hosts",
        "int",
        (
            "Number of hosts of O(rdma_fabric_discover_machine), which are named after it. Without it, they are the "
            "hosts of the inventory.",
        ),
        _DISCOVERY,
        least=1,
        asked=True,
    ),
    Variable(
        "discover_dir",
        "path",
        ("Folder on the controller for the files.",),
        _DISCOVERY,
        default="rdma-fabric-inventory",
    ),
    Variable(
        "discover_overwrite",
        "bool",
        (
            "Whether to replace files of that folder that differ. Otherwise the run fails and names them. Files that "
            "differ only in comments are kept.",
        ),
        _DISCOVERY,
        default=False,
        asked=True,
    ),
    Variable(
        "discover_mtu",
        "int",
        ("MTU of Ethernet rails, such as V(9000). Without it, the one that most hosts of a class have now.",),
        _DISCOVERY,
        least=1280,
        most=65535,
        unit="bytes",
        asked=True,
    ),
    Variable(
        "discover_vfs",
        "int",
        (
            "Number of VFs of every rail. Without it, the number that most hosts of a class have now.",
            "Rails with VFs are offered to pods by the SR-IOV device plugin, others by the shared one.",
        ),
        _DISCOVERY,
        least=0,
        asked=True,
    ),
    Variable(
        "discover_rename",
        "bool",
        ("Whether rails are named V(rail0) and so on. Otherwise they keep their names, in the policy as well.",),
        _DISCOVERY,
        default=True,
        asked=True,
    ),
)
