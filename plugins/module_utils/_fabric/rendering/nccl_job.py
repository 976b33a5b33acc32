# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests as jobs: an MPIJob, an indexed Job with mpirun over a host file of its own, and a PyTorchJob to copy.

Both run the same script. What mpi-operator makes for an MPIJob (its pkg/controller: a Service, a key below /root/.ssh,
a host file below /etc/mpi) comes with the indexed Job as a Service and a Secret.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ..common.objects import Object, build
from ..common.pods import NETWORKS
from .proof_pods import CONTAINER, GPU_TAINT, MESH_ANNOTATIONS, MESH_LABELS, REQUESTS, RUN_LABEL

COMPONENT = "nccl"
SHARED_MEMORY = "/dev/shm"  # noqa: S108  a mount of pods, which no program here writes to
MPI_JOB = ("kubeflow.org/v2beta1", "MPIJob")
JOB = ("batch/v1", "Job")
LAUNCHER_LABEL = "rdma.fabric/launcher"
INDEX = "batch.kubernetes.io/job-completion-index"
SAYS = "rdma.fabric:"
"""What begins a line of the launcher's own in its log."""

_KEYS = "/root/.ssh"
_HOSTS_OF_OPERATOR = "/etc/mpi/hostfile"
_POD_INTERFACE = "eth0"
# MPI only starts ranks and lets them meet, which takes nothing but the pod's own network. HPC-X has collectives of its
# own on by default, which bind an RDMA device whatever the BTL is (NVIDIA/cluster-readiness-engine, pull request 102).
_OPEN_MPI = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_coll_hcoll_enable": "0",
    "OMPI_MCA_coll_ucc_enable": "0",
    "OMPI_MCA_btl_tcp_if_include": _POD_INTERFACE,
    "OMPI_MCA_oob_tcp_if_include": _POD_INTERFACE,
    "PRTE_MCA_prte_if_include": _POD_INTERFACE,
}
# What sshd needs to let root in: a root directory of its own, and the audit log, which PAM writes. CRI-O gives neither
# unless a pod asks for it (kubeflow/mpi-operator, issue 642).
_CAPABILITIES = ["AUDIT_WRITE", "IPC_LOCK", "SYS_CHROOT"]
_MARGIN = 300
_KEPT_SECONDS = 600
_SAY = f'say() {{ echo "{SAYS} $*"; }}\n'
# A volume of a Secret is writable for its group, which sshd takes for an open door (StrictModes).
_SERVE = (
    _SAY
    + f"""sshd=$(command -v sshd) || {{ say "the image lacks sshd"; exit 127; }}
mkdir -p /run/sshd 2>/dev/null
ssh-keygen -A >/dev/null 2>&1
serve() {{ "$sshd" -e -o StrictModes=no -o PermitRootLogin=yes -o AuthorizedKeysFile={_KEYS}/authorized_keys "$@"; }}
"""
)
# An agent of its own in PATH: Open MPI 4 and 5 call the options of ssh differently, and both start the first ssh.
_LAUNCH = (
    _SAY
    + r"""hosts=$1 wait=$2 ranks=$3 programs=$4 limit=$5 words=$6
shift 6
PATH=$PATH:/opt/nccl_tests/build:/opt/nccl-tests/build:/workspace/nccl-tests/build
for each in mpirun ssh $programs; do
  command -v "$each" >/dev/null || { say "the image lacks $each"; exit 127; }
done
agent=$(mktemp -d)
options="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5"
printf '#!/bin/sh\nexec %s %s -o BatchMode=yes "$@"\n' "$(command -v ssh)" "$options" >"$agent/ssh"
chmod +x "$agent/ssh"
PATH=$agent:$PATH
end=$(($(date +%s) + wait))
while read -r host _; do
  until why=$(ssh "$host" true </dev/null 2>&1); do
    [ "$(date +%s)" -lt "$end" ] || { say "no answer of $host by ssh: $why"; exit 1; }
    sleep 2
  done
done <"$hosts"
status=0
for program in $programs; do
  say "begin $program"
  "$(command -v mpirun)" --allow-run-as-root -np "$ranks" --hostfile "$hosts" --bind-to none --timeout "$limit" \
    -x PATH ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} "$@" "$(command -v "$program")" $words </dev/null 2>&1
  code=$?
  say "end $program $code"
  [ $code = 0 ] || status=1
done
exit $status
"""
)
_BOTH = f"""{_SERVE}[ "$JOB_COMPLETION_INDEX" = 0 ] || {{ serve -D; exit; }}
serve
{_LAUNCH}"""
# What torchrun runs in the PyTorchJob: the sum over all ranks tells whether each has taken part.
_SAMPLE = """import os
import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mine = torch.full((64 * 1024 * 1024,), 1.0, device="cuda")
dist.all_reduce(mine)
if mine[0].item() != dist.get_world_size():
    raise SystemExit("the sum is wrong")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: ok", flush=True)
dist.destroy_process_group()
"""
_PYTORCH_IMAGE = "nvcr.io/nvidia/pytorch:24.07-py3"


