# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime's part of CNI: adds pods to networks with the real programs, and deletes them again.

``python -m ansible_collections.rdma.fabric.tests.integration.cni_runtime`` runs as root in network and mount namespaces
of its own, which stand for the node: ``rail0`` is a port with a cable, ``rail1`` another one, to be given to pods. The
folder of a PCI device for ``rail1`` is a stand-in. It reads a ``Request`` as JSON and prints an ``Observed`` for each
configuration. Sources: the CNI specification 1.1.0, sections 2 to 4 (variables, chains, results).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.tests.integration.way_out import WayOut, open_way

Json = dict[str, Any]

INTERFACE = "net1"
PORT, GIVEN = "rail0", "rail1"
PCI_ADDRESS = "0000:18:00.0"
_POD = "pod"
_PRIVATE = ("/run/netns", "/var/lib/cni", "/etc/cni", "/sys/bus/pci/devices")


class Request(NamedTuple):
    """``configs`` by name; ``programs`` are directories. ``server`` leads to the API server; ``files`` are written to
    the node."""

    programs: Sequence[str]
    configs: Mapping[str, Json]
    server: WayOut
    files: Mapping[str, str]


class Observed(NamedTuple):
    """``problem`` is what a program refused, else empty. ``link`` and ``routes`` are the pod's, as ip(8) shows them.
    ``left`` is what the node has after the deletion and had not before."""

    problem: str
    link: Json
    routes: list[Json]
    left: list[str]


def main() -> None:
    """Serve one request."""
    request = Request(**json.load(sys.stdin))
    _lay_out(request)
    seen = {name: _served(request, config)._asdict() for name, config in request.configs.items()}
    json.dump(seen, sys.stdout)


def _lay_out(request: Request) -> None:
    for place in _PRIVATE:
        Path(place).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    for path, text in request.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    device = Path("/sys/bus/pci/devices", PCI_ADDRESS)
    (device / "net" / GIVEN).mkdir(parents=True)
    (device.parent / "drivers" / "mlx5_core").mkdir(parents=True)
    (device / "driver").symlink_to("../drivers/mlx5_core")
    for name, far in ((PORT, "far0"), (GIVEN, "far1")):
        _ip("link", "add", name, "mtu", "9000", "type", "veth", "peer", "name", far)
        for end in (name, far):
            _ip("link", "set", end, "up")
    open_way(*request.server)


def _served(request: Request, config: Json) -> Observed:
    """Add a new pod to one network, look, and delete it."""
    before = _state()
    _ip("netns", "add", _POD)
    problem, result, link, routes = "", None, {}, []
    plugins = config.get("plugins", [config])
    for plugin in plugins:
        problem, result = _run(request, "ADD", config, plugin, result)
        if problem:
            break
    if not problem:
        (link,) = json.loads(_ip("-json", "-details", "address", "show", "dev", INTERFACE, pod=True))
        routes = json.loads(_ip("-json", "route", "show", pod=True))
    for plugin in reversed(plugins):
        problem = problem or _run(request, "DEL", config, plugin, result)[0]
    _ip("netns", "delete", _POD)
    return Observed(problem, link, routes, sorted(_state() - before))


def _run(request: Request, command: str, config: Json, plugin: Json, result: Json | None) -> tuple[str, Json | None]:
    """Run one program; return what it refused and its result."""
    given = {"cniVersion": config["cniVersion"], "name": config["name"], **plugin}
    if result is not None:
        given["prevResult"] = result
    variables = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": "c0ffee",
        "CNI_NETNS": f"/run/netns/{_POD}",
        "CNI_IFNAME": INTERFACE,
        "CNI_PATH": ":".join(request.programs),
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=c0ffee",
    }
    places = (Path(directory, plugin["type"]) for directory in request.programs)
    program = next((place for place in places if place.is_file()), None)
    if program is None:
        return f"there is no program {plugin['type']}", None
    done = subprocess.run(
        [program],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=60,
    )
    if done.returncode:
        return f"{plugin['type']}: {done.stdout or done.stderr}", None
    return "", json.loads(done.stdout) if done.stdout else None


def _state() -> set[str]:
    """What a network may leave on the node: links, their addresses, and files of address management."""
    links = json.loads(_ip("-json", "address", "show"))
    names = {link["ifname"] for link in links}
    addresses = {entry["local"] for link in links for entry in link["addr_info"] if entry.get("scope") == "global"}
    files = Path("/var/lib/cni").rglob("*")
    reservations = {str(path) for path in files if path.is_file() and path.name not in {"lock", "last_reserved_ip.0"}}
    return {*names, *addresses, *reservations}


def _ip(*words: str, pod: bool = False) -> str:
    inside = ["-netns", _POD] if pod else []
    return subprocess.run(["ip", *inside, *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
