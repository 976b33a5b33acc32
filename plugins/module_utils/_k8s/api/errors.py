# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong with the API server, each with its next step."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Callable, Mapping, TypeVar

Observed = TypeVar("Observed")


class Fault(Enum):
    """The kinds of failure that a user has to tell apart."""

    CONFIGURATION = "configuration"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    LOST = "lost"
    GONE = "gone"
    INVALID = "invalid"
    UNKNOWN_FIELD = "unknown_field"
    THROTTLED = "throttled"
    TOO_LARGE = "too_large"
    SERVER = "server"


_NEXT_STEP = {
    Fault.CONFIGURATION: "check kubeconfig, context and the K8S_AUTH_* variables",
    Fault.UNREACHABLE: "check the server's address, the network and the proxy settings",
    Fault.TLS: "check ca_cert or the kubeconfig's certificate-authority, and that the address is in the certificate",
    Fault.TIMEOUT: "check the load of the API server, then run again",
    Fault.UNAUTHORIZED: "renew the token or client certificate, then run again",
    Fault.FORBIDDEN: "grant the user this verb on this resource, then run again",
    Fault.NOT_FOUND: "check that its namespace and its CustomResourceDefinition exist",
    Fault.CONFLICT: "run again; something else changed the object at the same time",
    Fault.LOST: "run again when the other run has ended",
    Fault.GONE: "run again",
    Fault.INVALID: "correct the field; where it can't be changed in place, delete the object and run again",
    Fault.UNKNOWN_FIELD: "correct or remove the field",
    Fault.THROTTLED: "run again when the API server is less busy",
    Fault.TOO_LARGE: "check what answers at the server's address",
    Fault.SERVER: "look at the API server's log, then run again",
}
_BY_STATUS = {
    400: Fault.INVALID,
    401: Fault.UNAUTHORIZED,
    403: Fault.FORBIDDEN,
    404: Fault.NOT_FOUND,
    407: Fault.CONFIGURATION,
    409: Fault.CONFLICT,
    410: Fault.GONE,
    422: Fault.INVALID,
    429: Fault.THROTTLED,
}
# After one of these no other request can do better: the run ends at once instead of failing object by object.
_FATAL = frozenset(
    (
        Fault.CONFIGURATION,
        Fault.UNREACHABLE,
        Fault.TLS,
        Fault.TIMEOUT,
        Fault.UNAUTHORIZED,
        Fault.THROTTLED,
        Fault.SERVER,
        Fault.LOST,
    )
)
# What may be over in a moment: it is tried again, and waits go on through it.
_PASSING = frozenset((Fault.UNREACHABLE, Fault.TIMEOUT, Fault.THROTTLED, Fault.SERVER))
# apiserver's structured-merge-diff and strict decoder, in words that have been the same since Kubernetes 1.18 and 1.25.
_TYPED_PATCH = "failed to create typed patch object"
_UNKNOWN_FIELD_WORDS = (_TYPED_PATCH, "strict decoding error", "field not declared in schema", "unknown field")
_REDIRECTED = (
    "the address is not an API server's: check the server's address in the kubeconfig, and whether a login page or"
    " proxy is in front of it"
)
PROXY_LOGIN = (
    "the proxy requires credentials, or rejects these: give them by proxy_headers (proxy_basic_auth: USER:PASSWORD),"
    " K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH or the proxy's address (http://USER:PASSWORD@...)"
)
# etcd's api/v3rpc/rpctypes (ErrGRPCNoSpace): it reads and deletes, and takes nothing more until somebody helps it.
_NO_SPACE = "etcdserver: mvcc: database space exceeded"
# k8s.io/apiserver, admission/plugin/resourcequota: what is limited to where there is a quota for it. It comes as a 500.
_NO_QUOTA = "insufficient quota to match these scopes"
# k8s.io/apiserver, authorization: what every refusal of an authorizer says.
_NO_RIGHT = re.compile(r"cannot \S+ (?:resource|path) ")
# Who refuses is not the API server itself; the words are those of k8s.io/apiserver's admission plugins.
_POLICIES = (
    (
        re.compile(r"failed calling webhook \"?([^\s\":]+)"),
        "the service of the webhook {0} does not answer: see whether its pods run, or remove its webhook configuration",
    ),
    (
        re.compile(r"admission webhook \"?([^\s\":]+?)\"? denied the request"),
        "the webhook {0} refuses it: change the object as it says, or ask who runs that webhook",
    ),
    (
        re.compile(r"ValidatingAdmissionPolicy '([^']+)'.* denied request"),
        "the ValidatingAdmissionPolicy {0} refuses it: change the object as it says, or ask who made that policy",
    ),
    (
        re.compile(r"violates PodSecurity \"?([\w.-]+)"),
        "give the namespace a Pod Security level above {0}, or change the pod as it says",
    ),
    (
        # k8s.io/kubernetes, registry/rbac/validation: who makes a role has to hold what it grants.
        re.compile(r"attempting to grant RBAC permissions not currently held"),
        "grant the user these rights, as the ClusterRoles rdma-fabric-push and rdma-fabric-controllers of this"
        " collection do, or the verb escalate (for a binding: bind) on this role",
    ),
    (
        re.compile(r"exceeded quota: ([^\s,]+)"),
        "raise the ResourceQuota {0}, or free some of it",
    ),
    (
        re.compile(r"failed quota: ([^\s,:]+): must specify"),
        "the ResourceQuota {0} wants them of every pod of its namespace: add a LimitRange with defaults to it, or give"
        " them",
    ),
    (
        # GKE limits classes of priority so.
        re.compile(_NO_QUOTA + r": \[\{PriorityClass In \[([^\]]*)\]\}\]"),
        "add a ResourceQuota of these classes, to rdma_fabric_manifests or by hand: {{apiVersion: v1, kind:"
        " ResourceQuota, metadata: {{name: critical-pods, namespace: the pods' own}}, spec: {{hard: {{pods: 1G}},"
        " scopeSelector: {{matchExpressions: [{{scopeName: PriorityClass, operator: In, values: [{0}]}}]}}}}}}",
    ),
    (
        # The kubelet's words, in an event.
        re.compile(r"Unable to retrieve some image pull secrets \(([^)]+)\)"),
        "make the Secret {0} in the namespace of these pods (kubectl create secret docker-registry), or correct its"
        " name in imagePullSecrets",
    ),
    (
        re.compile(_NO_SPACE),
        "etcd is full: delete what is not needed, compact and defragment it or raise its --quota-backend-bytes, end the"
        " alarm (etcdctl alarm disarm), then run again",
    ),
)


