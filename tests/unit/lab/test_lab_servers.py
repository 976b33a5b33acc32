# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the control plane's programs are told, alone on loopback and with real nodes."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.lab.servers import Exposure, Layout, Spec, controllers, storage_and_api

PROGRAMS = Programs(*(Path("/bin") / name for name in Programs._fields))
EXPOSURE = Exposure("192.168.77.254", 6443)


def api_server(exposure: Exposure | None) -> tuple[Spec, list[str]]:
    (spec,) = (
        each
        for each in storage_and_api(PROGRAMS, Layout(Path("/lab")), audited=False, exposure=exposure)
        if each.name == "kube-apiserver"
    )
    return spec, spec.arguments(spec.fixed_port or 4711)


def test_alone_the_api_server_listens_on_loopback_and_names_no_endpoint() -> None:
    spec, arguments = api_server(None)
    assert spec.fixed_port is None
    assert {"--bind-address=127.0.0.1", "--secure-port=4711", "--endpoint-reconciler-type=none"} <= set(arguments)
    assert not [each for each in arguments if each.startswith("--kubelet-client")]


def test_with_nodes_the_api_server_is_where_they_look_and_may_talk_to_their_kubelets() -> None:
    spec, arguments = api_server(EXPOSURE)
    assert spec.fixed_port == 6443
    assert {"--advertise-address=192.168.77.254", "--secure-port=6443", "--bind-address=0.0.0.0"} <= set(arguments)
    assert "--kubelet-client-certificate=kubelet-client.crt" in arguments
    assert "--kubelet-preferred-address-types=InternalIP" in arguments
    # The endpoint of the service that in-cluster clients use.
    assert not [each for each in arguments if each.startswith("--endpoint-reconciler")]


def test_nobody_plays_the_nodes_where_there_are_real_ones() -> None:
    assert [spec.name for spec in controllers(PROGRAMS)][-1] == "kwok"
    assert "kwok" not in [spec.name for spec in controllers(PROGRAMS, fake_nodes=False)]
