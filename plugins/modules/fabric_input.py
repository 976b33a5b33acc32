#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_input
short_description: Load and validate everything that describes an RDMA fabric
version_added: 0.1.0
description:
  - Reads custom resources of the NVIDIA Network Operator, network attachments, other Kubernetes objects, Helm values
    and role variables, of any release of the operator since v0.1.0, and the variables of every host.
  - Checks everything at once. Every violation is reported with its source, its line if the source has lines, its path,
    the reason and the next step. Nothing is touched.
  - Retired fields are translated; a notice names each with its successor.
  - A custom resource given as extra variables (C(ansible-playbook -e @policy.yaml)) is read as another document.
  - Files are read on the controller. Their text is never templated.
  - Variables of this collection that nothing would read are refused as well, that is, misspelt ones, and variables of
    O(hosts) that only the controller reads and that localhost lacks or has with another value.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  manifests:
    description:
      - YAML or JSON files on the controller. A file may hold several documents, and be encrypted by C(ansible-vault).
      - A relative name is looked for in the working directory, then beside the playbook.
    type: list
    elements: path
    default: []
  helm_values:
    description: Values of the Network Operator's Helm chart. They take precedence over O(helm_values_files).
    type: dict
    default: {}
  helm_values_files:
    description:
      - Files with Helm values on the controller. Later files take precedence.
      - They may be encrypted by C(ansible-vault).
    type: list
    elements: path
    default: []
  helm_set:
    description: Arguments as given to C(helm --set), such as V(nfd.enabled=true). They take precedence over
      O(helm_values).
    type: list
    elements: str
    default: []
  nic_cluster_policy:
    description: The C(spec) of a C(NicClusterPolicy).
    type: dict
  nic_node_policies:
    description: The C(spec) of each C(NicNodePolicy), by its name.
    type: dict
    default: {}
  macvlan_networks:
    description: The C(spec) of each C(MacvlanNetwork), by its name.
    type: dict
    default: {}
  host_device_networks:
    description: The C(spec) of each C(HostDeviceNetwork), by its name.
    type: dict
    default: {}
  ipoib_networks:
    description: The C(spec) of each C(IPoIBNetwork), by its name.
    type: dict
    default: {}
  sriov_networks:
    description: The C(spec) of each C(SriovNetwork) of the SR-IOV Network Operator, by its name.
    type: dict
    default: {}
  sriov_ib_networks:
    description: The C(spec) of each C(SriovIBNetwork) of the SR-IOV Network Operator, by its name.
    type: dict
    default: {}
  ovs_networks:
    description: The C(spec) of each C(OVSNetwork) of the SR-IOV Network Operator, by its name.
    type: dict
    default: {}
  sriov_node_policies:
    description: The C(spec) of each C(SriovNetworkNodePolicy) of the SR-IOV Network Operator, by its name.
    type: dict
    default: {}
  sriov_pool_configs:
    description: The C(spec) of each C(SriovNetworkPoolConfig) of the SR-IOV Network Operator, by its name.
    type: dict
    default: {}
  ip_pools:
    description: The C(spec) of each C(IPPool) of nv-ipam, by its name.
    type: dict
    default: {}
  cidr_pools:
    description: The C(spec) of each C(CIDRPool) of nv-ipam, by its name.
    type: dict
    default: {}
  network_attachments:
    description:
      - Network attachments, by C(name) or C(namespace/name).
      - Each has C(config), the CNI configuration as JSON text, and may have C(annotations) and C(labels).
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of every object without its own.
      - By default the policy's namespace, or V(nvidia-network-operator).
    type: str
  engine:
    description:
      - What deploys the cluster objects. With V(direct), this collection pushes the objects that it renders. With
        V(helm), the chart of the Network Operator is installed and gets the custom resources unchanged.
      - With V(helm), Helm values are those of the chart, and custom resources do not configure hosts. Settings of
        O(hosts) that the operator would also make are refused.
    type: str
    choices: [direct, helm]
  helm_chart:
    description:
      - The chart, for O(engine=helm). A folder or archive on the controller, the name of a chart in
        O(helm_chart_repository), C(REPOSITORY/NAME) of a repository that Helm knows, or an C(oci://) or C(https://)
        address.
      - The default is V(network-operator).
    type: str
  helm_chart_repository:
    description: URL of the repository of a chart that is given by its name. By default NVIDIA's.
    type: str
  helm_chart_version:
    description: Release of the chart. By default, for the network operator, the one whose images the collection uses.
    type: str
  operator_release:
    description:
      - Release of NVIDIA's operator whose images, definitions and chart are the defaults. By default the newest one
        that NVIDIA has published.
      - A policy's own versions and O(image_overrides) win.
    type: str
  helm_release:
    description: Name of Helm's release. The default is V(network-operator).
    type: str
  nfd:
    description: Whether Node Feature Discovery is deployed. It is by default, unless a Helm value disables it.
    type: bool
  label_nodes:
    description: Whether P(rdma.fabric.node_labels#module) labels the nodes, in place of Node Feature Discovery.
    type: bool
  openshift:
    description:
      - Whether the cluster is OpenShift. Objects are adapted to it, and components that it includes are not rendered.
      - M(rdma.fabric.fabric_preflight) checks it against the cluster.
    type: bool
  driver_source:
    description:
      - What C(ofedDriver) of a policy asks for, V(packages) on the hosts or the driver's V(container). The default is
        V(packages).
    type: str
  driver_nodes:
    description:
      - Groups of nodes that the driver's container runs on, each with C(os), C(os_version), C(kernel) and C(arch), and
        where known C(precompiled), C(runtime), C(ostree_version) and C(toolkit_image).
      - By default they are those of the hosts that were read in the run.
    type: list
    elements: raw
  cni_bin_dir:
    description: Directory of CNI programs on the nodes, by default V(/opt/cni/bin), V(/var/lib/cni/bin) on OpenShift.
    type: str
  cni_conf_dir:
    description: Directory of CNI configurations on the nodes, by default V(/etc/cni/net.d).
    type: str
  kubelet_dir:
    description: The kubelet's own directory on the nodes (C(--root-dir)), by default V(/var/lib/kubelet).
    type: str
  join_taint:
    description:
      - Taint of new nodes, in the format of C(kubectl taint), V(key=value:NoSchedule) for example.
      - All rendered workloads tolerate it, so that they run on a node before it is verified.
    type: str
  registry_mirrors:
    description: Mapping of registries, or paths in them, to their mirrors, for every image.
    type: dict
    default: {}
  image_overrides:
    description: Mapping of components to the C(repository), C(image) and C(version) that replace those of the bill of
      materials.
    type: dict
    default: {}
  image_pull_secrets:
    description: Names of pull secrets in the namespace, for every workload.
    type: list
    elements: str
    default: []
  proxy:
    description: C(httpProxy), C(httpsProxy) and C(noProxy) of the driver's container. No other deployed component reads
      them; a notice says so if there is no such container.
    type: dict
    default: {}
  set:
    description: Name of the set of objects for P(rdma.fabric.k8s_batch#module). It is only checked here.
    type: str
  sealed_plan:
    description:
      - A file that M(rdma.fabric.fabric_seal) has written. A file that was changed, and variables, settings or rendered
        objects that are not what was sealed, are refused. So is a host of this run without a plan in it.
      - What hosts need is compared by M(rdma.fabric.rdma_host), which takes the plan of its host from RV(sealed).
    type: path
  plan_file:
    description:
      - The file that a run of the playbook C(rdma.fabric.site) in check mode seals its plan in. Outside check mode a
        notice says that nothing writes it.
    type: path
  reboot_parallel:
    description:
      - How many hosts may be rebooted at once, a number from V(1) on or a percentage such as V(10%) of those to be
        rebooted.
      - It is only checked here.
    type: str
  max_unavailable:
    description:
      - How many nodes may be out of service at once, a number, a percentage such as V(10%), or V(0) without limit.
      - It is only checked here.
    type: str
  failure_domain:
    description:
      - Key of the node label that names the failure domain of a node.
      - It is only checked here.
    type: str
    default: ''
  max_unavailable_per_domain:
    description:
      - How many nodes of one failure domain may be out of service at once, a number, a percentage such as V(10%), or
        V(0) without limit. It needs O(failure_domain).
      - It is only checked here.
    type: str
    default: ''
  hosts:
    description:
      - Inventory hosts whose variables are checked.
      - They are those of hosts in C(docs/variables.md), such as C(rdma_fabric_interfaces), and C(ansible_host).
    type: list
    elements: str
    default: []
  hosts_pattern:
    description:
      - The pattern that selected O(hosts). With it the other hosts of the inventory are checked as well.
      - The input is refused when the pattern is empty, when one other than V(rdma_fabric) matches nothing, and when it
        matches nothing while hosts of the inventory have variables such as C(rdma_fabric_interfaces).
      - It is refused as well when an inventory of the run is missing, cannot be read or has no host, when the group
        V(rdma_fabric) has none, when nothing is given for hosts and cluster alike, and when C(--limit) leaves out
        every one of O(hosts) and does not name localhost.
      - Files of group_vars and host_vars with variables of this collection are refused when Ansible passes them over,
        such as C(rdma-fabric.yml) for the group C(rdma_fabric), or a file beside a folder of the same name.
      - A notice names hosts with such variables that the pattern excludes, and files of group_vars and host_vars where
        Ansible was started that it does not read.
    type: str
  run_dir:
    description: Directory of the run on the controller. It is checked only if given, and not made.
    type: path
seealso:
  - module: rdma.fabric.fabric_render
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Check a policy and networks as written for the operator
  rdma.fabric.fabric_input:
    manifests:
      - nic-cluster-policy.yaml
      - networks.yaml
  register: fabric

- name: Check a policy kept in variables, and the variables of every host
  rdma.fabric.fabric_input:
    nic_cluster_policy:
      rdmaSharedDevicePlugin:
        image: k8s-rdma-shared-dev-plugin
        repository: ghcr.io/mellanox
        version: v1.5.1
        config: |
          {
            "configList": [
              {"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}
            ]
          }
    macvlan_networks:
      rdma-net:
        master: ens3f0
        mtu: 9000
        ipam: '{"type": "whereabouts", "range": "192.168.2.0/24"}'
    hosts: "{{ groups['all'] }}"
  register: fabric

- name: Check what used to be given to Helm
  rdma.fabric.fabric_input:
    helm_set:
      - nfd.enabled=true
      - ofedDriver.deploy=true
      - rdmaSharedDevicePlugin.deploy=true
  register: fabric
"""

RETURN = r"""
spec:
  description:
    - The whole input in one format, with current fields, for the other modules.
    - With C(-v), Ansible prints that it is hidden, as it may hold secrets (C(rdma_fabric_show_secrets)).
  returned: success
  type: dict
  sample:
    version: 1
    engine: direct
    namespace: nvidia-network-operator
    cluster_policy:
      name: nic-cluster-policy
      source: nic-cluster-policy.yaml:1
      spec: {}
    node_policies: []
    function_policies: []
    pools: []
    networks: []
    attachments: []
    objects: []
    settings:
      nfd: true
    host_requests: []
    hosts: {}
notices:
  description: Remarks about valid input, such as retired fields and their successors.
  returned: success
  type: list
  elements: str
  sample:
    - "policy.yaml:9: spec.devicePlugin: is retired: v0.3.0 was the last release of the operator that had it"
unmet:
  description: Those of RV(notices) that tell why no pod starts.
  returned: success
  type: list
  elements: str
  sample: []
given:
  description: The variables of the cluster that had a value, so that roles can detect those that were set later.
  returned: success
  type: list
  elements: str
  sample: [rdma_fabric_manifests]
sealed:
  description:
    - The sealed plans of the hosts of this run. C(plans) are the distinct plans; C(hosts) has the number of its C(plan)
      and the digest of its C(machine) for each host.
  returned: when O(sealed_plan) is given
  type: dict
violations:
  description: Every violation of the input.
  returned: when the input is invalid
  type: list
  elements: dict
  contains:
    source:
      description: The file, or the variable with the hosts that have it.
      returned: always
      type: str
      sample: policy.yaml
    line:
      description: The line, if the source has lines.
      returned: always
      type: int
      sample: 12
    path:
      description: The place inside the source.
      returned: always
      type: str
      sample: spec.ofedDriver.versoin
    problem:
      description: What is wrong.
      returned: always
      type: str
      sample: unknown field in NicClusterPolicy
    hint:
      description: The next step or the nearest known name.
      returned: always
      type: str
      sample: did you mean version?
"""
