# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a whole run as a file that others approve: its shape, its digest, and what differs from it now. Pure.

Hosts with equal input, facts and steps are one entry. The same run makes the same bytes. Of objects only digests are
kept, of Secrets without their values, so the file has no secret.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from ansible.errors import AnsibleError

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import check_sealed, digest_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Violation,
    named,
    one_line,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import parse_document
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import CONTROLLER
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.rows_turns import HOOKS
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.table import TABLE
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.values import value_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

FORMAT = "rdma.fabric sealed plan"
VERSION = 1
SETTINGS: Mapping[str, Any] = {
    "set": "rdma-fabric",
    "prune": True,
    "force_conflicts": True,
    "reboot_parallel": "1",
    "max_unavailable": "",
    "failure_domain": "",
    "max_unavailable_per_domain": "",
}
"""Variables of the run that a plan holds, without ``rdma_fabric_``, and what they are unless given."""
OF_HOSTS = (
    "host_state",
    "host_strict",
    "node_name",
    "allow_controller_node",
    "drain",
    "drain_pods",
    "drain_resources",
    "drain_pod_selector",
    "drain_force",
    "drain_delete_empty_dir",
    "drain_restart_daemon_sets",
    "drain_wait_for",
    "rollback",
    *(row.short for row in HOOKS),
)
"""Variables of hosts that a plan holds beside what the desired state is made from, without ``rdma_fabric_``."""
_PREFIX = "rdma_fabric_"
_PARTS = {"settings": dict, "objects": dict, "policies": dict, "plans": list}
_PLAN_PARTS = {"hosts": dict, "desired": dict, "variables": dict}
_AGAIN = "have the plan written again: site --check with rdma_fabric_plan_file"
_MOST_PLACES = 20
_REQUESTS = "requests"
_ABSENT = object()


class HostInput(NamedTuple):
    """What the variables of one host ask for: the desired state, and the variables of runs that it has."""

    desired: Json
    variables: Json


class Run(NamedTuple):
    """What is the same for all hosts: settings, by name digests of objects, and what each policy says of drains."""

    settings: Json
    objects: dict[str, str]
    policies: dict[str, Json]


class Loaded(NamedTuple):
    """A sealed plan that was read: the parts of the run, and for each host its input and its own sealed plan."""

    run: Run
    inputs: dict[str, HostInput]
    plans: list[Json]
    hosts: dict[str, Json]


def host_input_of(desired: Mapping[str, Any], variables: Mapping[str, Any]) -> HostInput:
    """Return the part of a host's input that is sealed.

    How Ansible reaches the host is not part of it. What policies of the cluster request may hold a proxy with a
    password.
    """
    kept: Json = _given({key: value for key, value in desired.items() if key != "connection_address"})
    if _REQUESTS in kept:
        # Where a policy's file lies does not matter.
        kept[_REQUESTS] = digest_of([{**request, "source": ""} for request in kept[_REQUESTS]])
    consents = kept.pop("consents", {})
    kept.update({CONSENTS[name][len(_PREFIX) :]: True for name, given in consents.items() if given})
    return HostInput(kept, dict(variables))


