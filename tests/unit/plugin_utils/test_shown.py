# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of secrets: that they changed, and no form of them in what is said of what holds them."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import CONFIGURED, BatchResult, Change
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.plugins.plugin_utils._drift.objects import cluster_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._scrub.shown import (
    CHANGED,
    secrets_of,
    shown_change,
    shown_difference,
    without_secrets,
)

PASSWORD = 'p@ss/w"ö rd+'
LOGIN = {"auths": {"r.example": {"username": "me", "password": PASSWORD}}}
GIVEN = {
    "a field": {"password": PASSWORD},
    "an environment": {"env": [{"name": "A", "value": PASSWORD}]},
    "a list": {"tokens": ["first", [PASSWORD]]},
    "a Secret": {"kind": "Secret", "stringData": {"a": PASSWORD}},
    "a Secret in Base64": {"kind": "Secret", "data": {"a": base64.b64encode(PASSWORD.encode()).decode()}},
    "a login in a Secret": {"kind": "Secret", "stringData": {".dockerconfigjson": json.dumps(LOGIN)}},
    "a login in Base64": {
        "kind": "Secret",
        "data": {".dockerconfigjson": base64.b64encode(json.dumps(LOGIN).encode()).decode()},
    },
    "JSON within an annotation": {"annotations": {"last": json.dumps({"env": [{"name": "A", "value": PASSWORD}]})}},
    "an address": {"http_proxy": f"http://me:{quote(PASSWORD, safe='')}@proxy.example"},
    "lines": {"privateKey": f"the first line\n{PASSWORD} and what follows\n"},
}
SAID: dict[str, Any] = {
    "as it is": PASSWORD,
    "in the middle of words": f"prefix-{PASSWORD}-tail",
    "as Python writes it": repr({"a": PASSWORD}),
    "as JSON writes it": json.dumps(PASSWORD),
    "in an address": f"http://me:{quote(PASSWORD, safe='')}@proxy.example",
    "in an address, in small letters": quote(PASSWORD, safe="/").lower(),
    "in Base64": base64.b64encode(PASSWORD.encode()).decode(),
    "in Base64 after others": base64.b64encode(f"user:{PASSWORD}:more".encode()).decode(),
    "in Base64 of addresses": base64.urlsafe_b64encode(f"me:{PASSWORD}".encode()).decode(),
    "cut off": f"is {PASSWORD[:9]}...",
    "in a key": {PASSWORD: ["x", {PASSWORD: 1}]},
    "as bytes": [PASSWORD.encode()],
    "in a tuple": (1, PASSWORD),
}


def traces(said: object) -> list[str]:
    """Return what is left of the password in what is said, with no less than eight characters in Base64."""
    text = json.dumps(said, ensure_ascii=False, default=str)
    coded = base64.b64encode(b"\0\0" + PASSWORD.encode()).decode()
    return [part for part in ("p@ss", "p%40ss", "ö rd", "%C3%B6", coded[8:18]) if part in text]


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_no_form_of_what_was_given_is_said(given: dict[str, Any]) -> None:
    left = {way: traces(without_secrets(said, [{"deep": [given]}])) for way, said in SAID.items()}
    # Of several lines, those that are long are known by themselves.
    assert [way for way, found in left.items() if found and given is not GIVEN["lines"]] == []
    assert traces(without_secrets(f"near: {PASSWORD} and what follows", [given])) == []


@pytest.mark.parametrize(
    "said",
    [
        "bad address http://me:hunter2@proxy.example",
        "http_proxy='me:hunter2@proxy.example' is no address",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "the token glpat-hunter2hunter2 is refused",
    ],
)
def test_what_its_form_tells_is_not_said_wherever_it_came_from(said: str) -> None:
    shown = without_secrets({"msg": [said]}, [])
    assert "hunter2" not in str(shown) and MASK in str(shown)


def test_messages_stay_readable() -> None:
    said = "spec.password: must be text (next: quote it); 2 tokens, the key 'env' of rdma_fabric_proxy: is true"
    given = {"password": 5, "env": [{"name": "A", "value": "true"}, {"name": "B", "value": "is"}], "token": "abc"}
    assert without_secrets(said, [given]) == said