class ApiFault(Exception):
    """One failed request: its kind, what the server said, and what to do next."""

    def __init__(self, fault: Fault, message: str, *, status: Mapping[str, Any] | None = None, hint: str = "") -> None:
        self.fault = fault
        self.message = message
        self.status: Mapping[str, Any] = status or {}
        self.next_step = hint or _NEXT_STEP[fault]
        super().__init__(f"{message} ({self.next_step})")

    @property
    def fatal(self) -> bool:
        """True when every other request of the run would fail the same way."""
        return self.fault in _FATAL

    @property
    def passing(self) -> bool:
        """True when the same request may succeed later without anybody having changed anything."""
        return self.fault in _PASSING

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """The server's ``details.causes``: what is wrong, field by field."""
        causes = self.details.get("causes")
        return [cause for cause in causes if isinstance(cause, Mapping)] if isinstance(causes, list) else []

    @property
    def details(self) -> Mapping[str, Any]:
        """The server's ``details``: which object the answer is about."""
        details = self.status.get("details")
        return details if isinstance(details, Mapping) else {}

    def has_cause(self, reason: str) -> bool:
        """Tell whether the server gave this reason, e.g. ``FieldManagerConflict``."""
        return any(cause.get("reason") == reason for cause in self.causes)


def seen_or_told(look: Callable[[], Observed], untold: str) -> tuple[Observed | None, list[str]]:
    """Return what a look gives; where the user may not look, None and the notice that ``untold`` begins.

    Raises ApiFault where anything else keeps it from looking.
    """
    try:
        return look(), []
    except ApiFault as fault:
        if fault.fault is not Fault.FORBIDDEN:
            raise
        return None, [f"{untold}: {fault}"]


def is_hopeless(code: int, status: Mapping[str, Any]) -> bool:
    """Tell whether a 5xx answer is about the object itself, or etcd full, so that sending it again can't help."""
    return code == 500 and any(
        words in str(status.get("message", "")) for words in (_TYPED_PATCH, _NO_SPACE, _NO_QUOTA)
    )


def fault_from_response(code: int, status: Mapping[str, Any], what: str) -> ApiFault:
    """Return the fault that an answer other than 2xx means; ``what`` says what was asked ("patch DaemonSet a/b")."""
    text = str(status.get("message") or status.get("reason") or f"HTTP status {code}").strip()
    fault = _BY_STATUS.get(code, Fault.SERVER if code >= 500 else Fault.INVALID)
    if 300 <= code < 400:
        fault = Fault.CONFIGURATION
    if any(words in text for words in _UNKNOWN_FIELD_WORDS) and (code in (400, 422) or is_hopeless(code, status)):
        fault = Fault.UNKNOWN_FIELD
    if _NO_QUOTA in text:
        fault = Fault.FORBIDDEN
    hint = _REDIRECTED if 300 <= code < 400 else PROXY_LOGIN if code == 407 else _hint(fault, status, text)
    return ApiFault(fault, f"{what}: {text}", status=status, hint=hint)


def step_of(text: str) -> str:
    """Return what to do about who refuses beside the API server itself, empty text for anything else."""
    for pattern, hint in _POLICIES:
        found = pattern.search(text)
        if found:
            # Go prints a list without commas.
            return hint.format(*(", ".join(each.split()) for each in found.groups()))
    return ""


def _hint(fault: Fault, status: Mapping[str, Any], text: str) -> str:
    step = step_of(text)
    if step:
        return step
    probe = ApiFault(fault, "", status=status)
    if probe.has_cause("NamespaceTerminating"):
        return "the namespace is being deleted: wait until it is gone, then run again"
    if probe.has_cause("FieldManagerConflict"):
        fields = ", ".join(sorted({str(cause.get("field", "")) for cause in probe.causes}))
        return f"another manager owns {fields}: remove it there, or set force_conflicts to true"
    if fault is Fault.FORBIDDEN and "is forbidden: " in text and not _NO_RIGHT.search(text):
        return "change the object as it says, or what refuses it in its namespace"
    return ""