@dataclass(frozen=True)
class Test:
    """One job: a pod with ``slots`` GPUs and all of ``networks`` on each of ``nodes``, a rank for each GPU.

    ``programs`` of nccl-tests run one after another with the same ``words``, each ``limit`` seconds at most, with
    ``environment`` in every rank. ``resources`` are amounts of one pod, its GPUs among them.
    """

    name: str
    run: str
    namespace: str
    nodes: Sequence[str]
    networks: Sequence[str]
    resources: Mapping[str, int]
    slots: int
    image: str
    programs: Sequence[str]
    words: str
    environment: Mapping[str, str]
    ready_timeout: int
    limit: int
    runtime_class: str = ""
    tolerations: Sequence[Object] = ()
    pull_secrets: Sequence[str] = ()

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.nodes) * self.slots

    @property
    def seconds(self) -> int:
        """How long the launcher may take once its pod runs."""
        return self.ready_timeout + len(self.programs) * self.limit

    @property
    def deadline(self) -> int:
        """After how many seconds the cluster ends the job by itself."""
        return self.ready_timeout + self.seconds + _MARGIN

    @property
    def ending(self) -> dict[str, int]:
        """How the job ends by itself, and goes if nobody removes it."""
        return {
            "backoffLimit": 0,
            "activeDeadlineSeconds": self.deadline,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
        }

    @property
    def host_file(self) -> str:
        """The host file of the indexed Job, whose pods have addresses by the Service of the same name."""
        hosts = (f"{self.name}-{index}.{self.name}" for index in range(len(self.nodes)))
        return "".join(f"{host} slots={self.slots}\n" for host in hosts)


def mpi_job(test: Test) -> Object:
    """Return the test as an MPIJob."""
    launcher = _pod(test, ["sh", "-c", _LAUNCH, *_arguments(test, _HOSTS_OF_OPERATOR)], _OPEN_MPI, launches=True)
    worker = _pod(test, ["sh", "-c", f"{_SERVE}serve -D"], {})
    return build(
        *MPI_JOB,
        test.name,
        COMPONENT,
        namespace=test.namespace,
        labels={RUN_LABEL: test.run},
        spec={
            "slotsPerWorker": test.slots,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                **test.ending,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": len(test.nodes), "restartPolicy": "Never", "template": worker},
            },
        },
    )


def indexed_job(test: Test) -> Object:
    """Return the test as an indexed Job, whose first pod is the launcher, too."""
    template = _pod(test, ["sh", "-c", _BOTH, *_arguments(test, f"{_KEYS}/hosts")], _OPEN_MPI)
    pod = template["spec"]
    pod["subdomain"] = test.name
    pod["volumes"].append({"name": "ssh", "secret": {"secretName": test.name, "defaultMode": 0o400}})
    pod["containers"][0]["volumeMounts"].append({"name": "ssh", "mountPath": _KEYS})
    return build(
        *JOB,
        test.name,
        COMPONENT,
        namespace=test.namespace,
        labels={RUN_LABEL: test.run},
        spec={
            "completionMode": "Indexed",
            "completions": len(test.nodes),
            "parallelism": len(test.nodes),
            **test.ending,
            "template": template,
        },
    )


