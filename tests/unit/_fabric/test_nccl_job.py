# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests as jobs: pods, host file, and the launcher's script as a process with stand-ins for its programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.nccl_job import (
    SHARED_MEMORY,
    beside_indexed_job,
    indexed_job,
    mpi_job,
    pytorch_job,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    MESH_ANNOTATIONS,
    MESH_LABELS,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.nccl_launch import (
    OUTPUTS,
    a_test,
    host_file,
    launched,
    stand_ins,
)

HOSTS = "rdma-nccl-0a1b2c3d-0-0.rdma-nccl-0a1b2c3d-0 slots=1\nrdma-nccl-0a1b2c3d-0-1.rdma-nccl-0a1b2c3d-0 slots=1\n"
WHOLE = OUTPUTS / "captured" / "two-hosts.txt"


def test_four_nodes_of_eight_gpus_are_32_ranks_over_a_host_file(tmp_path: Path) -> None:
    test = a_test(nodes=["d", "c", "b", "a"], slots=8)
    service, secret = beside_indexed_job(test, "private", "public", "uid-1")
    assert host_file(secret).split("\n")[3] == "rdma-nccl-0a1b2c3d-0-3.rdma-nccl-0a1b2c3d-0 slots=8"
    assert service["spec"]["publishNotReadyAddresses"] is True, "ssh looks for pods whose readiness nobody waits for"
    labels = indexed_job(test)["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in (service, secret)} == {"uid-1"}
    stand_ins(tmp_path, WHOLE)
    launched(indexed_job(test)["spec"]["template"]["spec"], tmp_path, HOSTS)
    (argv,) = (tmp_path / "argv").read_text(encoding="utf-8").splitlines()
    assert f"-np 32 --hostfile {tmp_path}/hosts --bind-to none --timeout 100" in argv
    assert argv.endswith(f"-x NCCL_IB_HCA==mlx5_0,mlx5_1 {tmp_path}/bin/all_reduce_perf -b 8 -e 2G -f 2 -g 1")


def test_a_pod_goes_to_each_node_with_the_devices_of_its_rails() -> None:
    for body in (indexed_job(a_test())["spec"], mpi_job(a_test())["spec"]["mpiReplicaSpecs"]["Worker"]):
        pod, metadata = body["template"]["spec"], body["template"]["metadata"]
        assert metadata["annotations"]["k8s.v1.cni.cncf.io/networks"] == "default/rail0, default/rail1"
        container = pod["containers"][0]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1", "rdma/rdma_shared_device_a": "2"}
        security = {"runAsUser": 0, "capabilities": {"add": ["AUDIT_WRITE", "IPC_LOCK", "SYS_CHROOT"]}}
        assert container["securityContext"] == security, "CRI-O gives sshd nothing by itself"
        assert container["volumeMounts"][0] == {"name": "shm", "mountPath": SHARED_MEMORY}
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert [term["matchFields"][0]["values"] for term in terms] == [["gpu-01"], ["gpu-02"]]
    launcher = mpi_job(a_test())["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    assert "limits" not in launcher["spec"]["containers"][0]["resources"]
    assert launcher["spec"]["containers"][0]["securityContext"] == {"runAsUser": 0}, "the key is below /root"
    assert "k8s.v1.cni.cncf.io/networks" not in launcher["metadata"]["annotations"]


def test_mpi_of_hpcx_binds_no_rdma_device_to_start_ranks() -> None:
    launcher = mpi_job(a_test())["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    for template in (launcher, indexed_job(a_test())["spec"]["template"]):
        env = {each["name"]: each["value"] for each in template["spec"]["containers"][0]["env"]}
        assert [env[f"OMPI_MCA_coll_{each}_enable"] for each in ("hcoll", "ucc")] == ["0", "0"]


def test_no_mesh_takes_over_what_ranks_say_or_keeps_a_pod_that_has_ended() -> None:
    replicas = mpi_job(a_test())["spec"]["mpiReplicaSpecs"]
    sample = pytorch_job(a_test())["spec"]["pytorchReplicaSpecs"]
    for each in (indexed_job(a_test())["spec"], replicas["Launcher"], replicas["Worker"], sample["Master"]):
        metadata = each["template"]["metadata"]
        assert metadata["labels"].items() >= MESH_LABELS.items()
        assert metadata["annotations"].items() >= MESH_ANNOTATIONS.items()
    assert "rdma.fabric/run" not in sample["Master"]["template"]["metadata"]["labels"]


def test_the_launcher_of_an_mpi_job_takes_the_host_file_of_the_operator(tmp_path: Path) -> None:
    stand_ins(tmp_path, WHOLE)
    launcher = mpi_job(a_test())["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    status, text = launched(launcher, tmp_path, HOSTS, mounts="/etc/mpi")
    assert (status, text.count("rdma.fabric: ")) == (0, 2)
    assert "on     rdma-nccl-0a1b2c3d-0-1 device  0" in text


def test_every_program_runs_and_a_failure_of_one_is_the_status(tmp_path: Path) -> None:
    stand_ins(tmp_path, WHOLE, status=3)
    test = a_test(programs=["all_reduce_perf", "all_gather_perf"])
    status, text = launched(indexed_job(test)["spec"]["template"]["spec"], tmp_path, HOSTS)
    said = [line for line in text.splitlines() if line.startswith("rdma.fabric: ")]
    assert said == [
        f"rdma.fabric: {word} {program}{'' if word == 'begin' else ' 3'}"
        for program in test.programs
        for word in ("begin", "end")
    ]
    assert status == 1


@pytest.mark.parametrize("lacks", ["sshd", "mpirun", "ssh", "all_reduce_perf"])
def test_an_image_that_lacks_a_program_says_which(lacks: str, tmp_path: Path) -> None:
    stand_ins(tmp_path, WHOLE, lacks=[lacks])
    status, text = launched(indexed_job(a_test())["spec"]["template"]["spec"], tmp_path, HOSTS)
    assert (status, text) == (127, f"rdma.fabric: the image lacks {lacks}\n")


def test_a_host_that_does_not_answer_is_named(tmp_path: Path) -> None:
    place = stand_ins(tmp_path, WHOLE)
    (place / "ssh").write_text('#!/bin/sh\ncase "$*" in *-0-1.*) echo "Connection refused"; exit 255;; esac\n')
    test = a_test(ready_timeout=0)
    status, text = launched(indexed_job(test)["spec"]["template"]["spec"], tmp_path, HOSTS)
    host = HOSTS.split("\n")[1].split(maxsplit=1)[0]
    assert (status, text) == (1, f"rdma.fabric: no answer of {host} by ssh: Connection refused\n")


def test_other_pods_of_an_indexed_job_only_serve(tmp_path: Path) -> None:
    place = stand_ins(tmp_path, WHOLE)
    (place / "sshd").write_text('#!/bin/sh\necho "$*"\n')
    status, text = launched(indexed_job(a_test())["spec"]["template"]["spec"], tmp_path, HOSTS, index=1)
    assert (status, text.split()[-1]) == (0, "-D")
    assert not (tmp_path / "argv").exists()


def test_the_sample_of_a_training_has_what_the_test_has() -> None:
    replicas = pytorch_job(a_test(nodes=["a", "b", "c"], slots=8))["spec"]["pytorchReplicaSpecs"]
    assert {kind: each["replicas"] for kind, each in replicas.items()} == {"Master": 1, "Worker": 2}
    container = replicas["Worker"]["template"]["spec"]["containers"][0]
    assert container["name"] == "pytorch", "the name that the operator looks for"
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}, "a training has no sshd"
    assert {"name": "NCCL_IB_HCA", "value": "=mlx5_0,mlx5_1"} in container["env"]
    compile(next(each["value"] for each in container["env"] if each["name"] == "PROGRAM"), "sample", "exec")
