# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the CNI library reads of a configuration whatever its plugins are: of another type it refuses all of it.

Sources: containernetworking/cni at 3f51e880, ``pkg/types`` (``PluginConf``, ``DNS``, ``GCAttachment``) and
``libcni/conf.go`` (``NetworkConfFromBytes``); Multus at 95a09323, ``pkg/types/conf.go`` (``LoadDelegateNetConfList``),
which takes no text for ``disableCheck`` and ``disableGC``. To Go null is as good as nothing.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch

from ..common.jsontext import Problem
from .sriov_networks import check_capabilities

_ATTACHMENTS = "cni.dev/valid-attachments"
_OF_DNS = (("nameservers", list), ("domain", str), ("search", list), ("options", list))
_TRUTHS = ("true", "false")
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,2}\Z", re.ASCII)


def check_plugin(plugin: Mapping[str, Any], *, in_list: bool) -> list[Problem]:
    """Judge the fields of one plugin (``types.PluginConf``); paths are keys of it.

    Name and version of one that stands alone are those of its network, which :mod:`.cni` judges.
    """
    capabilities = plugin.get("capabilities")
    problems = [] if capabilities is None else check_capabilities(capabilities)
    problems += [
        Problem(key, mismatch(plugin[key], "a string"))
        for key in ("cniVersion", "name")
        if in_list and not isinstance(plugin.get(key), (str, type(None)))
    ]
    problems += _check_dns(plugin.get("dns"))
    if not isinstance(plugin.get("prevResult"), (dict, type(None))):
        problems.append(Problem("prevResult", mismatch(plugin["prevResult"], "an object"), "drop it"))
    return problems + _check_attachments(plugin.get(_ATTACHMENTS))


def check_list(config: Mapping[str, Any]) -> list[Problem]:
    """Judge the fields of a list of plugins that no plugin has; paths are keys of it."""
    problems = [
        Problem(key, mismatch(config[key], "true or false"))
        for key in ("disableCheck", "disableGC")
        if not isinstance(config.get(key), (bool, type(None)))
    ]
    inlined = config.get("loadOnlyInlinedPlugins", False)
    if not isinstance(inlined, bool) and str(inlined).lower() not in _TRUTHS:
        problems.append(Problem("loadOnlyInlinedPlugins", mismatch(inlined, "true or false")))
    versions = config.get("cniVersions", [])
    if not isinstance(versions, list) or not all(isinstance(each, str) and _VERSION.match(each) for each in versions):
        problems.append(Problem("cniVersions", "must be a list of CNI versions", '["0.3.1", "1.0.0"]'))
    return problems


def _check_dns(dns: Any) -> list[Problem]:
    if not isinstance(dns, dict):
        hint = '{"nameservers": ["192.0.2.1"]}'
        return [] if dns is None else [Problem("dns", mismatch(dns, "an object"), hint)]
    problems = []
    for key, kind in _OF_DNS:
        value = dns.get(key)
        if value is not None and not (isinstance(value, kind) and _are_texts(value)):
            wanted = "a string" if kind is str else "a list of strings"
            problems.append(Problem(f"dns.{key}", mismatch(value, wanted)))
    return problems


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or all(isinstance(each, (str, type(None))) for each in value)


def _check_attachments(value: Any) -> list[Problem]:
    attachments = [] if value is None else value
    listed = isinstance(attachments, list)
    if listed and all(isinstance(each, dict) and _are_texts(each.values()) for each in attachments):
        return []
    return [Problem(_ATTACHMENTS, "must be a list of attachments", "drop it: runtimes give it to collect garbage")]
