# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebooks, and the one that the guide to events shows: what they start, with what, and how often.

Their keys are held to the schema of ansible-rulebook by ansible-lint, which has a copy of it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

FOLDER = CHECKOUT / "extensions" / "eda" / "rulebooks"
GUIDE = (CHECKOUT / "docs" / "guide-events.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)]
VARIABLES = json.loads((CHECKOUT / "docs" / "variables.schema.json").read_text(encoding="utf-8"))["properties"]
SHIPPED = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yml"))}
(SHOWN,) = [block for block in BLOCKS if isinstance(block, list)]
RULEBOOKS = {**SHIPPED, "docs/guide-events.md": SHOWN}
(ALERTS,) = [block["groups"] for block in BLOCKS if isinstance(block, dict) and "groups" in block]
(ALERTMANAGER,) = [block for block in BLOCKS if isinstance(block, dict) and "route" in block]

# Only those of the playbooks that change nothing, neither hosts nor the cluster.
ONLY_READ = {"rdma.fabric.status", "rdma.fabric.drift"}
STARTS = {
    ("alerts", "link"): "rdma.fabric.status",
    ("alerts", "driver"): "rdma.fabric.drift",
    ("new_nodes", "node"): "rdma.fabric.join",
    ("nodes", "node"): "rdma.fabric.join",
}
WATCHES = "nodes"
"""The rulebook that has the API server for a source, not notifications."""
REGISTERED = """\
event.type == "ADDED" and event.resource.spec.taints is selectattr("key", "==", "{{ fabric_events_taint }}")"""
PERIOD = re.compile(r"\d+\s(milliseconds?|seconds?|minutes?|hours?|days?)")
OURS = re.compile(r'event\.rdma_fabric == "(\w+)"')
LABEL = re.compile(r'event\.payload\.alerts is selectattr\("labels\.rdma_fabric", "==", "(\w+)"\)')


def told(found: re.Match[str] | None) -> str:
    """Return what a pattern has found, which has to be there."""
    assert found is not None
    return found[1]


def rules() -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """Yield every rule with its rulebook, and its action's name and arguments."""
    for rulebook, rulesets in RULEBOOKS.items():
        for ruleset in rulesets:
            for rule in ruleset["rules"]:
                ((action, arguments),) = rule["action"].items()
                yield rulebook, rule, action, arguments


def test_each_kind_of_alert_starts_its_playbook() -> None:
    """A notification posts an event of ours with its kind, and that one starts the playbook."""
    posted, started = [], {}
    for rulebook, rule, action, arguments in rules():
        if action == "post_event" and rulebook == WATCHES:
            kind = "node"
            assert rule["condition"] == REGISTERED
            posted.append((rulebook, kind))
            assert arguments["event"] == {"rdma_fabric": kind}
        elif action == "post_event":
            (kind,) = LABEL.findall(rule["condition"])
            assert 'event.payload.status == "firing"' in rule["condition"]
            assert arguments["event"] == {"rdma_fabric": kind}
            posted.append((rulebook, kind))
        elif action == "run_playbook":
            started[rulebook, told(OURS.fullmatch(rule["condition"]))] = arguments["name"]
    assert (sorted(posted), started) == (sorted(STARTS), STARTS)
    none_of(f"no playbook {name}" for name in started.values() if not playbook_of(name))


def playbook_of(name: str) -> bool:
    return (CHECKOUT / "playbooks" / f"{name.removeprefix('rdma.fabric.')}.yml").is_file()


def test_variables_are_those_of_the_playbook_and_no_consents() -> None:
    for rulebook, _rule, action, arguments in rules():
        if action == "run_playbook":
            given = arguments.get("extra_vars", {})
            assert set(given) <= set(VARIABLES), rulebook
            none_of(f"{rulebook}: {name}" for name in given if name.startswith("rdma_fabric_allow_"))


def test_only_the_rulebooks_for_new_nodes_start_what_changes_anything() -> None:
    named = {(rulebook, args["name"]) for rulebook, _rule, action, args in rules() if action == "run_playbook"}
    assert {each for each in named if each[1] not in ONLY_READ} == {
        (rulebook, "rdma.fabric.join") for rulebook in ("new_nodes", WATCHES)
    }


def test_nothing_of_an_event_reaches_a_run() -> None:
    """ansible-rulebook makes an extra variable of the event that matched: a template in an alert would be executed."""
    for rulebook, rule, action, arguments in rules():
        assert "event" not in json.dumps(arguments.get("extra_vars", {})), rulebook
        assert "{{" not in json.dumps(arguments), rulebook
        if action == "run_playbook":
            assert OURS.fullmatch(rule["condition"]), f"{rulebook}: {rule['name']} is started by a notification itself"
        elif action == "run_job_template":
            assert arguments["include_events"] is False, rulebook


def test_a_storm_of_alerts_starts_one_run() -> None:
    for rulebook, rule, action, _arguments in rules():
        if action == "post_event":
            continue
        assert PERIOD.fullmatch(rule["throttle"]["once_after"]), rulebook
        # The same value for every event of the rule, so that all of them are one group.
        (group,) = rule["throttle"]["group_by_attributes"]
        assert group == ("event.meta.source.name" if action == "run_job_template" else "event.rdma_fabric"), rulebook
    assert {ruleset["execution_strategy"] for rulesets in RULEBOOKS.values() for ruleset in rulesets} == {"sequential"}


@pytest.mark.parametrize("name", sorted({*RULEBOOKS} - {WATCHES}))
def test_a_source_takes_notifications_with_the_token_only(name: str) -> None:
    (ruleset,) = RULEBOOKS[name]
    (source,) = ruleset["sources"]
    assert source["eda.builtin.webhook"]["token"] == "{{ fabric_events_token }}"
    if name in SHIPPED:
        assert source["eda.builtin.webhook"]["host"] == "{{ fabric_events_host | default('127.0.0.1') }}"
        # Localhost stands for the run where every host fails.
        assert ruleset["hosts"] == "localhost,all"
        # With one match only, a notification of two kinds would start one run and lose the other.
        assert ruleset.get("match_multiple_rules", False) is (name == "alerts")


def test_the_guide_names_every_rulebook_and_its_variables() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yml"))
    assert {f"--rulebook rdma.fabric.{name} " in GUIDE for name in SHIPPED} == {True}
    assert set(re.findall(r"\| `(fabric_events_\w+)` \|", GUIDE)) == set(re.findall(r"fabric_events_\w+", text))
    for (rulebook, kind), playbook in STARTS.items():
        told_by = "the taint" if rulebook == WATCHES else f"`rdma_fabric: {kind}`"
        assert re.search(rf"^\| `rdma.fabric.{rulebook}` \| .*{told_by}.*`{playbook}`", GUIDE, re.MULTILINE)


def test_alerts_of_the_guide_reach_the_rulebook_of_their_kind() -> None:
    (group,) = ALERTS
    assert {rule["labels"]["rdma_fabric"] for rule in group["rules"]} == {kind for _rulebook, kind in STARTS}
    ports = {
        name: told(re.search(r"default\((\d+)\)", rulesets[0]["sources"][0]["eda.builtin.webhook"]["port"]))
        for name, rulesets in SHIPPED.items()
        if name != WATCHES
    }
    receivers = {each["name"]: each["webhook_configs"] for each in ALERTMANAGER["receivers"] if len(each) > 1}
    reached = {}
    *routes, last = ALERTMANAGER["route"]["routes"]
    # An alert that a route takes reaches people only by the next route: the one above them is for what none takes.
    assert (last, {route["continue"] for route in routes}) == ({"receiver": "people"}, {True})
    for route in routes:
        (webhook,) = receivers[route["receiver"]]
        # Above 1 MiB, some 1,000 alerts, the source answers 413.
        assert 0 < webhook["max_alerts"] <= 500
        (matcher,) = route["matchers"]
        for kind in re.findall(r'"(.*)"', matcher)[0].split("|"):
            reached[kind] = told(re.search(r":(\d+)/", webhook["url"]))
    assert reached == {kind: ports[rulebook] for rulebook, kind in STARTS if rulebook != WATCHES}


def test_the_job_template_of_the_guide_is_one_of_the_guide_to_awx() -> None:
    awx = (CHECKOUT / "docs" / "controller.yml").read_text(encoding="utf-8")
    for _rulebook, _rule, action, arguments in rules():
        if action == "run_job_template":
            assert f"  - name: {arguments['name']}\n    organization: {arguments['organization']}\n" in awx