def _given(value: Any) -> Any:
    """Return a value without what is not given in it."""
    if not isinstance(value, Mapping):
        return [_given(item) for item in value] if isinstance(value, list) else value
    kept = {key: _given(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item is not None and item not in ([], {})}


def policies_of(rollouts: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    """Return by its kind and name what each policy says of drains; ``rollouts`` are those of a FabricSpec."""
    return {
        str(rollout["source"]): {key: value for key, value in rollout.items() if key != "source"}
        for rollout in rollouts
    }


def digests_of(waves: list[Json]) -> dict[str, str]:
    """Return a digest of each rendered object by its kind, namespace and name."""
    return {str(key_of(body)): digest_of(_without_values(body)) for body in objects_of(waves)}


def _without_values(body: Mapping[str, Any]) -> Json:
    if body.get("kind") != "Secret":
        return dict(body)
    return {key: sorted(value) if key in ("data", "stringData") and value else value for key, value in body.items()}


def document_of(run: Run, hosts: Mapping[str, tuple[HostInput, Mapping[str, Any]]]) -> Json:
    """Return the sealed plan of a run: ``hosts`` has the input of each and what ``_host.run.sealed.seal`` returns."""
    classes: dict[str, Json] = {}
    for host in sorted(hosts, key=natural_key):
        host_input, sealed = hosts[host]
        body = {**host_input._asdict(), "facts": sealed["facts"], "steps": sealed["steps"]}
        classes.setdefault(_canonical(body), {"hosts": {}, **body})["hosts"][host] = sealed["machine"]
    content = {"format": FORMAT, "version": VERSION, **run._asdict(), "plans": list(classes.values())}
    return {**content, "digest": digest(content)}


def digest(content: Mapping[str, Any]) -> str:
    """Return the digest over everything in a sealed plan but the digest itself."""
    text = _canonical({key: value for key, value in content.items() if key != "digest"})
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read(source: str, document: Any) -> Loaded:
    """Return what a file holds; raises ``InvalidInput`` where it is no sealed plan of this release, or was changed."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise InvalidInput(
            [Violation(source, "format", "is not a sealed plan", "give a file that site --check has written")]
        )
    if document.get("version") != VERSION:
        problem = f"is {one_line(repr(document.get('version')))}; this release reads version {VERSION}"
        raise InvalidInput([Violation(source, "version", problem, _AGAIN)])
    if document.get("digest") != digest(document):
        problem = "does not fit the content: the file was changed after it was written"
        raise InvalidInput([Violation(source, "digest", problem, _AGAIN)])
    found = _wrong_parts(source, "", document, _PARTS)
    plans = [] if found else list(document["plans"])
    for number, plan in enumerate(plans):
        found += _wrong_parts(source, f"plans[{number}]", plan, _PLAN_PARTS)
    if found:
        raise InvalidInput(found)
    inputs: dict[str, HostInput] = {}
    hosts: dict[str, Json] = {}
    for number, plan in enumerate(plans):
        check_sealed({**plan, "machine": ""}, f"{source}: plans[{number}]")
        for host, machine in plan["hosts"].items():
            inputs[host] = HostInput(plan["desired"], plan["variables"])
            hosts[host] = {"plan": number, "machine": str(machine)}
    shared = [{"facts": plan["facts"], "steps": plan["steps"]} for plan in plans]
    run = Run(document["settings"], document["objects"], document["policies"])
    return Loaded(run, inputs, shared, hosts)


def _wrong_parts(source: str, path: str, document: Any, parts: Mapping[str, type]) -> list[Violation]:
    if not isinstance(document, Mapping):
        return [Violation(source, path, "is not a mapping", _AGAIN)]
    place = f"{path}." if path else ""
    wrong = [name for name, kind in parts.items() if not isinstance(document.get(name), kind)]
    return [Violation(source, f"{place}{name}", "is missing or of another type", _AGAIN) for name in wrong]


def compare(
    source: str, loaded: Loaded, run: Run, inputs: Mapping[str, HostInput], limited: bool
) -> tuple[list[Violation], list[Notice]]:
    """Return what is another one now than when the plan was sealed, and the hosts that it is not used for.

    ``inputs`` are those of the hosts that take part in this run; with ``limited`` there may be others.
    """
    found = [
        *(_setting(name, old, new) for name, old, new in _changes(loaded.run.settings, run.settings)),
        *_objects(source, loaded.run.objects, run.objects),
        *_policies(loaded.run.policies, run.policies),
    ]
    for host, host_input in inputs.items():
        if host in loaded.inputs:
            found += _changed_input(host, loaded.inputs[host], host_input)
    missing = [host for host in inputs if host not in loaded.hosts]
    if missing:
        hint = f"{_AGAIN}, or leave them out with --limit"
        found.append(Violation(source, "plans", f"has no plan of {named(missing)}", hint))
    beside = sorted(set(loaded.hosts).difference(inputs), key=natural_key)
    if limited or not beside:
        return found, []
    return found, [Notice(source, "plans", f"has plans of hosts that are not in this run: {named(beside)}")]


def _objects(source: str, sealed: Mapping[str, str], now: Mapping[str, str]) -> list[Violation]:
    found = []
    for name in sorted({*sealed, *now}):
        if sealed.get(name) == now.get(name):
            continue
        problem = "is new"
        if name in sealed:
            problem = "is not what was sealed" if name in now else "is gone"
        found.append(Violation(f"objects of {source}", one_line(name), problem, _AGAIN))
    return found


def _policies(sealed: Mapping[str, Json], now: Mapping[str, Json]) -> list[Violation]:
    """Return what policies say of drains otherwise; which hosts they are about is among that."""
    return [
        Violation(f"policy {one_line(name)}", one_line(path), _problem(old, new), _AGAIN)
        for name in sorted({*sealed, *now})
        for path, old, new in _changes(sealed.get(name, _ABSENT), now.get(name, _ABSENT), "ofedDriver.upgradePolicy")
    ]


def _setting(name: str, old: Any, new: Any) -> Violation:
    return Violation("variables", f"{_PREFIX}{name}", _problem(old, new), _AGAIN)


def _changed_input(host: str, sealed: HostInput, now: HostInput) -> list[Violation]:
    changes = [*_changes(sealed.desired, now.desired), *_changes(sealed.variables, now.variables)]
    return [_of_host(host, place, old, new) for place, old, new in changes[:_MOST_PLACES]]


def _of_host(host: str, place: str, old: Any, new: Any) -> Violation:
    name = place.replace("[", ".").split(".")[0]
    variable = "what policies ask of it" if name == _REQUESTS else f"{_PREFIX}{name}"
    path = one_line(place[len(name) :].lstrip("."))
    return Violation(f"host {one_line(host)}: {variable}", path, _problem(old, new), _AGAIN)


def _problem(old: Any, new: Any) -> str:
    return f"is {_shown(new)} now, {_shown(old)} was sealed"


def _shown(value: Any) -> str:
    return "not given" if value is _ABSENT else one_line(json.dumps(value, sort_keys=True))


def _changes(old: Any, new: Any, path: str = "") -> Iterable[tuple[str, Any, Any]]:
    """Yield the places where two JSON values differ, each with what it was and is; texts differ as a whole."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            place = f"{path}.{key}" if path else str(key)
            yield from _changes(old.get(key, _ABSENT), new.get(key, _ABSENT), place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new)):
            yield from _changes(one, other, f"{path}[{number}]")
    elif old != new:
        yield path, old, new


# A thousand hosts of which no two are equal take about 10 MB.
MAX_PLAN_BYTES = 256 * 1024 * 1024

Convert = Callable[[Any], Any]


def load(path: Path) -> Loaded:
    """Return the sealed plan of a file; raises InvalidInput with what is wrong with it."""
    try:
        document = parse_document(path, MAX_PLAN_BYTES)
    except ValueError as error:
        hint = "give the file that site --check has written with rdma_fabric_plan_file"
        raise InvalidInput([Violation(f"sealed plan {path}", "", str(error), hint)]) from error
    return read(f"sealed plan {path}", document)


def run_of(spec: Mapping[str, Any], task_vars: Mapping[str, Any], convert: Convert) -> Run:
    """Return what of a run is the same for all of its hosts; localhost's variables count, as for the run.

    ``spec`` is a FabricSpec.
    """
    hostvars = variables_of_hosts(task_vars)
    runner = hostvars.get(task_vars.get("inventory_hostname", ""), {})
    controller = hostvars.get(CONTROLLER, runner)
    settings = {}
    for name, default in SETTINGS.items():
        value = _value(controller, f"{PREFIX}{name}", convert)
        settings[name] = default if value is None else value if isinstance(default, bool) else str(value)
    objects = {**digests_of(render(dict(spec))), **_chart_of(spec)}
    return Run(settings, objects, policies_of(spec.get("rollouts") or ()))


def _chart_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of the chart and its values by its release; where its file lies does not matter."""
    chart = spec.get("chart")
    if not chart:
        return {}
    kept = {**chart, "reference": chart["reference"].rpartition("/")[2]}
    return {f"Helm release {chart['namespace']}/{chart['release']}": digest_of(kept)}


def host_inputs_of(
    hosts: Iterable[str], desired: Mapping[str, Mapping[str, Any]], task_vars: Mapping[str, Any], convert: Convert
) -> dict[str, HostInput]:
    """Return the input of each host: its desired state, and the variables of runs that it has."""
    hostvars = variables_of_hosts(task_vars)
    # Of a host that it does not know, hostvars has a value that fails whatever it is asked for.
    wanted = list(hosts)
    known = {host: hostvars[host] for host in wanted if host in hostvars}
    return {host: host_input_of(desired[host], _of_runs(known.get(host, {}), convert)) for host in wanted}


def _of_runs(variables: Mapping[str, Any], convert: Convert) -> dict[str, Any]:
    values = {name: _value(variables, f"{PREFIX}{name}", convert) for name in OF_HOSTS}
    return {name: value for name, value in values.items() if value is not None}


def _value(variables: Mapping[str, Any], name: str, convert: Convert) -> Any:
    """Return a value as the table of variables reads it, None where none is given; preflight tells what is wrong."""
    try:
        return value_of(TABLE[name], convert(variables[name]))[0] if name in variables else None
    except AnsibleError:
        return None