def beside_indexed_job(test: Test, private: str, public: str, uid: str = "") -> list[Object]:
    """Return what an indexed Job needs beside it, owned by the Job of this ``uid`` so that it goes with that."""
    owner = [{"apiVersion": JOB[0], "kind": JOB[1], "name": test.name, "uid": uid}] if uid else []
    files = {"id_rsa": private, "authorized_keys": public, "hosts": test.host_file}
    data = {name: b64encode(text.encode()).decode() for name, text in files.items()}
    # A pod is found before it is ready: it becomes ready by nothing that others wait for.
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {RUN_LABEL: test.run}}
    labels = {RUN_LABEL: test.run}
    found = [
        build("v1", "Service", test.name, COMPONENT, namespace=test.namespace, labels=labels, spec=service),
        build("v1", "Secret", test.name, COMPONENT, namespace=test.namespace, labels=labels, type="Opaque", data=data),
    ]
    for each in found if owner else ():
        each["metadata"]["ownerReferences"] = owner
    return found


def pytorch_job(test: Test) -> Object:
    """Return a PyTorchJob (v1) with the networks, devices and environment of the test, which sums over all ranks."""
    command = ["sh", "-c", 'echo "$PROGRAM" >/tmp/all_reduce.py && exec torchrun /tmp/all_reduce.py']
    template = _pod(test, command, {**test.environment, "PROGRAM": _SAMPLE})
    del template["spec"]["affinity"], template["metadata"]["labels"][RUN_LABEL]
    security = {"capabilities": {"add": ["IPC_LOCK"]}}
    template["spec"]["containers"][0].update(name="pytorch", image=_PYTORCH_IMAGE, securityContext=security)
    replicas = {"Master": 1, "Worker": len(test.nodes) - 1}
    return build(
        "kubeflow.org/v1",
        "PyTorchJob",
        "rdma-sample",
        COMPONENT,
        namespace=test.namespace,
        spec={
            "nprocPerNode": str(test.slots),
            "pytorchReplicaSpecs": {
                kind: {"replicas": count, "restartPolicy": "Never", "template": template}
                for kind, count in replicas.items()
                if count
            },
        },
    )


def _arguments(test: Test, hosts: str) -> list[str]:
    """Return the arguments of the script that launches."""
    given = [word for name, value in test.environment.items() for word in ("-x", f"{name}={value}")]
    wait, limit = str(test.ready_timeout), str(test.limit)
    return ["launch", hosts, wait, str(test.ranks), " ".join(test.programs), limit, test.words, *given]


def _pod(test: Test, command: Sequence[str], environment: Mapping[str, str], *, launches: bool = False) -> Object:
    """Return a pod template; one that only ``launches`` has no device, and goes anywhere."""
    amounts = {name: str(count) for name, count in test.resources.items()}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": test.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {**REQUESTS}},
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [],
    }
    spec: dict[str, Any] = {
        **({"runtimeClassName": test.runtime_class} if test.runtime_class and not launches else {}),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [*test.tolerations, *([] if GPU_TAINT in test.tolerations else [GPU_TAINT])],
        "imagePullSecrets": [{"name": each} for each in test.pull_secrets],
        "containers": [container],
        "volumes": [],
    }
    labels, annotations = {RUN_LABEL: test.run, **MESH_LABELS}, {**MESH_ANNOTATIONS}
    if launches:
        labels[LAUNCHER_LABEL] = "true"
    else:
        annotations[NETWORKS] = ", ".join(test.networks)
        container["resources"] = {"limits": amounts, "requests": {**REQUESTS, **amounts}}
        container["securityContext"]["capabilities"] = {"add": _CAPABILITIES}
        container["volumeMounts"].append({"name": "shm", "mountPath": SHARED_MEMORY})
        spec["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory"}})
        spec["affinity"] = _apart(test)
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _apart(test: Test) -> Object:
    """Return the affinity that puts one pod on each node; a term names no more than one node by its name."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in sorted(test.nodes)
    ]
    workers = {
        "matchLabels": {RUN_LABEL: test.run},
        "matchExpressions": [{"key": LAUNCHER_LABEL, "operator": "DoesNotExist"}],
    }
    others = {"labelSelector": workers, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]},
    }
