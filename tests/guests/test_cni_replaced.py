# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CNI programs and configurations are replaced ten times while pods with a network start on the node."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ansible_collections.rdma.fabric.tests.guests import pods
from ansible_collections.rdma.fabric.tests.guests.pods import Json, items
from ansible_collections.rdma.fabric.tests.guests.site_runs import ROLLOUT_SECONDS, await_offer, run_site
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.node_programs import CNI_PLUGINS

RESOURCE, NETWORK = "rdma/rdma_shared_device_a", "rdma-shared"
NAMESPACE = "nvidia-network-operator"
UPDATED = {"cni-plugins": "daemonset/cni-plugins-ds", "whereabouts": "daemonset/whereabouts"}
ROUNDS = 5
REPLACED = (
    *(f"/opt/cni/bin/{name}" for name in (*CNI_PLUGINS.packages, "whereabouts")),
    *(f"/etc/cni/net.d/whereabouts.d/whereabouts.{ending}" for ending in ("conf", "kubeconfig")),
)
# Why kubelet tries again, but for files: whereabouts' token ends with its pod, and Multus waits 250 ms for an answer.
NOT_OF_FILES = re.compile("Unauthorized|deadline exceeded|[Tt]imeout|connection refused")
# Tells how often files were replaced by a rename, and what was wrong: one that was written, made or removed in place
# (inotify(7)), a program without an answer, a configuration that can't be read.
WATCHER = """
import collections, ctypes, itertools, json, os, pathlib, select, struct, subprocess, sys
os.nice(19)
libc, event = ctypes.CDLL(None), struct.Struct("iIII")
IN_PLACE, MOVED_TO, NAMES = 0x2 | 0x40 | 0x100 | 0x200, 0x80, "/etc/cni/net.d"
places = ("/opt/cni/bin", NAMES, NAMES + "/multus.d", NAMES + "/whereabouts.d")
folders = {libc.inotify_init(): pathlib.Path(place) for place in places}
for descriptor, folder in folders.items():
    libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_PLACE | MOVED_TO)
files = sorted(path for folder in folders.values() for path in folder.iterdir() if path.is_file())
replaced, flaws = collections.Counter(), collections.Counter()
print("watching", flush=True)
for path in itertools.cycle(files):
    try:
        if os.access(path, os.X_OK):
            asked = dict(input=b'{"cniVersion": "1.0.0"}', env={**os.environ, "CNI_COMMAND": "VERSION"})
            answer = subprocess.run([path], **asked, stdout=subprocess.PIPE, check=True).stdout
            assert json.loads(answer)["supportedVersions"]
        elif path.suffix == ".kubeconfig":
            assert path.read_text().split()[-2] == "current-context:"
        else:
            json.loads(path.read_text())
    except Exception as error:
        flaws[f"{path}: {error!r}"] += 1
    ready = select.select([*folders, sys.stdin], [], [], 0.2)[0]
    for descriptor in folders.keys() & set(ready):
        content = os.read(descriptor, 1 << 16)
        while content:
            _watch, mask, _cookie, size = event.unpack_from(content)
            name, content = content[event.size:][:size].rstrip(b"\\0"), content[event.size + size:]
            changed = folders[descriptor] / os.fsdecode(name)
            if changed in files:
                (flaws if mask & IN_PLACE else replaced)[str(changed)] += 1
    if sys.stdin in ready:
        break
print(json.dumps({"replaced": replaced, "flaws": flaws}))
"""


def installers(lab: Lab, guest: str) -> dict[str, str]:
    """Give the Ready pods on a guest that install programs, by uid."""
    selectors = f"--selector=name in ({', '.join(UPDATED)})", f"--field-selector=spec.nodeName={guest}"
    found = items(lab, "pods", f"--namespace={NAMESPACE}", *selectors)
    return {each["metadata"]["uid"]: pods.name_of(each) for each in found if pods.is_ready(each)}


def update(lab: Lab, guest: str) -> None:
    """Change the DaemonSets that install programs, and wait until a guest's pods are new ones."""
    before = installers(lab, guest)
    pods.kubectl(lab, "rollout", "restart", f"--namespace={NAMESPACE}", *UPDATED.values())

    def is_done() -> bool:
        now = installers(lab, guest)
        return len(now) == len(UPDATED) and not now.keys() & before.keys()

    pods.until(is_done, ROLLOUT_SECONDS, lambda: f"{installers(lab, guest)} in place of {before}")


def start_pods(lab: Lab, guest: str, over: threading.Event, started: list[str]) -> None:
    """Start one pod after the other until it is over; each gets its network."""
    while not over.is_set():
        name = f"starts-{len(started)}"
        try:
            pods.create(lab, [pods.rdma_pod(name, guest, NETWORK, RESOURCE)])
            assert "net1" in pods.networks(lab, name)
        finally:
            pods.delete(lab, name)
        started.append(name)


def await_pods(count: int, started: list[str], starting: Future[None]) -> None:
    """Wait until so many pods have started, or one could not."""
    pods.until(lambda: len(started) >= count or starting.done(), ROLLOUT_SECONDS, lambda: f"{started} have started")


def test_no_pod_meets_half_a_program_or_configuration_while_all_are_replaced(cluster_lab: Lab, tmp_path: Path) -> None:
    lab, guest = cluster_lab, cluster_lab.guests[0]
    run_site(lab, User(tmp_path / "user"))
    await_offer(lab, RESOURCE, 63)
    argv = ["ssh", "-F", str(lab.directory / "ssh_config"), guest, f"exec python3 -I -S -c {shlex.quote(WATCHER)}"]
    over, started = threading.Event(), list[str]()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        try:
            assert watcher.stdout is not None and watcher.stdout.readline() == "watching\n"
            with ThreadPoolExecutor(1) as pool:
                starting = pool.submit(start_pods, lab, guest, over, started)
                try:
                    for number in range(1, ROUNDS + 1):
                        update(lab, guest)
                        await_pods(number, started, starting)
                finally:
                    over.set()
                starting.result()
            seen: Json = json.loads(watcher.communicate(timeout=ROLLOUT_SECONDS)[0])
        except BaseException:
            watcher.kill()
            raise
    assert seen["flaws"] == {}
    assert {path: seen["replaced"].get(path, 0) >= ROUNDS for path in REPLACED} == dict.fromkeys(REPLACED, True)
    failed = items(lab, "events", "--field-selector=reason=FailedCreatePodSandBox")
    said = [each["message"] for each in failed if each["involvedObject"]["name"].startswith("starts-")]
    assert [message for message in said if not NOT_OF_FILES.search(message)] == []