def test_what_is_taken_out_is_found_beside_what_stays() -> None:
    found = secrets_of({"args": ["--token=hunter2", "--v=2"], "url": "http://me:hunt%20er@h", "plain": "told"})
    assert found == {"hunter2", "me:hunt%20er", "hunt%20er", "hunt er"}


def container(*variables: tuple[str, str]) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in variables]
    return {"spec": {"containers": [{"name": "main", "image": "a:1", "env": env}]}}


def test_a_change_of_what_is_hidden_is_marked_beside_the_field_of_its_name() -> None:
    before, after = shown_change(
        container(("KEPT", "canary1"), ("GONE", "canary2"), ("MOVED", "canary3")),
        container(("NEW", "canary4"), ("MOVED", "canary5"), ("KEPT", "canary1")),
    )
    assert "canary" not in str([before, after])
    variables = {each["name"]: each["value"] for each in after["spec"]["containers"][0]["env"]}
    assert variables == {"NEW": MASK, "MOVED": CHANGED, "KEPT": MASK}


def secret(**data: str) -> dict[str, Any]:
    return {"kind": "Secret", "metadata": {"name": "a"}, "data": data, "stringData": {"plain": "canary3"}}


@pytest.mark.parametrize("kind", [dict, yaml.safe_dump])
def test_a_difference_of_a_secret_shows_its_keys_and_which_of_them_changed(kind: Any) -> None:
    sides = [secret(same="canary1", moved="canary2"), secret(same="canary1", moved="canary4", new="canary5")]
    entry = {"before_header": "Secret ns/a", "before": kind(sides[0]), "after": kind(sides[1])}
    shown = shown_difference(entry)
    assert "canary" not in str(shown)
    after = shown["after"] if kind is dict else yaml.safe_load(shown["after"])
    assert after["data"] == {"same": MASK, "moved": CHANGED, "new": MASK}
    assert shown["before_header"] == "Secret ns/a"
    for absent in ({**entry, "before": kind({})}, {**entry, "after": kind({})}):
        assert "canary" not in str(shown_difference(absent))


@pytest.mark.parametrize(
    "entry",
    [
        {"prepared": "what a host would do\n"},
        {"before": "", "after": "# why\nkind: ConfigMap # and its comment\n"},
        {"before": {"a": 1}, "after": {"a": [None, 2]}},
        {"before": "3 hosts\n- a: [\n", "after": ""},
    ],
)
def test_a_difference_without_secrets_stays_as_it_is(entry: dict[str, Any]) -> None:
    assert shown_difference(entry) == entry


def test_text_that_is_no_yaml_is_shown_without_secrets() -> None:
    shown = shown_difference({"before": "kind: Secret\ndata:\n  a: [canary\n", "after": "password: canary: x\n"})
    assert "canary" not in str(shown)


def test_drift_tells_the_field_and_neither_value() -> None:
    def stored(*variables: tuple[str, str]) -> dict[str, Any]:
        entry = {"manager": "rdma-fabric", "operation": "Apply", "apiVersion": "v1", "time": "1"}
        names: dict[str, Any] = {f'k:{{"name":"{name}"}}': {".": {}, "f:value": {}} for name, _value in variables}
        main = {'k:{"name":"main"}': {"f:env": names}}
        ours = {**entry, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": main}}}
        return {**container(*variables), "kind": "Pod", "metadata": {"name": "a", "managedFields": [ours]}}

    key = Key("v1", "Pod", "ns", "a")
    found, wanted = stored(("A", "canary1"), ("B", "canary2")), stored(("A", "canary1"), ("B", "canary3"))
    result = BatchResult(changes=[Change(key, "w", CONFIGURED, before=found, after=wanted)])
    (row,) = cluster_part("https://x", [key], result, Key("v1", "ConfigMap", "ns", "inventory"))["objects"]
    assert "canary" not in json.dumps(row)
    (difference,) = row["differences"]
    assert difference["path"] == "spec.containers[0].env[1].value"
    assert (difference["found"], difference["wanted"]) == (MASK, CHANGED)
