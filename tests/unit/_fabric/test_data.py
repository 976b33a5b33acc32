# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server would refuse of what objects hold is refused by line, without a word of what is secret."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_text


def held(kind: str, lines: str, api_version: str = "v1") -> Fabric:
    return of_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n{lines}")


@pytest.mark.parametrize(
    ("kind", "lines", "path", "problem", "hint"),
    [
        ("ConfigMap", "data: {a: 010}\n", "data.a", "is the number 8", 'quote it: "010"'),
        ("ConfigMap", "data: {a: {b: c}}\n", "data.a", "is a mapping", "put a | before it"),
        ("ConfigMap", "data: text\n", "data", "is text, not a mapping", ""),
        ("ConfigMap", "binaryData: {a: '%'}\n", "binaryData.a", "is not valid base64", "in data"),
        ("Secret", "stringData: {a: 4711}\n", "stringData.a", "is a number; ", "quote it"),
        ("Secret", "data: {a: 4711}\n", "data.a", "is a number; ", "quote it"),
        ("Secret", "data: {a: word4711!}\n", "data.a", "is not valid base64", "in stringData"),
    ],
)
def test_what_is_no_text_is_refused(kind: str, lines: str, path: str, problem: str, hint: str) -> None:
    found = held(kind, lines).wrong(path)
    assert found.line == 4
    assert problem in found.problem
    assert hint in found.hint
    assert kind != "Secret" or "4711" not in found.sentence()


def test_what_is_right_or_somebody_elses_passes() -> None:
    held("Secret", 'data: {a: "YWJj\\nZGVm\\n", b: null}\nstringData: {c: ""}\n').accepted()
    held("ConfigMap", "data: {a: '7'}\nimmutable: true\n").accepted()
    held("Secret", "stringData: {a: 7}\n", "secrets.own.io/v1").accepted()


ADMISSION, DEFINITIONS, EXTENSIONS = (
    f"{name}.k8s.io/v1" for name in ("admissionregistration", "apiextensions", "apiregistration")
)


@pytest.mark.parametrize(
    ("kind", "api_version", "lines", "path"),
    [
        (
            "ValidatingWebhookConfiguration",
            ADMISSION,
            "webhooks: [{name: a, clientConfig: {caBundle: Cg==}}, {name: b, clientConfig: {caBundle: '%'}}]\n",
            "webhooks[1].clientConfig.caBundle",
        ),
        (
            "MutatingWebhookConfiguration",
            ADMISSION,
            "webhooks: [{name: a, clientConfig: {caBundle: 7}}]\n",
            "webhooks[0].clientConfig.caBundle",
        ),
        (
            "CustomResourceDefinition",
            DEFINITIONS,
            "spec: {conversion: {webhook: {clientConfig: {caBundle: abc}}}}\n",
            "spec.conversion.webhook.clientConfig.caBundle",
        ),
        ("APIService", EXTENSIONS, "spec: {caBundle: -----BEGIN}\n", "spec.caBundle"),
    ],
)
def test_a_certificate_that_the_server_can_not_read_is_refused(
    kind: str, api_version: str, lines: str, path: str
) -> None:
    found = held(kind, lines, api_version).wrong(path)
    assert (found.line, found.problem) == (4, "is not valid base64")
    assert "certificate (PEM) as base64" in found.hint


def test_certificates_that_are_right_missing_or_somebody_elses_pass() -> None:
    kind = "ValidatingWebhookConfiguration"
    held(kind, 'webhooks: [{clientConfig: {caBundle: "YWJj\\nZGVm"}}, {clientConfig: {}}, {}]\n', ADMISSION).accepted()
    held(kind, "webhooks: {a: b}\n", ADMISSION).accepted()
    held("APIService", "spec: {caBundle: '%'}\n", "own.io/v1").accepted()
