# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovOperatorConfig in the input: the nodes that policies are about, and how their device plugins start.

Source: the controllers of the SR-IOV network operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown

from ..common.findings import Place
from .functions import FunctionPolicy, completed
from .models_sriov import OPERATOR_CONFIG
from .resources import Resource

SELECTOR = "configDaemonNodeSelector"
USE_CDI = "useCDI"
WEBHOOK = "enableOperatorWebhook"
_KNOWN_NAME = "default"
_OLD_LABELS = {"beta.kubernetes.io/os": "kubernetes.io/os", "beta.kubernetes.io/arch": "kubernetes.io/arch"}
_SET_BY_OPERATORS = ("network.nvidia.com/operator.mofed.wait", "network.nvidia.com/operator.nic-configuration.wait")


@dataclass(frozen=True)
class OperatorConfig:
    """What a SriovOperatorConfig means here. ``place`` is where its spec stands."""

    spec: dict[str, Any]
    place: Place

    @property
    def selector(self) -> dict[str, str]:
        """Labels that every node of a policy has, by the names that nodes and hosts have today."""
        given = self.spec.get(SELECTOR) or {}
        return {_OLD_LABELS.get(key, key): value for key, value in given.items() if key not in _SET_BY_OPERATORS}

    @property
    def has_webhook(self) -> bool:
        """Whether the operator's webhook judges and completes policies; it does unless it is switched off."""
        return self.spec.get(WEBHOOK) is not False

    @property
    def plugin(self) -> dict[str, Any]:
        """Fields of the section of each policy's device plugin."""
        return {"useCdi": True} if self.spec.get(USE_CDI) else {}


def read_operator_config(resource: Resource) -> OperatorConfig | None:
    """Check a SriovOperatorConfig; None for one of another name, which the operator passes over as well."""
    place = resource.spec_place
    spec = OPERATOR_CONFIG.read(resource.spec, place)
    if resource.name != _KNOWN_NAME:
        place.notice("has no effect here", f"the operator passes over every name but {_KNOWN_NAME} as well")
        return None
    for key in spec.get(SELECTOR) or {}:
        if key in _SET_BY_OPERATORS:
            hint = "drivers and firmware are on a host before anything of its node is changed"
            place.at(SELECTOR, key).notice("has no effect here: only an operator puts it on nodes", hint)
    return OperatorConfig(spec, place)


def configured(policies: Sequence[FunctionPolicy], config: OperatorConfig | None) -> list[FunctionPolicy]:
    """Return the policies as they are stored, on the nodes that the configuration selects; refuse one about none."""
    policies = completed(policies, webhook=config is None or config.has_webhook)
    if config is None:
        return policies
    if not policies:
        for name in (SELECTOR, USE_CDI, WEBHOOK):
            if config.spec.get(name):
                config.place.at(name).notice("has no effect here", "the input has no SriovNetworkNodePolicy")
    return [_narrowed(policy, config) for policy in policies]


def _narrowed(policy: FunctionPolicy, config: OperatorConfig) -> FunctionPolicy:
    own = policy.spec.get("nodeSelector") or {}
    for key, value in config.selector.items():
        if own.get(key, value) != value:
            problem = f"selects no node: SriovOperatorConfig {_KNOWN_NAME} asks for {key}={shown(value)}"
            policy.place.at("nodeSelector", key).violation(
                problem, f"drop one of them ({config.place.document.source})"
            )
    spec = {**policy.spec, "nodeSelector": {**config.selector, **own}}
    return replace(policy, entry={**policy.entry, "spec": spec})
